"""One process that the tests started: signal it, wait for its end, know whether it still lives.

A process is known by pid and start time, so that a recycled pid is never signalled. It can be written to a file and
found again by another program (tests/lib/servers stop).
"""
import os
import signal
import subprocess

from .wait import WaitTimeout, wait_until


class Process:
    def __init__(self, pid, started, popen=None):
        self.pid, self._started, self._popen = pid, started, popen

    @classmethod
    def spawn(cls, argv, log, env=None, cwd=None):
        """Start argv in a session of its own; stdout and stderr are appended to the file log."""
        with open(log, "ab") as out:
            popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=cwd,
                                     start_new_session=True)
        return cls(popen.pid, _start_time(popen.pid), popen)

    @classmethod
    def load(cls, path):
        """The process that save() wrote to path, or None."""
        try:
            with open(path, encoding="ascii") as file:
                pid, started = file.read().split()
        except FileNotFoundError:
            return None
        return cls(int(pid), started)

    def save(self, path):
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{self.pid} {self._started}\n")

    @property
    def returncode(self):
        return self._popen.poll() if self._popen else None

    def alive(self):
        if self._popen:
            return self._popen.poll() is None
        return _start_time(self.pid) == self._started

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, timeout, what="the end of a process"):
        """Wait until it has ended and return its exit code (None when another program started it)."""
        wait_until(lambda: not self.alive(), timeout, f"{what} (pid {self.pid})")
        return self.returncode

    def stop(self, number, timeout):
        """Send a signal and wait; after timeout kill it and raise."""
        self.signal(number)
        try:
            return self.wait(timeout)
        except WaitTimeout:
            self.kill()
            raise

    def kill(self):
        """SIGKILL the process and its children, and wait until all of them are gone."""
        family = [self] + [Process(pid, _start_time(pid)) for pid in _children(self.pid) if self.alive()]
        for member in family:
            member.signal(signal.SIGKILL)
        for member in family:
            member.wait(10, "the end of a killed process")


def _stat(pid):
    """The fields of /proc/PID/stat after the command name, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _start_time(pid):
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else None


def _children(pid):
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [child for child in processes if (fields := _stat(child)) and int(fields[1]) == pid]

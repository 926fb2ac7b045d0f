"""The daemon under test as a process, and its commands.

An Effectd owns one folder with its INI file, its runtime folder and its log (stderr).
"""
import json
import os
import re
import signal
import subprocess
from collections import namedtuple

from . import build, config
from .process import Process
from .wait import WaitTimeout, wait_until

Result = namedtuple("Result", "rc stdout stderr")


def effectd(*args, stdin=None, env=None, timeout=60):
    """Run a command of effectd to its end."""
    build.require()
    done = subprocess.run([build.EFFECTD, *map(str, args)], input=stdin if stdin is not None else "",
                          env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    return Result(done.returncode, done.stdout, done.stderr)


def keep_up(daemons, until, timeout=60, meanwhile=None):
    """Start daemons again as often as they end, as a service manager does, until until() is true.

    meanwhile is called between an end and the next start. Returns the exit codes that they ended with.
    """
    codes = []

    def look():
        for one in daemons:
            if not one.alive():
                codes.append(one.wait_exit())
                if meanwhile:
                    meanwhile()
                mark = one.mark()
                one.start()
                one.wait_log(r"event=starting\b", since=mark)  # from here on it takes signals
        return until()
    wait_until(look, timeout, "what a service manager keeps it up for",
               explain=lambda: f"it ended with {codes}; " + "\n".join(one.log_tail() for one in daemons))
    return codes


class Effectd:
    """One `effectd run`, used as a context manager: it is stopped at the end, and must then exit 0."""

    def __init__(self, folder, sections, args=(), env=None):
        """sections is a dict (see config.py) or INI text; the folder is made."""
        os.makedirs(folder, exist_ok=True)
        self.folder = str(folder)
        self.file = os.path.join(self.folder, "effectd.ini")
        self.log_file = os.path.join(self.folder, "effectd.log")
        self._args, self._env = list(args), {**os.environ, **(env or {})}
        self._process = None
        self.configure(sections)

    def configure(self, sections):
        """Write the INI file anew."""
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(sections if isinstance(sections, str) else config.text(sections))

    def start(self):
        build.require()
        self._process = Process.spawn(["setpriv", "--pdeathsig=KILL", build.EFFECTD, "run", "-c", self.file,
                                       *self._args], self.log_file, env=self._env)
        return self

    def stop(self, timeout=30):
        """SIGTERM, and require exit code 0."""
        if not self._process:
            return
        self._process.signal(signal.SIGTERM)
        try:
            code = self._process.wait(timeout, "effectd to drain after SIGTERM")
        except WaitTimeout as error:
            self._process.kill()
            raise AssertionError(f"{error}; {self.log_tail()}") from None
        assert code == 0, f"effectd ended with {code}; {self.log_tail()}"
        self._process = None

    def kill(self):
        """SIGKILL."""
        self._process.kill()
        self._process = None

    def restart(self):
        self.stop()
        self.start()

    def wait_exit(self, timeout=30):
        """Wait for its end without asking for it, and return the exit code."""
        code = self._process.wait(timeout, "effectd to end by itself")
        self._process = None
        return code

    def signal(self, number):
        self._process.signal(number)

    def alive(self):
        return bool(self._process and self._process.alive())

    @property
    def pid(self):
        return self._process.pid

    def log(self):
        try:
            with open(self.log_file, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def mark(self):
        """The log's present length, for wait_log's since."""
        return len(self.log())

    def wait_log(self, pattern, timeout=15, since=0):
        """Wait for a log line that matches, and return the match."""
        return wait_until(lambda: self._search(pattern, since), timeout, f"a log line like {pattern!r}",
                          explain=self.log_tail)

    def matches(self, pattern):
        """All log lines that match."""
        return [line for line in self.log().splitlines() if re.search(pattern, line)]

    def log_tail(self, lines=30):
        return f"end of {self.log_file}:\n" + "\n".join(self.log().splitlines()[-lines:])

    def command(self, *args, **options):
        """Run a command with this daemon's INI file."""
        return effectd(*args, "-c", self.file, **options)

    def status(self):
        """What `effectd status --json` answers."""
        return json.loads(self.command("status", "--json").stdout)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        if kind and self._process:
            self.kill()
        else:
            self.stop()

    def _search(self, pattern, since):
        match = re.search(pattern, self.log()[since:], re.MULTILINE)
        if not match and not self.alive():
            code = self._process.returncode if self._process else None
            raise AssertionError(f"effectd ended with {code} before a log line like {pattern!r}; {self.log_tail()}")
        return match

"""One process of a contender: started, watched, and what it cost when it has ended."""
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass

LOOK_S = 0.1  # between two looks at a process: looking must not load the machine


@dataclass
class Cost:
    cpu_s: float     # user and system time of the whole process, exact
    peak_mib: float  # resident memory at its highest, as last seen while the process lived
    output: str


class Client:
    def __init__(self, argv, env, log):
        """Start argv; log gets what it prints. It dies with the bench."""
        self.log = log
        with open(log, "wb") as out:
            self._popen = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *map(str, argv)], env={**os.environ, **env},
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.pid = self._popen.pid
        self._name = os.path.basename(str(argv[0]))
        self._peak_mib = 0.0

    def terminate(self):
        os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        if self._popen.returncode is None:
            self._popen.kill()
            self._popen.wait()

    def look(self):
        """Note how much memory it has used so far."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
                match = re.search(r"^VmHWM:\s+(\d+) kB", file.read(), re.MULTILINE)
        except ProcessLookupError:
            return
        if match:
            self._peak_mib = int(match[1]) / 1024

    def ended(self):
        """Its Cost when it has ended, which must be with exit code 0; else None."""
        self.look()
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not pid:
            return None
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        if self._popen.returncode != 0:
            raise RuntimeError(f"{self._name} ended with {self._popen.returncode}:\n{self.output()}")
        return Cost(usage.ru_utime + usage.ru_stime, self._peak_mib, self.output())

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]


def wait_all(clients, timeout):
    """Wait until all of them have ended; the Cost of each."""
    costs = {}
    deadline = time.monotonic() + timeout
    while True:
        costs.update({client: cost for client in clients if client not in costs and (cost := client.ended())})
        if len(costs) == len(clients):
            return [costs[client] for client in clients]
        if time.monotonic() > deadline:
            raise RuntimeError(f"a contender did not end within {timeout} s:\n{clients[-1].output()}")
        time.sleep(LOOK_S)

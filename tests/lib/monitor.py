"""The daemon from outside: its HTTP interface, and what it tells a service manager."""
import http.client
import os
import re
import shutil
import socket
import tempfile
from collections import namedtuple

from .ports import free_ports
from .wait import wait_until

Answer = namedtuple("Answer", "status headers body")

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r"^([a-z_][a-z0-9_]*)(?:\{(.*)\})? ([^ ]+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')


class Monitor:
    """The HTTP interface of a daemon that is configured with listen."""

    def __init__(self):
        self.port, = free_ports(1)
        self.listen = f"127.0.0.1:{self.port}"

    def get(self, path, method="GET", body=None, timeout=5, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def live(self):
        return self.get("/healthz").status == 200

    def reasons(self):
        """The words for which the daemon is not ready; empty: it is ready, or None: nobody answers."""
        try:
            answer = self.get("/readyz")
        except OSError:
            return None
        assert answer.status in (200, 503), answer
        lines = [line for line in answer.body.splitlines() if not line.startswith("note: ")]
        assert (answer.status == 200) == (lines == ["ready"]), answer
        return set() if answer.status == 200 else {line.partition(":")[0] for line in lines}

    def wait_reasons(self, *words, timeout=20):
        wait_until(lambda: self.reasons() == set(words), timeout, f"the daemon's reasons to be {words or 'none'}",
                   explain=lambda: f"they are {self.reasons()}")

    def metrics(self, **headers):
        return Metrics(self.get("/metrics", **headers).body)


class Metrics:
    """Samples of one answer, strictly parsed: a line that is none of those that the format knows is an error."""

    def __init__(self, text):
        self.text, self.types, self.samples = text, {}, {}
        family = None
        for line in text.splitlines():
            if line.startswith("# HELP ") or line == "# EOF":
                continue
            if line.startswith("# TYPE "):
                _, _, family, kind = line.split(" ")
                assert family not in self.types, f"{family} comes twice"
                self.types[family] = kind
                continue
            name, labels, value = SAMPLE.match(line).groups()
            pairs = LABEL.findall(labels or "")
            assert "".join(f'{key}="{text}",' for key, text in pairs).rstrip(",") == (labels or ""), line
            assert name.startswith(family), f"{name} stands under {family}"
            sample = name, frozenset(pairs)
            assert sample not in self.samples, f"{line} comes twice"
            self.samples[sample] = float(value)

    def value(self, name, **labels):
        """The one sample with exactly these labels."""
        return self.samples[name, frozenset(labels.items())]

    def sum(self, name, **labels):
        """The sum over all samples that have these labels, whatever others they have."""
        wanted = frozenset(labels.items())
        found = [value for (sample, has), value in self.samples.items() if sample == name and wanted <= has]
        assert found, f"there is no {name} with {labels}"
        return sum(found)


class ServiceManager:
    """The receiving end of sd_notify."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="effectd-notify-")
        self.path = os.path.join(self._folder, "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)
        self.told = []

    def env(self, watchdog_s=None):
        """The environment of a daemon that it starts."""
        return {"NOTIFY_SOCKET": self.path,
                **({"WATCHDOG_USEC": str(int(watchdog_s * 1e6))} if watchdog_s is not None else {})}

    def listen(self):
        """All that was told until now, as lines."""
        while True:
            try:
                self.told += self._socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return self.told

    def wait(self, pattern, timeout=15, since=0):
        """Wait for a line that matches, and return it."""
        return wait_until(lambda: next((line for line in self.listen()[since:] if re.fullmatch(pattern, line)), None),
                          timeout, f"the service manager to hear {pattern!r}", explain=lambda: str(self.told))

    def count(self, line):
        return self.listen().count(line)

    def close(self):
        self._socket.close()
        shutil.rmtree(self._folder)

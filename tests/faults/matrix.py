"""One cell of the fault matrix: a process at whose fault point something happens, one beside it that is well, and a
load with copies, messages that are rejected, ignored, and retried later. The checker looks at what is left."""
import contextlib
import os
import random
import re
import signal

from lib import build
from lib.checker import Checker
from lib.wait import WaitTimeout, wait_until
from stage import CONSUMER, QUEUE, script

EXIT, DELAY, ERROR, CUT_POSTGRESQL, CUT_AMQP = "exit", "delay", "error", "cut postgresql", "cut amqp"
ACTIONS = (EXIT, DELAY, ERROR, CUT_POSTGRESQL, CUT_AMQP)
SPEC = {EXIT: "exit", ERROR: "error", DELAY: "delay:200"}
CUT_SPEC = "delay:500"  # while it stands there the connections are cut
EXIT_CODE = 86
WORKERS = 2
SETTINGS = {"workers": WORKERS, "batch_max": 10, "prefetch": 12, "retry_min": "20ms", "retry_max": "50ms",
            "max_attempts": 1000}
EFFECTS = "SELECT key, count(*) FROM effects GROUP BY 1"
# To be retried until there is a thing.
LATER = (["run_retry", "INSERT INTO children SELECT 99 WHERE NOT EXISTS (SELECT FROM things)"], ["effect"])
RETRYING = "SELECT count(*) FROM effectd.parked_messages WHERE status = 'retry'"
PATIENCE_S = 60
LOADS, LOAD_S = 6, 5  # so many loads, and so long after each, until the process must have come to its point


def points(*groups):
    """The names of the fault points of these groups, as the table of base/fault.h has them."""
    with open(os.path.join(build.ROOT, "core", "base", "fault.h"), encoding="utf-8") as file:
        text = file.read()
    found = []
    for group in groups:
        table, = re.findall(rf"#define FAULT_POINTS_OF_{group}\(X, arg\)((?:.*\\\n)*.*)", text)
        found += re.findall(r"\bX\((\w+), arg\)", table)
    return found


def hit(point):
    """The log line of a process that stands at the point."""
    return rf"event=fault_point\b.*\bpoint={point}\b"


DRAINS = points("DRAINS")
RARE = ["before_park", "crash_counted", *points("RETRIES", "DRAINS")]  # what a load passes only now and then


class Matrix:
    """A stage whose process `a` reaches both servers through proxies, and whose process `b` stands beside it."""

    def __init__(self, stage, runtime_dir, pg_proxy, mq_proxy, seed=0):
        self.stage, self._runtime_dir, self._rng = stage, runtime_dir, random.Random(seed)
        self.proxies = {CUT_POSTGRESQL: pg_proxy, CUT_AMQP: mq_proxy}
        self._pg_proxy, self._mq_proxy = pg_proxy, mq_proxy
        self._next = self._cells = 0
        self.applies, self.rejects = set(), set()
        stage.declare()

    def process(self, name, fault=None, runtime=None):
        """An effectd through the proxies, not started yet."""
        return self._make(name, runtime or "a", fault=fault, broker={"url": self._mq_proxy.url(self.stage.vhost)},
                          database={"conninfo": self._pg_proxy.conninfo(self.stage.db)})

    def beside(self):
        """An effectd that nothing happens to."""
        return self._make("b", "b")

    def _make(self, name, runtime, **settings):
        folder = os.path.join(self._runtime_dir, runtime)
        os.makedirs(folder, exist_ok=True)
        return self.stage.daemon(name, process={"runtime_dir": folder}, **SETTINGS, **settings)

    def cell(self, point, action):
        """Let it happen at that point in the middle of a load, wait until all is settled, and check."""
        spec = SPEC.get(action, CUT_SPEC)
        nth = 1 if point in RARE else 2
        self._cells += 1
        daemon = self.process(f"{self._cells} {point} {action}", f"{point}={spec}@{nth}").start()
        self.stage.ready(daemon, WORKERS)
        self._reach(daemon, point)
        if action == EXIT:
            assert daemon.wait_exit() == EXIT_CODE, daemon.log_tail()
            daemon = self.process(f"{self._cells} again").start()
        if action in self.proxies:
            self._cut(self.proxies[action])
        self.settle()
        if point in DRAINS and action != EXIT:
            assert daemon.wait_exit() == 0, daemon.log_tail()
        daemon.stop()
        self.check()

    def _reach(self, daemon, point):
        """Publish until the process stands at the point."""
        for _ in range(LOADS):
            self.load()
            if point in DRAINS:
                daemon.signal(signal.SIGTERM)
            with contextlib.suppress(WaitTimeout):
                return wait_until(lambda: daemon.matches(hit(point)), LOAD_S, f"{point} to be passed")
        raise AssertionError(f"{point} was never passed: this cell proves nothing; {daemon.log_tail()}")

    @staticmethod
    def _cut(proxy):
        assert proxy.connections() > 0, "there was nothing to be cut"
        proxy.cut()

    def load(self):
        """Publish a hundred messages in any order: every third twice, some that came before, and odd ones."""
        names = [self._name("k") for _ in range(50)]
        rejects, ignores, later = ([self._name(kind) for _ in range(count)]
                                   for kind, count in (("reject", 12), ("ignore", 4), ("retry", 3)))
        old = self._rng.sample(sorted(self.applies), min(10, len(self.applies)))
        messages = [script(name) for name in [*names, *names[::3], *old]]
        messages += [script(name, verdict="reject") for name in [*rejects, *rejects[::4]]]
        messages += [script(name, verdict="ignore") for name in ignores]
        messages += [script(name, *LATER) for name in [*later, *later[::4]]]
        self._rng.shuffle(messages)
        self.stage.send(*messages)
        self.applies.update(names, later)
        self.rejects.update(rejects)

    def _name(self, kind):
        self._next += 1
        return f"{kind}-{self._next}"

    def settle(self):
        """Wait until nothing is on its way any more. What a dead process leased is given free, as time would do it."""
        self.stage.vhost.wait_empty(QUEUE, timeout=PATIENCE_S)
        if self.stage.db.value(RETRYING) == 0:
            return
        self.stage.db.execute("INSERT INTO things DEFAULT VALUES")
        self.stage.db.execute("UPDATE effectd.parked_messages SET leased_until = NULL WHERE status = 'retry'")
        wait_until(lambda: self.stage.db.value(RETRYING) == 0, PATIENCE_S, "all retries to be applied", interval=0.1,
                   explain=self.stage.parked)
        self.stage.db.execute("DELETE FROM things")

    def check(self):
        """Assert every invariant, and that the fault cost no message more than time."""
        stage = self.stage
        log = [message for message in stage.publisher.log if not message.key.startswith("ignore-")]
        counts = Checker(log, stage.vhost, stage.db, CONSUMER, QUEUE, EFFECTS).check()
        assert counts == {"published": len(self.applies | self.rejects), "applied": len(self.applies),
                          "parked": len(self.rejects), "queued": 0}, counts
        odd = [row for row in stage.parked() if (row.status, row.reason) != ("dead", "rejected")]
        assert not odd, f"parked for the environment: {odd[:5]}"

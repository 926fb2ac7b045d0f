"""How long claims wait for their answer: effectd's own histogram over a span of time, and what PostgreSQL says of the
long ones. Two spans side by side tell whether something makes claims wait or the machine does."""
import re
import threading
from collections import Counter

LOOK_S = 0.02
LONG_MS = 100  # what the server's log speaks of (deadlock_timeout) and the table counts
SETTINGS = {"log_lock_waits": "on", "deadlock_timeout": f"{LONG_MS}ms"}
# Claims that are under way for a while, and what they wait for; nothing: they run, or would like to.
SLOW = ("SELECT pid, query_start, coalesce(wait_event_type || ':' || wait_event, 'the processor') FROM pg_stat_activity "
        "WHERE application_name LIKE 'effectd/loyalty/%' AND state = 'active' "
        "AND query LIKE 'INSERT INTO effectd.processed_messages%' "
        "AND clock_timestamp() - query_start > interval '50 ms'")
LOCK_WAIT = re.compile(r" effectd/loyalty/\S* LOG:  process \d+ still waiting for (\w+) on (\w+)")
BUCKET = "effectd_claim_wait_seconds_bucket"


def read(monitor):
    """Batches whose claims were answered within each bound, in ms; infinity: all of them."""
    return {float(dict(labels)["le"]) * 1000: int(value)
            for (name, labels), value in monitor.metrics().samples.items() if name == BUCKET}


class Span:
    """A context manager around a span of a run."""

    def __init__(self, monitor, server):
        self._monitor, self._server = monitor, server
        self._end = threading.Event()
        self._slow = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._before = read(self._monitor)
        with open(self._server.log, "rb") as log:
            self._mark = log.seek(0, 2)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._after = read(self._monitor)
        self._end.set()
        self._thread.join()
        with open(self._server.log, "rb") as log:
            log.seek(self._mark)
            self._locks = Counter(f"{mode} on a {kind}" for mode, kind in
                                  LOCK_WAIT.findall(log.read().decode(errors="replace")))

    def _watch(self):
        with self._server.connect() as connection:
            while not self._end.wait(LOOK_S):
                for pid, since, what in connection.execute(SLOW):
                    self._slow.setdefault((pid, since), Counter())[what] += 1

    def figures(self):
        """What several spans can be added up from."""
        return Figures(Counter({bound: self._after[bound] - self._before[bound] for bound in self._after}), self._locks,
                       Counter(waits.most_common(1)[0][0] for waits in self._slow.values()))


class Figures:
    """Of one span or of several."""

    def __init__(self, within=(), locks=(), slow=()):
        """within[ms]: batches; locks: waits for a lock by kind; slow: claims over 50 ms by what they waited for."""
        self.within, self.locks, self.slow = Counter(within), Counter(locks), Counter(slow)

    def add(self, other):
        self.within += other.within
        self.locks += other.locks
        self.slow += other.slow

    @property
    def count(self):
        return self.within[float("inf")]

    @property
    def late(self):
        return self.count - self.within[LONG_MS]


def table(title, spans):
    """spans: Figures by name. Lines of text, one column for each."""
    bounds = sorted(set().union(*(figures.within for figures in spans.values())))
    lines = [f"{title:44}" + "".join(f"{name:>22}" for name in spans)]
    for low, high in zip([0.0, *bounds], bounds):
        shares = [figures.within[high] - figures.within[low] for figures in spans.values()]
        if any(shares):
            name = f"  up to {high:g} ms" if high != float("inf") else f"  longer than {low:g} ms"
            lines.append(f"{name:44}" + "".join(f"{batches:14,} {100 * batches / max(one.count, 1):5.1f} %" for
                                                batches, one in zip(shares, spans.values())))
    lines.append(f"{f'  of all, longer than {LONG_MS} ms':44}"
                 + "".join(f"{f'{one.late} of {one.count:,}':>22}" for one in spans.values()))
    for name, figures in spans.items():
        for what, found in (("waits for a lock of that length", figures.locks), ("over 50 ms, seen at", figures.slow)):
            if found:
                lines.append(f"  {name}: {what}: " + ", ".join(f"{kind} {n}" for kind, n in found.most_common()))
    return "\n".join(lines)

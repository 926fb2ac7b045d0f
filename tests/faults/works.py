"""Three consumers at work: orders, some of them twice, through an exchange to a queue for each shipped plugin, and
processes that host all three. A test breaks what it wants meanwhile; at the end the checker must find nothing wrong."""
import os
import random
import re
import threading

import pika

from lib import checker, config
from lib.publisher import Publisher
from lib.wait import wait_until

PLUGINS = {"loyalty": "loyalty_points", "analytics": "analytics", "receipts": "receipts"}
QUEUE_TYPES = {"loyalty": "quorum", "analytics": "classic", "receipts": "quorum"}
EXCHANGE, ROUTING_KEY = "orders", "order.completed"
WORKERS = 2
FULL_PREFETCH = re.compile(rb"\bevent=consuming\b.*\bprefetch=(?!1\b)\d+")
PATIENCE_S = 60


def queue(consumer):
    return f"{consumer}.order-completed"


class Works:
    def __init__(self, database, vhost, make_daemon, folder, arguments=None, queue_types=None, **settings):
        """make_daemon(sections, name=...) gives an Effectd; arguments are all queues', settings all consumers'."""
        self.database, self.vhost = database, vhost
        self._make_daemon, self._folder = make_daemon, folder
        self._settings = {"workers": WORKERS, "batch_max": 10, "prefetch": 12, **settings}
        for consumer, queue_type in (queue_types or QUEUE_TYPES).items():
            vhost.declare(queue(consumer), queue_type=queue_type, arguments=arguments)
        vhost.bind(EXCHANGE, ROUTING_KEY, *map(queue, PLUGINS))
        self.publisher = Publisher(vhost, EXCHANGE, ROUTING_KEY)

    def process(self, name, broker=None, **process):
        """An effectd with all three consumers, not started yet."""
        runtime_dir = os.path.join(self._folder, name)
        os.makedirs(runtime_dir, exist_ok=True)
        sections = config.base(self.database, self.vhost, runtime_dir)
        sections["effectd"].update({"log_level": "info", **process})
        sections["broker:main"].update(broker or {})
        for consumer, plugin in PLUGINS.items():
            sections[f"consumer:{consumer}"] = config.consumer(plugin, queue(consumer), **self._settings)
        return self._make_daemon(sections, name=name)

    def traffic(self, seed=0):
        """A context in which orders come in, never far more than are consumed."""
        return Traffic(self.publisher, self.vhost, random.Random(seed))

    def progress(self):
        """What each consumer has applied so far."""
        return {**dict.fromkeys(PLUGINS, 0),
                **dict(self.database.rows("SELECT consumer, count(*) FROM effectd.processed_messages GROUP BY 1"))}

    def wait_progress(self, more=100, timeout=PATIENCE_S, explain=None):
        """Wait until each consumer has applied so many more."""
        before = self.progress()
        wait_until(lambda: all(now >= before[consumer] + more for consumer, now in self.progress().items()), timeout,
                   f"each consumer to apply {more} more than {before}", interval=0.1,
                   explain=lambda: f"they are at {self.progress()}; {explain() if explain else ''}")

    def wait_empty(self, timeout=PATIENCE_S):
        self.vhost.wait_empty(*map(queue, PLUGINS), timeout=timeout)

    def check(self):
        """Assert every invariant. No process is running, or it has nothing left to do. Returns what was counted."""
        log = self.publisher.log
        counts = {consumer: checker.Checker(log, self.vhost, self.database, consumer, queue(consumer)).check()
                  for consumer in PLUGINS}
        checker.check_loyalty_sums(self.database)
        checker.check_loyalty_orders(log, self.database)
        checker.check_analytics_sums(log, self.database)
        return counts

    def check_all_applied(self):
        """The same, and whatever was published is applied: nothing is parked and nothing left in a queue."""
        for consumer, count in self.check().items():
            assert count["applied"] >= count["published"] > 0 and not count["parked"] and not count["queued"], \
                f"{consumer}: {count}, parked: {self.parked()}"

    def parked(self):
        return self.database.rows("SELECT consumer, message_key, status, reason, sqlstate, detail "
                                  "FROM effectd.parked_messages ORDER BY id LIMIT 10")


class Traffic:
    """A thread that publishes while it is inside the context; a broker that is away it waits for.

    Each tenth message is a copy of an older one. It goes on when the queue of one consumer is nearly empty.
    """

    CHUNK, COPIES = 270, 30
    ENOUGH = 600

    def __init__(self, publisher, vhost, rng):
        self._publisher, self._vhost, self._rng = publisher, vhost, rng
        self._next = 1
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failed = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._end.set()
        self._thread.join(PATIENCE_S)
        if self._failed and kind is None:
            raise self._failed

    def _run(self):
        try:
            while not self._end.is_set():
                if self._wanted():
                    self._publish()
                else:
                    self._end.wait(0.05)
        except Exception as error:  # told at the end of the context
            self._failed = error

    def _wanted(self):
        try:
            with self._vhost.connect() as connection:
                declared = connection.channel().queue_declare(queue("loyalty"), passive=True)
                return declared.method.message_count < self.ENOUGH
        except pika.exceptions.AMQPError:
            return False

    def _publish(self):
        fresh = range(self._next, self._next + self.CHUNK)
        self._next = fresh.stop
        ids = [*fresh, *(self._rng.randrange(1, fresh.stop) for _ in range(self.COPIES))]
        self._rng.shuffle(ids)
        self._publisher.publish(self._publisher.order(order_id) for order_id in ids)


class Life:
    """How far one life of a process has come, read from its log."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._start = os.path.getsize(daemon.log_file) if os.path.exists(daemon.log_file) else 0

    def consuming(self):
        """How many workers have left probation."""
        try:
            with open(self._daemon.log_file, "rb") as log:
                log.seek(self._start)
                return len(FULL_PREFETCH.findall(log.read()))
        except FileNotFoundError:
            return 0

    def is_full(self):
        return self.consuming() >= WORKERS * len(PLUGINS)

    def wait_full(self, timeout=2 * PATIENCE_S):
        """Wait until all its workers consume at full prefetch."""
        wait_until(lambda: self.is_full() or not self._daemon.alive(), timeout, "all workers to leave probation",
                   explain=self._daemon.log_tail)
        assert self._daemon.alive(), f"effectd ended by itself; {self._daemon.log_tail()}"


def start(daemon):
    """Start it and return its life."""
    life = Life(daemon)
    daemon.start()
    return life

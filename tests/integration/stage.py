"""A stage for one test: a database, a queue, consumers whose plugin does what each message says, and what came of it.

The plugin is tests/plugins/scripted.c; its head tells what a message can say.
"""
import contextlib
import json
import re
from collections import Counter, namedtuple

from lib import config, publisher, summary
from lib.summary import outcomes  # noqa: F401: for the tests
from lib.wait import wait_until

CONSUMER, QUEUE = "work", "work"
# By a row of somebody else's: what hosts, keepers and starts agree upon among themselves has other locks, or this row.
BLOCKED = """SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event <> 'advisory'
    AND application_name LIKE 'effectd/%' AND query NOT LIKE '%effectd.consumers%'"""

FULL_PREFETCH = re.compile(r"^.*\bevent=consuming\b.*\bprefetch=(?!1\b)\d+", re.MULTILINE)

Parked = namedtuple("Parked", "key status reason sqlstate detail deliveries")


def script(key, *do, **more):
    """A message: its key, the statements that it queues (none: its effect), and what else scripted.c knows."""
    return {"key": key, **({"do": [list(statement) for statement in do]} if do else {}), **more}


def run(sql):
    """A statement that runs this SQL."""
    return ["run", sql]


class Stage:
    def __init__(self, db, vhost, publisher, daemon, runtime_dir):
        self.db, self.vhost, self.publisher, self._daemon = db, vhost, publisher, daemon
        self._base = config.base(db, vhost, runtime_dir)
        self.sent = []

    def declare(self, *queues, **options):
        self.vhost.declare(*(queues or [QUEUE]), **options)
        return self

    def message(self, message, queue=QUEUE, **properties):
        """A message for send(), of a script or a body as bytes, with properties of its own."""
        properties = {"routing_key": queue, **properties}
        if isinstance(message, bytes):
            return self.publisher.message(message, **properties)
        return self.publisher.message(json.dumps(message).encode(), message.get("key"), **properties)

    def send(self, *messages, queue=QUEUE, **properties):
        """Publish messages (those of message(), scripts, or bodies as bytes) and require the broker's confirms."""
        sent = self.publisher.publish([message if isinstance(message, publisher.Published)
                                       else self.message(message, queue, **properties) for message in messages])
        assert {message.outcome for message in sent} <= {publisher.CONFIRMED}
        return sent

    def sections(self, consumers=None, plugin="scripted", process=None, database=None, broker=None, **settings):
        """An INI file: consumers maps names to queues (default: one), settings are the same for all of them."""
        sections = {name: dict(keys) for name, keys in self._base.items()}
        sections["effectd"].update(process or {})
        sections["database:main"].update(database or {})
        sections["broker:main"].update(broker or {})
        for name, queue in (consumers or {CONSUMER: QUEUE}).items():
            sections[f"consumer:{name}"] = config.consumer(plugin, queue, **{"workers": 1, **settings})
        return sections

    def daemon(self, name="effectd", fault=None, **settings):
        """An effectd that is not started yet; fault is EFFECTD_FAULT."""
        return self._daemon(self.sections(**settings), name=name, env={"EFFECTD_FAULT": fault} if fault else None)

    def drain(self, *queues, timeout=30, **settings):
        """Run an effectd until the queues are empty, and return what it counted (see counted)."""
        with self.daemon(**settings) as daemon:
            self.vhost.wait_empty(*(queues or [QUEUE]), timeout=timeout)
        return counted(daemon)

    def deliver(self, *messages, timeout=30, properties=None, **settings):
        """Send messages to an effectd that waits for them, wait until all are settled, and return what it counted."""
        self.declare()
        with self.daemon(**settings) as daemon:
            self.ready(daemon, settings.get("workers", 1))
            self.send(*messages, **(properties or {}))
            self.vhost.wait_empty(QUEUE, timeout=timeout)
        return counted(daemon)

    def ready(self, daemon, workers=1, since=0):
        """Wait until a started daemon has left probation, where it takes one message at a time. Its queue is empty."""
        def consuming():
            assert daemon.alive(), f"effectd ended; {daemon.log_tail()}"
            return len(FULL_PREFETCH.findall(daemon.log()[since:])) >= workers
        wait_until(consuming, 15, f"{workers} workers to consume at full prefetch", explain=daemon.log_tail)
        return daemon

    @contextlib.contextmanager
    def gate(self, key="gate"):
        """Hold the claim of a key: a consumer that claims it waits until the gate opens, at the latest at the end.

        What is published behind it meanwhile shares a batch. Yields open(), after which the key is applied by whoever
        waited, and open(commit=True), after which it is a duplicate.
        """
        with self.db.connect() as connection:
            connection.autocommit = False
            connection.execute("INSERT INTO effectd.processed_messages (consumer, message_key) VALUES (%s, %s)",
                               (CONSUMER, key))
            yield lambda commit=False: connection.commit() if commit else connection.rollback()
            connection.rollback()

    @contextlib.contextmanager
    def no_database(self):
        """Nobody gets into the database meanwhile; who was there is thrown out."""
        with self.db.server.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute(f'ALTER DATABASE "{self.db.name}" ALLOW_CONNECTIONS false')
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                               (self.db.name,))
            try:
                yield
            finally:
                connection.execute(f'ALTER DATABASE "{self.db.name}" ALLOW_CONNECTIONS true')

    def wait_blocked(self, count=1, timeout=15):
        """Wait until that many sessions of effectd wait for a lock."""
        wait_until(lambda: self.db.value(BLOCKED) >= count, timeout, f"{count} sessions of effectd to wait for a lock")

    def wait_delivered(self, count, queue=QUEUE):
        """Wait until the broker has handed that many messages to a consumer that did not settle them yet."""
        wait_until(lambda: self.vhost.depth(queue) == (0, count), 15, f"{count} deliveries to be under way",
                   explain=lambda: f"{self.vhost.depth(queue)}")

    def one_batch(self, messages, timeout=30, **settings):
        """Hand all messages to one worker in one batch, wait until all are settled, and return what it counted."""
        self.declare()
        with self.gate() as open_gate, self.daemon(**settings) as daemon:
            self.ready(daemon)
            self.send(script("gate"))
            self.wait_blocked()
            self.send(*messages)
            self.wait_delivered(len(messages) + 1)
            open_gate(commit=True)
            self.vhost.wait_empty(QUEUE, timeout=timeout)
        self.db.execute("DELETE FROM effectd.processed_messages WHERE message_key = 'gate'")
        counts = counted(daemon)
        counts["duplicate"] -= 1
        return counts

    def effects(self, consumer=CONSUMER):
        """How often each key's effect is there."""
        return Counter(key for key, in self.db.rows("SELECT key FROM effects WHERE consumer = %s", (consumer,)))

    def order(self):
        """The keys in the order in which their effects were inserted."""
        return [key for key, in self.db.rows("SELECT key FROM effects ORDER BY id")]

    def claims(self, consumer=CONSUMER):
        return {key for key, in self.db.rows("SELECT message_key FROM effectd.processed_messages "
                                             "WHERE consumer = %s", (consumer,))}

    def parked(self):
        """What is parked, in order of arrival."""
        return [Parked(*row) for row in self.db.rows("SELECT message_key, status, reason, sqlstate, detail, deliveries "
                                                     "FROM effectd.parked_messages ORDER BY id")]

    def touched(self, name):
        return self.db.value("SELECT sum(touched) FROM things WHERE name = %s", (name,))

    def assert_once(self, keys, consumer=CONSUMER):
        """Exactly these keys are applied, each once, and exactly these are claimed."""
        keys = set(keys)
        effects, claims = self.effects(consumer), self.claims(consumer)
        assert not (more := {key: n for key, n in effects.items() if n > 1}), f"applied more than once: {some(more)}"
        assert effects.keys() == keys, f"missing {some(keys - effects.keys())}, too many {some(effects.keys() - keys)}"
        assert claims == keys, f"claims missing {some(keys - claims)}, too many {some(claims - keys)}"


def some(things):
    return sorted(things)[:5], len(things)


def counted(daemon, consumer=CONSUMER):
    return summary.counted(daemon, consumer)

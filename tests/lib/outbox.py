"""Rows of effectd.outbox as a plugin would have committed them, and a relay that takes them to a provider."""
import contextlib
from collections import Counter

from . import config
from .wait import wait_until

INSERT = ("INSERT INTO effectd.outbox (consumer, message_key, kind, idempotency_key, payload, ordering_key, headers) "
          "SELECT 'test', n::text, %s, %s || '/' || n, jsonb_build_object('n', n), %s::text, %s::jsonb "
          "FROM generate_series(%s::int, %s::int) AS n RETURNING id")


class Outbox:
    """One relay `main`, which takes rows of the kind `call` to one target."""

    def __init__(self, db, daemon, runtime_dir):
        self.db, self._daemon, self._runtime_dir = db, daemon, runtime_dir

    def add(self, first, last=None, kind="call", prefix="key", ordering_key=None, headers=None, connection=None):
        """Commit the rows first..last, with the keys PREFIX/N and the payloads {"n": N}; their ids."""
        args = (kind, prefix, ordering_key, headers, first, last or first)
        if connection:
            return [row[0] for row in connection.execute(INSERT, args).fetchall()]
        return [row[0] for row in self.db.rows(INSERT, args)]

    def sections(self, target, relay=None, kinds=("call",), **more):
        """An INI file with the target `there`; more are further sections."""
        return {
            "effectd": {"runtime_dir": self._runtime_dir, "log_level": "debug", "http_listen": "",
                        **more.pop("effectd", {})},
            "database:main": {"conninfo": self.db.conninfo},
            "target:there": target,
            "relay:main": {"retry_min": "10ms", "retry_max": "50ms", "poll_interval": "200ms",
                           **{f"kind.{kind}": "there" for kind in kinds}, **(relay or {})},
            **more,
        }

    def relay(self, target, name="relay", fault=None, env=None, **settings):
        """An effectd with nothing but the relay, not started yet; fault is EFFECTD_FAULT."""
        return self._daemon(self.sections(target, **settings), "--relay", "main", name=name,
                            env={**(env or {}), **({"EFFECTD_FAULT": fault} if fault else {})})

    def relay_of(self, targets, **settings):
        """The same with a target for each kind: the kind N goes to the target N."""
        (first, target), *others = targets.items()
        relay = {f"kind.{name}": name for name, _ in others} | settings.pop("relay", {})
        return self.relay(target, kinds=(first,), relay=relay, **settings,
                          **{f"target:{name}": section for name, section in others})

    def http(self, provider, target=None, **settings):
        return self.relay({"type": "http", "url": provider.url, **(target or {})}, **settings)

    def counts(self):
        return Counter(dict(self.db.rows("SELECT status, count(*) FROM effectd.outbox GROUP BY 1")))

    def wait(self, timeout=30, **wanted):
        """Wait until so many rows have these states: wait(sent=10, dead=1); the others must have none."""
        wait_until(lambda: self.counts() == wanted, timeout, f"outbox rows to be {wanted}",
                   explain=lambda: f"they are {dict(self.counts())}: " + str(self.db.rows(
                       "SELECT id, status, attempts, next_attempt_at - now(), leased_until - now(), last_error "
                       "FROM effectd.outbox WHERE status <> 'sent' ORDER BY id LIMIT 5")))

    @contextlib.contextmanager
    def notices(self):
        """Yields how relays are told of rows: a list with an entry for each NOTIFY, complete when all is over."""
        heard = []
        with self.db.connect() as connection:
            connection.autocommit = True
            connection.add_notify_handler(heard.append)
            connection.execute("LISTEN effectd_outbox")
            yield heard
            for _ in range(2):
                connection.execute("SELECT 1")

    def row(self, row_id):
        """status, attempts and last_error of one row."""
        return self.db.rows("SELECT status, attempts, last_error FROM effectd.outbox WHERE id = %s", (row_id,))[0]

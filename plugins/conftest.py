"""Fixtures for the plugins' tests: those of tests/, and a shop that hands messages to one plugin's consumer."""
import importlib.util
import json
import os
import sys

import pytest

TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests")
sys.path.insert(0, TESTS)

from lib import config, orders, summary  # noqa: E402
from lib.publisher import CONFIRMED  # noqa: E402

_spec = importlib.util.spec_from_file_location("tests_conftest", os.path.join(TESTS, "conftest.py"))
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)
globals().update({name: value for name, value in vars(_fixtures).items() if hasattr(value, "_pytestfixturefunction")})


class Shop:
    """A database with customers 1 to 10,000, a queue, and effectd in between while deliver() runs."""

    def __init__(self, db, vhost, publisher, daemon, runtime_dir):
        self.db, self._vhost, self._publisher, self._daemon = db, vhost, publisher, daemon
        self._base = config.base(db, vhost, runtime_dir)

    def deliver(self, plugin, consumer, bodies, properties=None, **settings):
        """Publish bodies (bytes, or what json can dump), and return when the consumer has settled all of them.

        outcomes is then what effectd counted: a dict without the zeros.
        """
        queue = f"{consumer}.test"
        self._vhost.declare(queue)
        encoded = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
        sent = self._publisher.publish([self._publisher.message(body, routing_key=queue, **(properties or {}))
                                        for body in encoded])
        assert {message.outcome for message in sent} == {CONFIRMED}
        sections = {**self._base, f"consumer:{consumer}": config.consumer(plugin, queue, **settings)}
        with self._daemon(sections) as daemon:
            self._vhost.wait_empty(queue)
        self.outcomes = summary.outcomes(summary.counted(daemon, consumer))

    def parked(self):
        """(key, reason, detail) of all parked messages, by key."""
        return self.db.rows("SELECT message_key, reason, detail FROM effectd.parked_messages ORDER BY message_key, id")

    def claims(self):
        return [key for key, in self.db.rows("SELECT message_key FROM effectd.processed_messages ORDER BY 1")]


@pytest.fixture
def shop(db, vhost, publisher, daemon, runtime_dir):
    return Shop(db, vhost, publisher, daemon, runtime_dir)


@pytest.fixture
def order():
    """order(number, **changes): an OrderCompleted event; a change to None leaves the member out."""
    def make(number, **changes):
        return {name: value for name, value in {**orders.order(number), **changes}.items() if value is not None}
    return make

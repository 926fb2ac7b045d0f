"""The invariants, checked from outside: publisher's log, PostgreSQL and broker, nothing of effectd's own code.

For each consumer and key: an effect and a claim exist together, once; whatever was published is applied, still
queued or parked, and nothing else exists. For the shipped plugins also: the sums are what the orders say.
"""
import json
from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal

from . import orders, publisher

# How a shipped plugin's effects are counted by key. Analytics has no effect per key; its sums are checked.
EFFECTS = {
    "loyalty": "SELECT 'order-completed:' || order_id, count(*) FROM point_ledger GROUP BY 1",
    "receipts": "SELECT message_key, count(*) FROM effectd.outbox WHERE consumer = 'receipts' GROUP BY 1",
}
CLAIMS = "SELECT message_key, count(*) FROM effectd.processed_messages WHERE consumer = %s GROUP BY 1"
PARKED = "SELECT message_key, body FROM effectd.parked_messages WHERE consumer = %s"


class Checker:
    """Checks one consumer; the daemon must be stopped, or idle with nothing on its way."""

    def __init__(self, log, vhost, database, consumer, queue, effects=None):
        """log is a Publisher's log; effects is SQL that gives (message_key, count), default by consumer name."""
        self._log = [message for message in log if message.outcome != publisher.RETURNED]
        self._vhost, self._database, self._consumer, self._queue = vhost, database, consumer, queue
        self._effects_sql = effects or EFFECTS.get(consumer)

    def check(self):
        """Assert every invariant; return what was counted, for a test that wants exact numbers."""
        claims = Counter(dict(self._database.rows(CLAIMS, (self._consumer,))))
        effects = Counter(dict(self._database.rows(self._effects_sql))) if self._effects_sql else claims
        parked = {_identity(key, bytes(body)) for key, body in self._database.rows(PARKED, (self._consumer,))}
        queued = self._queued()
        known = {_identity(message.key, message.body) for message in self._log}
        owed = {_identity(message.key, message.body) for message in self._log
                if message.outcome == publisher.CONFIRMED}

        self._none("keys with more than one effect", [key for key, count in effects.items() if count > 1])
        self._none("effects without a claim", effects.keys() - claims.keys())
        self._none("claims without an effect", claims.keys() - effects.keys())
        self._none("effects that nobody published", effects.keys() - known)
        self._none("parked messages that nobody published", parked - known)
        self._none("published messages that are not applied, queued or parked",
                   owed - effects.keys() - queued - parked)
        return {"published": len(owed), "applied": len(effects), "parked": len(parked - effects.keys()),
                "queued": len(queued - effects.keys() - parked)}

    def _queued(self):
        depth = self._vhost.depth(self._queue)
        assert depth.unacked == 0, f"{self._consumer}: {depth.unacked} deliveries are still unacknowledged"
        if depth.ready == 0:
            return set()
        keys = {message.body: message.key for message in self._log}
        return {_identity(keys.get(body), body) for body in self._vhost.browse(self._queue)}

    def _none(self, what, offenders):
        some = sorted(offenders, key=repr)
        assert not some, f"{self._consumer}: {len(some)} {what}, such as {some[:5]}"


def check_loyalty_sums(database):
    """Ledger and balances agree for each customer, and each ledger row is worth what its order says."""
    ledger = dict(database.rows("SELECT customer_id, sum(points) FROM point_ledger GROUP BY 1"))
    balances = dict(database.rows("SELECT customer_id, points FROM balances WHERE points <> 0"))
    assert ledger == balances, f"ledger and balances differ: {_difference(ledger, balances)}"


def check_loyalty_orders(log, database):
    """Each ledger row has the customer and the points of the order in the publisher's log."""
    published = {}
    for message in log:
        if message.key is not None:
            order = json.loads(message.body)
            published[order["order_id"]] = (order["customer_id"], order["total_cents"] // orders.CENTS_PER_POINT)
    ledger = {row[0]: row[1:] for row in database.rows("SELECT order_id, customer_id, points FROM point_ledger")}
    wrong = {order_id: (row, published.get(order_id)) for order_id, row in ledger.items()
             if row != published.get(order_id)}
    assert not wrong, f"ledger rows that are not what the orders say: {dict(list(wrong.items())[:5])}"


def check_analytics_sums(log, database):
    """Each day and currency has the number and the sum of the orders that analytics claimed."""
    claimed = {key for key, in database.rows("SELECT message_key FROM effectd.processed_messages "
                                             "WHERE consumer = 'analytics'")}
    owed = defaultdict(lambda: (0, Decimal(0)))
    for key, body in {message.key: message.body for message in log if message.key in claimed}.items():
        order = json.loads(body)
        row = date.fromisoformat(order["completed_at"][:10]), order["currency"]
        count, total = owed[row]
        owed[row] = count + 1, total + Decimal(order["total_cents"]) / 100
    sales = {row[:2]: row[2:] for row in database.rows("SELECT day, currency, orders, total FROM daily_sales")}
    assert sales == owed, f"daily_sales and orders differ: {_difference(sales, owed)}"


def _difference(left, right):
    keys = [key for key in left.keys() | right.keys() if left.get(key) != right.get(key)]
    return {key: (left.get(key), right.get(key)) for key in keys[:5]}


def _identity(key, body):
    """A message without a key is known by its body."""
    return key if key is not None else body

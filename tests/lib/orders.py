"""The events that the shipped plugins consume."""
import json

CUSTOMERS = 10000
CENTS_PER_POINT = 100


def customer(order_id):
    return order_id * 7919 % CUSTOMERS + 1


def total_cents(order_id):
    return 1000 + order_id % 5000


def points(order_id):
    return total_cents(order_id) // CENTS_PER_POINT


def order(order_id, **changes):
    """An OrderCompleted event as a dict."""
    return {"event": "OrderCompleted", "order_id": order_id, "customer_id": customer(order_id),
            "total_cents": total_cents(order_id), "currency": "EUR", "completed_at": "2026-11-30T12:00:00Z",
            "items": [{"sku": "A-1", "qty": 2}], **changes}


def body(order_id, **changes):
    """An OrderCompleted event as a message body."""
    return json.dumps(order(order_id, **changes), separators=(",", ":")).encode()


def key(order_id):
    """The message key that the shipped plugins make of it."""
    return f"order-completed:{order_id}"


def seed_customers(database):
    """Give each customer that an order can name a balance of 0."""
    database.execute("INSERT INTO balances (customer_id, points) SELECT n, 0 FROM generate_series(1, %s) n",
                     (CUSTOMERS,))

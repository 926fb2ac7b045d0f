"""order_status on real servers: the last version wins, whatever the order of arrival."""
import datetime
import random

import pytest

ROWS = "SELECT order_id, version, status, changed_at FROM order_status ORDER BY order_id"
LARGEST = 9223372036854775807
STATUSES = ("placed", "paid", "packed", "shipped", "delivered")


def update(order_id, version, **changes):
    at = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=version % 1000)
    return {"event": "OrderStatusChanged", "order_id": order_id, "version": version,
            "status": STATUSES[(order_id + version) % len(STATUSES)], "changed_at": at.isoformat(), **changes}


def row(event):
    return event["order_id"], event["version"], event["status"], datetime.datetime.fromisoformat(event["changed_at"])


@pytest.fixture
def order_status(shop):
    def deliver(bodies, **settings):
        shop.deliver("order_status", "order_status", bodies, **settings)
        assert not shop.claims()
        return shop.db.rows(ROWS)
    return deliver


def test_ten_thousand_updates_shuffled_and_duplicated_end_as_if_they_came_in_order(order_status, shop):
    updates = [update(order_id, version) for order_id in range(1, 401) for version in range(1, 26)]
    in_order = {event["order_id"]: row(event) for event in updates}
    copies = random.Random(6).sample(updates, 2500)
    shuffled = updates + copies
    random.Random(7).shuffle(shuffled)
    assert order_status(shuffled, workers=4) == [in_order[order_id] for order_id in sorted(in_order)]
    assert not shop.parked()
    assert shop.outcomes.keys() == {"applied", "stale"} and sum(shop.outcomes.values()) == len(shuffled)
    assert shop.outcomes["stale"] >= len(copies), "each copy comes behind its first, which is applied or stale itself"


def test_an_older_version_is_stale_and_the_same_one_too(order_status, shop):
    assert order_status([update(7, 2)]) == [row(update(7, 2))]
    assert order_status([update(7, 1), update(7, 2, status="never")]) == [row(update(7, 2))]
    assert shop.outcomes == {"stale": 2} and not shop.parked()


def test_ids_and_versions_of_nineteen_digits_keep_every_digit(order_status):
    newest = update(LARGEST, LARGEST)
    assert order_status([update(LARGEST, LARGEST - 1), newest, update(LARGEST, LARGEST - 2)]) == [row(newest)]


def test_what_cannot_be_applied_is_parked_with_the_field_s_name(order_status, shop):
    wrong = {"version": 1.5, "order_id": None, "status": "", "changed_at": "yesterday"}
    bodies = [{**update(1, 1), name: value} for name, value in wrong.items()]
    assert order_status([*bodies, update(2, 1)]) == [row(update(2, 1))]
    parked = shop.parked()
    assert {reason for _, reason, _ in parked} == {"rejected"}
    assert all(any(name in detail for _, _, detail in parked) for name in wrong)


def test_other_events_are_ignored(order_status, shop):
    assert order_status([update(1, 1, event="OrderCompleted")]) == [] and not shop.parked()
    assert shop.outcomes == {"ignored": 1}

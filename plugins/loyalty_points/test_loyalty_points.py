"""loyalty_points on real servers: points are credited once, exactly, or the message is parked."""
import pytest

LEDGER = "SELECT order_id, customer_id, points FROM point_ledger ORDER BY order_id"
LARGEST = 9223372036854775807


@pytest.fixture
def loyalty(shop):
    def deliver(bodies, **settings):
        shop.deliver("loyalty_points", "loyalty", bodies, **settings)
        ledger = dict(shop.db.rows("SELECT customer_id, sum(points) FROM point_ledger GROUP BY 1 HAVING sum(points) > 0"))
        assert ledger == dict(shop.db.rows("SELECT customer_id, points FROM balances WHERE points <> 0"))
        return shop.db.rows(LEDGER)
    return deliver


def test_an_order_is_credited_once_however_often_it_is_delivered(loyalty, shop, order):
    ledger = loyalty([order(n % 40 + 1) for n in range(120)], workers=4)
    assert [row[0] for row in ledger] == list(range(1, 41))
    assert len(shop.claims()) == 40 and not shop.parked()


def test_points_come_from_whole_cents(loyalty, order):
    totals = [0, 99, 100, 199, 200, LARGEST]
    ledger = loyalty([order(n, customer_id=n + 1, total_cents=total) for n, total in enumerate(totals)])
    assert [row[2] for row in ledger] == [0, 0, 1, 1, 2, LARGEST // 100]


def test_cents_per_point_is_an_option(loyalty, order):
    assert loyalty([order(1, customer_id=7, total_cents=999)], plugin__cents_per_point=5) == [(1, 7, 199)]


def test_ids_of_nineteen_digits_keep_every_digit(loyalty, shop, order):
    shop.db.execute("INSERT INTO balances VALUES (%s, 0)", (LARGEST - 1,))
    assert loyalty([order(LARGEST, customer_id=LARGEST - 1, total_cents=100)]) == [(LARGEST, LARGEST - 1, 1)]


def test_an_unknown_customer_is_parked_and_its_siblings_are_credited(loyalty, shop, order):
    ledger = loyalty([order(n, customer_id=0 if n == 30 else n) for n in range(1, 61)])
    assert [row[0] for row in ledger] == [n for n in range(1, 61) if n != 30]
    (key, reason, detail), = shop.parked()
    assert (key, reason) == ("order-completed:30", "row_count") and "balance" in detail
    assert "order-completed:30" not in shop.claims()


def test_an_order_in_the_ledger_is_a_duplicate_even_without_its_claim(loyalty, shop, order):
    first = loyalty([order(n) for n in range(1, 21)])
    shop.db.execute("DELETE FROM effectd.processed_messages")
    again = loyalty([order(n) for n in range(1, 31)])
    assert again[:20] == first and len(again) == 30
    assert len(shop.claims()) == 30 and not shop.parked()


def test_what_is_no_whole_number_is_parked_with_the_field_s_name(loyalty, shop, order):
    wrong = [12.5, 1e3, "1250", -1, None, True, [100]]
    ledger = loyalty([order(n, total_cents=total) for n, total in enumerate(wrong)] + [order(100)])
    assert [row[0] for row in ledger] == [100]
    assert {(reason, "total_cents" in detail) for _, reason, detail in shop.parked()} == {("rejected", True)}
    assert sorted(key for key, _, _ in shop.parked()) == [f"order-completed:{n}" for n in range(len(wrong))]


def test_what_cannot_be_named_is_parked_without_a_key(loyalty, shop, order):
    loyalty([order(1, order_id=1.0), order(1, order_id="1"), order(2, customer_id=None), order(3, event=None), [], 7,
             b'{"event": "OrderCompleted", "order_id": 9223372036854775808, "customer_id": 1}'])
    assert not shop.db.rows(LEDGER) and not shop.claims()
    assert {key for key, _, _ in shop.parked()} == {None}
    assert sorted(reason for _, reason, _ in shop.parked()) == ["bad_body"] + ["rejected"] * 6


def test_other_events_are_ignored(loyalty, shop, order):
    assert loyalty([order(1, event="OrderCancelled"), order(1, event="")]) == []
    assert not shop.claims() and not shop.parked()

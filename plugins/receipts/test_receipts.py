"""receipts on real servers: one outbox row an order, with every digit."""
import pytest

LARGEST = 9223372036854775807


@pytest.fixture
def receipts(shop):
    def deliver(bodies, **settings):
        shop.deliver("receipts", "receipts", bodies, **settings)
        return shop.db.rows("SELECT message_key, kind, payload::text FROM effectd.outbox ORDER BY id")
    return deliver


def test_each_order_has_one_receipt_however_often_it_is_delivered(receipts, shop, order):
    rows = receipts([order(n % 30) for n in range(90)], workers=3)
    assert sorted(key for key, _, _ in rows) == sorted(f"order-completed:{n}" for n in range(30))
    assert {kind for _, kind, _ in rows} == {"send_receipt"}
    assert shop.db.value("SELECT count(DISTINCT idempotency_key) FROM effectd.outbox") == 30
    assert len(shop.claims()) == 30


def test_the_payload_keeps_every_digit(receipts, order):
    (_, _, payload), = receipts([order(LARGEST, customer_id=-LARGEST - 1, total_cents=LARGEST)])
    assert f'"order_id": {LARGEST}' in payload and f'"customer_id": {-LARGEST - 1}' in payload
    assert '"total": "92233720368547758.07"' in payload and '"currency": "EUR"' in payload


def test_small_amounts_have_two_digits_behind_the_point(receipts, order):
    totals = {0: "0.00", 5: "0.05", 10: "0.10", 100: "1.00"}
    payloads = {key: payload for key, _, payload in receipts([order(n, total_cents=n) for n in totals])}
    assert all(f'"total": "{total}"' in payloads[f"order-completed:{n}"] for n, total in totals.items())


def test_what_would_make_a_wrong_receipt_is_parked(receipts, shop, order):
    wrong = [{"total_cents": 12.5}, {"total_cents": -1}, {"customer_id": None}, {"currency": 'E"R'}, {"currency": "EURO"}]
    assert receipts([order(n, **change) for n, change in enumerate(wrong)]) == []
    assert [key for key, _, _ in shop.parked()] == [f"order-completed:{n}" for n in range(len(wrong))]
    assert not shop.claims()

"""analytics on real servers: sums are exact, days are UTC, and each order is in them once."""
from decimal import Decimal

import pytest

LARGEST = 9223372036854775807


@pytest.fixture
def analytics(shop):
    def deliver(bodies, **settings):
        shop.deliver("analytics", "analytics", bodies, **settings)
        return shop.db.rows("SELECT day::text, currency, orders, total FROM daily_sales ORDER BY 1, 2")
    return deliver


def test_each_order_is_in_the_sums_once(analytics, shop, order):
    changes = [{"currency": currency, "completed_at": f"2026-11-{day}T12:00:00Z", "total_cents": 1001}
               for currency in ("EUR", "USD") for day in (29, 30)]
    sums = analytics([order(n, **changes[n % 4]) for n in range(80)] * 2, workers=3)
    assert sums == [(f"2026-11-{day}", currency, 20, Decimal("200.20")) for day in (29, 30) for currency in ("EUR", "USD")]
    assert len(shop.claims()) == 80 and not shop.parked()


def test_one_by_one_gives_the_same_sums_as_batches(analytics, order):
    assert analytics([order(n, total_cents=1) for n in range(30)], batch_max=1) == \
        [("2026-11-30", "EUR", 30, Decimal("0.30"))]


def test_amounts_are_exact_beyond_any_double(analytics, shop, order):
    sums = analytics([order(1, total_cents=LARGEST), order(2, total_cents=LARGEST), order(3, total_cents=1)])
    assert sums == [("2026-11-30", "EUR", 3, Decimal("184467440737095516.15"))]
    assert not shop.parked()


def test_the_day_is_the_day_in_utc(analytics, order):
    times = ["2026-11-30T23:59:59.999999Z", "2026-11-30T23:30:00-01:00", "2026-12-01T00:30:00+01:00",
             "2024-02-29T00:00:00Z", "1969-12-31T23:59:59Z", "2016-12-31T23:59:60Z"]
    sums = analytics([order(n, completed_at=time) for n, time in enumerate(times)])
    assert [(day, count) for day, _, count, _ in sums] == \
        [("1969-12-31", 1), ("2017-01-01", 1), ("2024-02-29", 1), ("2026-11-30", 2), ("2026-12-01", 1)]


def test_a_time_that_is_none_is_parked(analytics, shop, order):
    wrong = ["", "2026-11-30", "2026-11-30T12:00:00", "2026-11-30 12:00:00Z", "2026-02-29T12:00:00Z",
             "2026-11-31T12:00:00Z", "2026-11-30T24:00:00Z", "2026-11-30T12:00:00+0100", "2026-11-30T12:00:00Zx",
             1796040000, None]
    assert [count for _, _, count, _ in analytics([order(n, completed_at=time) for n, time in enumerate(wrong)]
                                                   + [order(100)])] == [1]
    assert {(reason, "completed_at" in detail) for _, reason, detail in shop.parked()} == {("rejected", True)}
    assert len(shop.parked()) == len(wrong)


def test_amounts_and_currencies_that_are_none_are_parked(analytics, shop, order):
    wrong = [{"total_cents": 12.5}, {"total_cents": -1}, {"total_cents": "1"}, {"currency": "eur"},
             {"currency": "EURO"}, {"currency": ""}, {"currency": 978}, {"currency": None}]
    assert analytics([order(n, **change) for n, change in enumerate(wrong)]) == []
    assert len(shop.parked()) == len(wrong) and not shop.claims()

/* Claims by the day of the event. The day is a function of the message, so that every copy meets the same partition;
 * what can not be looked up there any more, or not yet, is parked and never applied.
 *
 * How claims are kept is the database's word (effectd.consumers), read when a session is attached, which is a host of
 * the consumer by then: nobody changes it while the session lives. The floor is read again when a claim finds no
 * partition. Days are counted from 1970-01-01, UTC, by the database's clock. */
#include "base/clock.h"
#include "exact/heart.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EPOCH "date '1970-01-01'"

/* Needed from the floor to three days ahead; a partition whose detach is pending takes no claims. */
static const char days_sql[] =
	"SELECT (c.claims <> 'daily')::int::int8, (c.claims <> 'table')::int::int8,"
	" coalesce(pg_catalog.date_part('epoch', c.\"window\") * 1000000, 0)::int8, (d.floor_day - " EPOCH ")::int8,"
	" (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::int8,"
	" CASE WHEN c.claims <> 'table' THEN (SELECT min(g::date) - " EPOCH
	"  FROM generate_series(d.floor_day, (now() AT TIME ZONE 'UTC')::date + 3, interval '1 day') AS g"
	"  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS p ON p.oid = "
	"i.inhrelid"
	"   WHERE i.inhparent = 'effectd.processed_messages_daily'::regclass AND NOT i.inhdetachpending"
	"    AND p.relname = 'processed_messages_daily_' || to_char(g, 'YYYYMMDD'))) END::int8"
	" FROM effectd.consumers AS c LEFT JOIN effectd.claim_days AS d ON true WHERE c.consumer = $1";
enum { IN_TABLE, IN_DAYS, WINDOW, FLOOR, NOW, MISSING };

enum {
	FUTURE_DAYS = 2,         /* a producer's clock may be ahead, and days begin at different times */
	STORABLE_DAYS = 2000000, /* either side of 1970, for parked_messages.event_day */
};

static const int64_t DAY_US = INT64_C(24) * 60 * 60 * 1000 * 1000;

static int64_t day_of(int64_t us)
{
	return us / DAY_US - (us % DAY_US < 0);
}

enum status days_read(struct exact *x, struct pg_session *s, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, days_sql, &x->params.consumer, 1, &r, err);
	x->days = (struct claim_days){ .in = CLAIM_IN_TABLE };
	x->misses_day = false;
	if (st != ST_OK || r.rows == 0) /* it never registered: what only looks, claims in the table */
		return st;
	x->days.in = (pg_value_int8(&r, 0, IN_TABLE) ? CLAIM_IN_TABLE : 0U) |
		     (pg_value_int8(&r, 0, IN_DAYS) ? CLAIM_IN_DAYS : 0U);
	x->days.window_us = pg_value_int8(&r, 0, WINDOW);
	x->days.floor = pg_value_int8(&r, 0, FLOOR);
	x->days.ahead_us = pg_value_int8(&r, 0, NOW) - clock_mono_us();
	if (!(x->days.in & CLAIM_IN_DAYS) || x->instance->claim == EFFECTD_CLAIM_NONE)
		return ST_OK;
	const bool no_floor = !pg_value(&r, 0, FLOOR, NULL);
	x->misses_day = no_floor || pg_value(&r, 0, MISSING, NULL);
	if (!x->misses_day)
		return ST_OK;
	return error_set(
		err, ST_UNAVAILABLE,
		"days of effectd.processed_messages_daily are missing: retention makes them, of this process or "
		"another; `effectd retention --once` does it now");
}

/* Why the claims can not tell whether it was applied; NULL: they can. */
static const char *judge(const struct exact *x, const struct item *item, enum park_reason *ret)
{
	const int64_t now_us = clock_mono_us() + x->days.ahead_us;
	*ret = PARK_EXPIRED;
	if (!item->beyond_window && (item->day < x->days.floor || item->day < day_of(now_us - x->days.window_us)))
		return "its event is " OLDER_THAN_WINDOW;
	*ret = PARK_FUTURE;
	if (item->day > day_of(now_us) + FUTURE_DAYS)
		return "its event lies more than two days ahead: there is no day for its claim yet";
	return NULL;
}

void days_judge(struct exact *x, struct item *item)
{
	enum park_reason reason;
	item->claims_in = x->days.in;
	if (!(item->claims_in & CLAIM_IN_DAYS) || x->instance->claim == EFFECTD_CLAIM_NONE || item->parks)
		return;
	if (!item->has_day) {
		fault_park(x, item, PARK_BAD_KEY, false, NULL,
			   "its key has no event time, which claims = daily needs (effectd_key: event_time_us)");
		return;
	}
	const char *why = judge(x, item, &reason);
	if (why)
		fault_park(x, item, reason, false, NULL, why);
	else if (item->day < x->days.floor) /* a person wants it, and its day is gone: other copies meet it here */
		item->claims_in = CLAIM_IN_TABLE;
}

void days_set(struct item *item, int64_t event_us)
{
	item->day = day_of(event_us);
	item->has_day = true;
}

bool days_storable(const struct item *item)
{
	return item->has_day && item->day > -STORABLE_DAYS && item->day < STORABLE_DAYS;
}

/* A claim found no partition: was its day dropped, or not made yet? */
enum status days_look_again(struct exact *x, bool *ret_changed, struct error *err)
{
	struct error now = { 0 };
	const enum status st = days_read(x, x->session, &now);
	*ret_changed = false;
	if (st != ST_OK && !x->misses_day) {
		*err = now;
		return st;
	}
	for (size_t i = 0; i < x->item_count; i++) {
		struct item *item = &x->items[i];
		const unsigned before = item->claims_in;
		if (!item->d || !item->key.data || item->parks || item->ignored)
			continue;
		days_judge(x, item);
		*ret_changed |= item->parks || item->claims_in != before;
	}
	x->misses_day = !*ret_changed;
	return ST_OK;
}

#include "retention/switch.h"
#include "retention/days.h"
#include "retention/registry.h"

static const char look_sql[] =
	"SELECT (claims <> 'table')::int::int8, coalesce(\"window\" >= interval '24 hours', false)::int::int8,"
	" coalesce(pg_catalog.date_part('epoch', switched_at + \"window\"), 0)::int8"
	" FROM effectd.consumers WHERE consumer = $1";
enum { ALREADY, LONG_ENOUGH, UNTIL };

static const char switch_sql[] = "UPDATE effectd.consumers SET claims = 'both', switched_at = now()"
				 " WHERE consumer = $1 AND claims = 'table'";

static enum status look(struct pg_session *s, const char *consumer, struct switched *ret, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, look_sql, &consumer, 1, &r, err);
	if (st != ST_OK)
		return st;
	if (r.rows == 0)
		return error_set(err, ST_REFUSED,
				 "consumer %s has no claims on this database yet: set claims = daily and start it",
				 consumer);
	if (!pg_value_int8(&r, 0, LONG_ENOUGH))
		return error_set(err, ST_REFUSED,
				 "consumer %s keeps its claims for good, or for less than a day: set retention to at "
				 "least 1d and start it once before",
				 consumer);
	ret->already = pg_value_int8(&r, 0, ALREADY);
	ret->until_s = pg_value_int8(&r, 0, UNTIL);
	return ST_OK;
}

enum status switch_to_daily(struct pg_session *owner, const char *consumer, struct switched *ret, struct error *err)
{
	struct days days;
	*ret = (struct switched){ 0 };
	enum status st = registry_take(owner, consumer, err);
	if (st == ST_OK)
		st = look(owner, consumer, ret, err);
	if (st != ST_OK || ret->already)
		return st;
	st = pg_query(owner, switch_sql, &consumer, 1, NULL, err);
	if (st == ST_OK)
		st = look(owner, consumer, ret, err);
	ret->already = false;
	if (st == ST_OK)
		st = days_keep(owner, &days, err);
	if (st == ST_OK)
		ret->days_made = days.made;
	return st;
}

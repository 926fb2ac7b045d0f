#include "retention/forget.h"
#include "retention/registry.h"
#include <inttypes.h>

static const char parked_sql[] = "SELECT count(*) FROM effectd.parked_messages WHERE consumer = $1";
static const char known_sql[] = "SELECT count(*) FROM effectd.consumers WHERE consumer = $1";
static const char attempts_sql[] = "DELETE FROM effectd.attempts WHERE consumer = $1";
static const char row_sql[] = "DELETE FROM effectd.consumers WHERE consumer = $1";

static enum status count(const struct prune *p, const char *sql, int64_t *ret, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(p->session, sql, &p->consumer, 1, &r, err);
	*ret = st == ST_OK ? pg_value_int8(&r, 0, 0) : 0;
	return st;
}

enum status forget_run(const struct prune *p, int64_t *ret_rows, struct error *err)
{
	struct prune all = *p;
	int64_t parked, known;
	bool busy = false;
	all.all = true;
	*ret_rows = 0;
	enum status st = registry_take(p->session, p->consumer, err);
	if (st == ST_OK)
		st = count(p, known_sql, &known, err);
	if (st == ST_OK && known == 0)
		return error_set(err, ST_REFUSED, "no consumer %s is registered on this database", p->consumer);
	if (st == ST_OK)
		st = count(p, parked_sql, &parked, err);
	if (st == ST_OK && parked > 0)
		return error_set(err, ST_REFUSED,
				 "consumer %s has %" PRId64 " parked messages, which its claims protect: retry or drop "
				 "them first",
				 p->consumer, parked);
	if (st == ST_OK)
		st = prune_run(&all, ret_rows, &busy, err);
	if (st == ST_OK && busy)
		return error_set(err, ST_UNAVAILABLE, "retention is at work on consumer %s: try again", p->consumer);
	if (st == ST_OK)
		st = pg_query(p->session, attempts_sql, &p->consumer, 1, NULL, err);
	return st == ST_OK ? pg_query(p->session, row_sql, &p->consumer, 1, NULL, err) : st;
}

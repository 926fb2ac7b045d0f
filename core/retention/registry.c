#include "retention/registry.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOST_LOCK_SQL "pg_catalog.hashtextextended('effectd host ' || $1::text, 0)"

/* Milliseconds of an interval column; null for null. */
#define WINDOW_MS_SQL "(pg_catalog.date_part('epoch', \"window\") * 1000)::pg_catalog.int8"

static const char host_sql[] = "SELECT pg_catalog.pg_try_advisory_lock_shared(" HOST_LOCK_SQL ")::int::int8";
static const char take_sql[] = "SELECT pg_catalog.pg_try_advisory_lock(" HOST_LOCK_SQL ")::int::int8";

/* The window is stored in hours and seconds, never in days, whose length depends on a session's time zone. */
static const char register_sql[] =
	"INSERT INTO effectd.consumers AS c (consumer, claims, \"window\")"
	" VALUES ($1, $2, $3::bigint * interval '1 millisecond')"
	" ON CONFLICT (consumer) DO UPDATE SET last_seen = now(), \"window\" = excluded.\"window\""
	" WHERE (c.claims = 'table') = (excluded.claims = 'table')";

static const char look_sql[] =
	"SELECT (claims <> 'table')::int::int8, " WINDOW_MS_SQL " FROM effectd.consumers WHERE consumer = $1";
enum { DAILY, WINDOW };

/* A lock of a 64-bit key shows as its halves. */
#define IS_HOST_LOCK_SQL(consumer)                                                                      \
	"l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted"                                      \
	" AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())" \
	" AND (l.classid::bigint << 32 | l.objid::bigint)"                                              \
	" = pg_catalog.hashtextextended('effectd host ' || " consumer ", 0)"

static const char idle_sql[] =
	"SELECT c.consumer FROM effectd.consumers AS c WHERE c.consumer <> $1 AND NOT EXISTS"
	" (SELECT FROM pg_catalog.pg_locks AS l WHERE " IS_HOST_LOCK_SQL("c.consumer") ")"
										       " ORDER BY 1 LIMIT 20";

static const char touch_sql[] = "UPDATE effectd.consumers AS c SET last_seen = now() WHERE EXISTS"
				" (SELECT FROM pg_catalog.pg_locks AS l WHERE " IS_HOST_LOCK_SQL("c.consumer") ")";

static const char hosts_sql[] = "SELECT coalesce(string_agg(DISTINCT a.application_name || coalesce(' at ' || "
				"host(a.client_addr), ''), ', '), '')"
				" FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a USING (pid)"
				" WHERE a.pid <> pg_catalog.pg_backend_pid() AND " IS_HOST_LOCK_SQL("$1::text");

static enum status try_lock(struct pg_session *s, const char *sql, const char *consumer, bool *ret, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, sql, &consumer, 1, &r, err);
	*ret = st == ST_OK && pg_value_int8(&r, 0, 0);
	return st;
}

static enum status disagrees(const struct registration *r, struct error *err)
{
	if (r->daily)
		return error_set(err, ST_INVALID,
				 "consumer %s keeps its claims in one table on this database: set claims = table, or "
				 "run `effectd migrate claims %s daily` while nobody hosts it",
				 r->consumer, r->consumer);
	return error_set(err, ST_INVALID,
			 "consumer %s keeps its claims by day on this database: set claims = daily; there is no way "
			 "back, the claims of the days would be forgotten",
			 r->consumer);
}

enum status registry_would_host(struct pg_session *s, const struct registration *r, struct registered *ret,
				struct error *err)
{
	struct pg_result found;
	const enum status st = pg_query(s, look_sql, &r->consumer, 1, &found, err);
	if (st != ST_OK)
		return st;
	*ret = (struct registered){ .known = found.rows > 0, .old_window_ms = -1 };
	if (!ret->known)
		return ST_OK;
	if (pg_value(&found, 0, WINDOW, NULL))
		ret->old_window_ms = pg_value_int8(&found, 0, WINDOW);
	return (pg_value_int8(&found, 0, DAILY) != 0) == r->daily ? ST_OK : disagrees(r, err);
}

enum status registry_host(struct pg_session *s, const struct registration *r, struct registered *ret, struct error *err)
{
	bool locked = false;
	enum status st = try_lock(s, host_sql, r->consumer, &locked, err);
	if (st == ST_OK && !locked)
		st = error_set(err, ST_UNAVAILABLE, "consumer %s is being migrated or forgotten at this moment",
			       r->consumer);
	if (st == ST_OK)
		st = registry_would_host(s, r, ret, err);
	if (st != ST_OK || (ret->known && !r->first))
		return st;
	char window[24];
	snprintf(window, sizeof(window), "%" PRId64, r->window_ms);
	const char *const values[] = { r->consumer, r->daily ? "daily" : "table", r->window_ms < 0 ? NULL : window };
	struct pg_result written;
	st = pg_query(s, register_sql, values, ARRAY_LEN(values), &written, err);
	/* Another process registered it first, and otherwise. */
	return st == ST_OK && written.affected == 0 ? disagrees(r, err) : st;
}

enum status registry_idle(struct pg_session *s, const char *but, struct buffer *out, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, idle_sql, &but, 1, &r, err);
	for (int row = 0; st == ST_OK && row < r.rows; row++) {
		int len = 0;
		const char *name = pg_value(&r, row, 0, &len);
		buffer_puts(out, row > 0 ? ", " : "");
		buffer_add(out, name, (size_t)len);
	}
	return st;
}

enum status registry_touch(struct pg_session *s, struct error *err)
{
	return pg_query(s, touch_sql, NULL, 0, NULL, err);
}

enum status registry_take(struct pg_session *s, const char *consumer, struct error *err)
{
	bool locked = false;
	enum status st = try_lock(s, take_sql, consumer, &locked, err);
	if (st != ST_OK || locked)
		return st;
	struct pg_result r;
	st = pg_query(s, hosts_sql, &consumer, 1, &r, err);
	if (st != ST_OK)
		return st;
	int len = 0;
	const char *who = pg_value(&r, 0, 0, &len);
	return error_set(err, ST_REFUSED, "consumer %s is hosted by %.*s: stop that first", consumer, len,
			 len > 0 ? who : "");
}

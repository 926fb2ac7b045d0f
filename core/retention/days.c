#include "retention/days.h"
#include "base/fault.h"
#include "base/log.h"
#include "pg/transaction.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EPOCH     "date '1970-01-01'"
#define UTC_NOW   "(now() AT TIME ZONE 'UTC')"
#define PARTITION "processed_messages_daily_"

static const char lock_sql[] =
	"SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('effectd days', 0))::int::int8";
static const char unlock_sql[] = "SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('effectd days', 0))";

/* wanted: the day of the largest window's end; null: nobody keeps claims by day. */
static const char state_sql[] = "SELECT (" UTC_NOW "::date - " EPOCH ")::int8,"
				" (SELECT floor_day - " EPOCH " FROM effectd.claim_days)::int8,"
				" (SELECT min((" UTC_NOW " - \"window\")::date) - " EPOCH
				" FROM effectd.consumers WHERE claims <> 'table')::int8,"
				" (SELECT partdefid <> 0 FROM pg_catalog.pg_partitioned_table"
				"  WHERE partrelid = 'effectd.processed_messages_daily'::regclass)::int::int8";
enum { TODAY, FLOOR, WANTED, HAS_DEFAULT };

static const char raise_sql[] =
	"INSERT INTO effectd.claim_days AS d (floor_day) VALUES (" EPOCH " + $1::int)"
	" ON CONFLICT (only_row) DO UPDATE SET floor_day = excluded.floor_day WHERE d.floor_day < excluded.floor_day";

/* Tables with the name of a day, whether they are partitions or not. */
static const char tables_sql[] =
	"SELECT (to_date(right(c.relname, 8), 'YYYYMMDD') - " EPOCH ")::int8,"
	" (i.inhrelid IS NOT NULL)::int::int8, coalesce(i.inhdetachpending, false)::int::int8"
	" FROM pg_catalog.pg_class AS c LEFT JOIN pg_catalog.pg_inherits AS i ON i.inhrelid = c.oid"
	" AND i.inhparent = 'effectd.processed_messages_daily'::regclass"
	" WHERE c.relnamespace = 'effectd'::regnamespace AND c.relkind = 'r'"
	" AND c.relname ~ '^" PARTITION "[0-9]{8}$' ORDER BY 1";
enum { DAY, ATTACHED, PENDING };

/* Nothing in these but dates that we count ourselves. Rows are inserted and dropped with their table: pages are filled
 * to the brim, and vacuum's only work is to freeze. */
static const char create_sql[] =
	"CREATE TABLE effectd." PARTITION "%s (LIKE effectd.processed_messages_daily INCLUDING DEFAULTS)"
	" WITH (fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 0,"
	" autovacuum_vacuum_insert_threshold = 500000)";
static const char attach_sql[] = "ALTER TABLE effectd.processed_messages_daily ATTACH PARTITION effectd." PARTITION "%s"
				 " FOR VALUES FROM ('%s') TO ('%s')";
static const char detach_sql[] =
	"ALTER TABLE effectd.processed_messages_daily DETACH PARTITION effectd." PARTITION "%s CONCURRENTLY";
static const char finalize_sql[] =
	"ALTER TABLE effectd.processed_messages_daily DETACH PARTITION effectd." PARTITION "%s FINALIZE";
static const char drop_sql[] = "DROP TABLE effectd." PARTITION "%s";

struct table {
	int64_t day;
	bool attached, pending;
};

struct tables {
	struct table *list; /* by day */
	size_t count;
};

static void tables_finish(struct tables *t)
{
	free(t->list);
}

static struct day_text format_day(int64_t day, const char *format)
{
	struct day_text text = { "" };
	struct tm tm;
	const time_t at = (time_t)day * 24 * 60 * 60;
	if (gmtime_r(&at, &tm))
		strftime(text.text, sizeof(text.text), format, &tm);
	return text;
}

struct day_text days_text(int64_t day)
{
	return format_day(day, "%Y-%m-%d");
}

/* The name's end. */
static struct day_text suffix(int64_t day)
{
	return format_day(day, "%Y%m%d");
}

static enum status run(struct pg_session *s, const char *sql, int64_t day, struct error *err)
{
	char text[320];
	snprintf(text, sizeof(text), sql, suffix(day).text, days_text(day).text, days_text(day + 1).text);
	return pg_query(s, text, NULL, 0, NULL, err);
}

static enum status read_tables(struct pg_session *s, struct tables *ret, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, tables_sql, NULL, 0, &r, err);
	if (st != ST_OK)
		return st;
	ret->list = calloc((size_t)r.rows + 1, sizeof(*ret->list));
	if (!ret->list)
		return error_oom(err);
	ret->count = (size_t)r.rows;
	for (int row = 0; row < r.rows; row++)
		ret->list[row] = (struct table){
			.day = pg_value_int8(&r, row, DAY),
			.attached = pg_value_int8(&r, row, ATTACHED),
			.pending = pg_value_int8(&r, row, PENDING),
		};
	return ST_OK;
}

static const struct table *find(const struct tables *t, int64_t day)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].day == day)
			return &t->list[i];
	return NULL;
}

/* *ret_wanted: where the floor should be. */
static enum status read_state(struct pg_session *s, struct days *ret, int64_t *ret_wanted, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, state_sql, NULL, 0, &r, err);
	if (st != ST_OK)
		return st;
	ret->today = pg_value_int8(&r, 0, TODAY);
	ret->used = pg_value(&r, 0, WANTED, NULL) != NULL;
	*ret_wanted = pg_value_int8(&r, 0, WANTED);
	ret->floor = pg_value(&r, 0, FLOOR, NULL) ? pg_value_int8(&r, 0, FLOOR) : *ret_wanted;
	if (pg_value_int8(&r, 0, HAS_DEFAULT))
		return error_set(
			err, ST_INVALID,
			"effectd.processed_messages_daily has a DEFAULT partition, whose claims could never go "
			"and with which no day can be detached: move its rows and drop it");
	return ST_OK;
}

static void count(const struct tables *t, struct days *d)
{
	d->missing = d->behind = 0;
	for (int64_t day = d->floor; d->used && day <= d->today + DAYS_AHEAD; day++) {
		const struct table *table = find(t, day);
		d->missing += !table || !table->attached || table->pending;
	}
	for (size_t i = 0; i < t->count; i++)
		d->behind += t->list[i].day < d->floor;
}

enum status days_look(struct pg_session *s, struct days *ret, struct error *err)
{
	CLEANUP(tables_finish) struct tables tables = { 0 };
	int64_t wanted = 0;
	*ret = (struct days){ 0 };
	enum status st = read_state(s, ret, &wanted, err);
	if (st == ST_OK)
		st = read_tables(s, &tables, err);
	if (st == ST_OK && ret->used && wanted > ret->floor)
		ret->floor = wanted;
	if (st == ST_OK)
		count(&tables, ret);
	return st;
}

/* --- the pass --- */

static enum status raise_floor(struct pg_session *s, int64_t day, struct error *err)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRId64, day);
	const enum status st = pg_query(s, raise_sql, (const char *const[]){ text }, 1, NULL, err);
	if (st == ST_OK && FAULT_POINT("retention_floor"))
		return error_set(err, ST_UNAVAILABLE, "fault point retention_floor");
	return st;
}

/* A table of that day which is no partition has claims that count: it was taken out by hand. */
static enum status make(struct pg_session *s, int64_t day, bool exists, struct error *err)
{
	enum status st = pg_begin(s, err);
	if (st == ST_OK && !exists)
		st = run(s, create_sql, day, err);
	if (st == ST_OK && FAULT_POINT("retention_create"))
		return error_set(err, ST_UNAVAILABLE, "fault point retention_create");
	if (st == ST_OK)
		st = run(s, attach_sql, day, err);
	if (st == ST_OK)
		st = pg_commit(s, err);
	struct error ignored;
	if (st == ST_REFUSED && pg_rollback(s, &ignored) != ST_OK)
		st = ST_UNAVAILABLE;
	return st == ST_OK ? ST_OK : error_wrap(err, "making the day %s", days_text(day).text);
}

static enum status drop(struct pg_session *s, const struct table *t, struct error *err)
{
	enum status st = ST_OK;
	if (t->attached && !t->pending)
		st = run(s, detach_sql, t->day, err);
	if (st == ST_OK && FAULT_POINT("retention_detached"))
		return error_set(err, ST_UNAVAILABLE, "fault point retention_detached");
	if (st == ST_OK)
		st = run(s, drop_sql, t->day, err);
	return st == ST_OK ? ST_OK : error_wrap(err, "dropping the day %s", days_text(t->day).text);
}

/* The first failure counts; a session that is lost ends the pass. */
struct trial {
	enum status st;
	struct error *err;
};

static bool lost(enum status st)
{
	return st != ST_OK && st != ST_REFUSED && st != ST_INVALID;
}

static bool note(struct trial *t, enum status st, const struct error *err)
{
	if (st != ST_OK)
		log_warn("retention_of_days_failed", LOG_ERR(err));
	if (st != ST_OK && t->st == ST_OK) {
		t->st = st;
		*t->err = *err;
	}
	return !lost(st);
}

/* An interrupted detach keeps every other from beginning. */
static bool finish_detach(struct pg_session *s, struct tables *tables, struct trial *t)
{
	for (size_t i = 0; i < tables->count; i++) {
		struct table *table = &tables->list[i];
		struct error err = { 0 };
		if (!table->pending)
			continue;
		const enum status st = run(s, finalize_sql, table->day, &err);
		if (st == ST_OK)
			table->attached = table->pending = false;
		else if (!note(t, error_wrap(&err, "finishing to detach the day %s", days_text(table->day).text), &err))
			return false;
	}
	return true;
}

static bool make_days(struct pg_session *s, const struct tables *tables, struct days *d, struct trial *t)
{
	for (int64_t day = d->floor; day <= d->today + DAYS_AHEAD; day++) {
		const struct table *table = find(tables, day);
		struct error err = { 0 };
		if (table && table->attached)
			continue;
		const enum status st = make(s, day, table != NULL, &err);
		d->made += st == ST_OK;
		if (!note(t, st, &err))
			return false;
		if (st != ST_OK)
			break; /* the next one would fail of the same */
	}
	return true;
}

static void drop_days(struct pg_session *s, const struct tables *tables, struct days *d, struct trial *t)
{
	for (size_t i = 0; i < tables->count && tables->list[i].day < d->floor; i++) {
		struct error err = { 0 };
		const enum status st = drop(s, &tables->list[i], &err);
		d->dropped += st == ST_OK;
		if (!note(t, st, &err) || st != ST_OK)
			return;
	}
}

static enum status keep(struct pg_session *s, struct days *ret, struct error *err)
{
	CLEANUP(tables_finish) struct tables tables = { 0 };
	struct error first = { 0 };
	struct trial trial = { ST_OK, &first };
	int64_t wanted = 0;
	enum status st = read_state(s, ret, &wanted, err);
	if (st == ST_OK)
		st = read_tables(s, &tables, err);
	if (st != ST_OK || !finish_detach(s, &tables, &trial))
		goto done;
	if (ret->used && (st = raise_floor(s, wanted, err)) != ST_OK)
		return st;
	if (ret->used && wanted > ret->floor)
		ret->floor = wanted;
	if (!ret->used || make_days(s, &tables, ret, &trial))
		drop_days(s, &tables, ret, &trial);
	count(&tables, ret);
	ret->missing -= ret->made;
	ret->behind -= ret->dropped;
done:
	if (st == ST_OK && trial.st != ST_OK) {
		st = trial.st;
		*err = first;
	}
	return st;
}

enum status days_keep(struct pg_session *owner, struct days *ret, struct error *err)
{
	struct pg_result r;
	*ret = (struct days){ 0 };
	enum status st = pg_query(owner, lock_sql, NULL, 0, &r, err);
	if (st != ST_OK)
		return st;
	ret->busy = !pg_value_int8(&r, 0, 0);
	if (ret->busy)
		return ST_OK;
	st = keep(owner, ret, err);
	struct error ignored;
	if (!lost(st) && pg_query(owner, unlock_sql, NULL, 0, NULL, &ignored) != ST_OK)
		log_debug("days_lock_kept", LOG_ERR(&ignored)); /* until the session ends, which is soon */
	return st;
}

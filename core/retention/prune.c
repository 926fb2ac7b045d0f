#include "retention/prune.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "pg/transaction.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_LEAST = 100 /* smaller ones would not help against a timeout */ };

/* Whatever the statistics say: the oldest claims by their index, each looked up among the parked ones, their rows by
 * address. The address is used inside the one statement that found it and nowhere else. */
static const char plan_sql[] = "SELECT pg_catalog.set_config(name, 'off', true) FROM unnest('{enable_seqscan,"
			       "enable_bitmapscan,enable_hashjoin,enable_mergejoin,enable_material}'::text[]) AS name";

#define IS_PARKED_SQL                                                            \
	"EXISTS (SELECT FROM effectd.parked_messages AS p WHERE p.consumer = $1" \
	" AND coalesce(p.message_key, '') = c.message_key)"

#define OLD_CLAIMS_SQL                                                                             \
	" FROM effectd.processed_messages AS c WHERE c.consumer = $1 AND c.processed_at < now() -" \
	" (SELECT r.\"window\" FROM effectd.consumers AS r WHERE r.consumer = $1) AND NOT " IS_PARKED_SQL

static const char delete_sql[] =
	"DELETE FROM effectd.processed_messages WHERE ctid = ANY (ARRAY("
	"SELECT c.ctid" OLD_CLAIMS_SQL " ORDER BY c.processed_at LIMIT $2::bigint FOR UPDATE OF c SKIP LOCKED))";

/* By primary key: a forgotten consumer's claims go in the order of their keys. */
static const char delete_all_sql[] =
	"DELETE FROM effectd.processed_messages WHERE ctid = ANY (ARRAY("
	"SELECT c.ctid FROM effectd.processed_messages AS c WHERE c.consumer = $1 LIMIT $2::bigint FOR UPDATE))";
static const char delete_all_daily_sql[] =
	"DELETE FROM effectd.processed_messages_daily WHERE consumer = $1 AND event_day = ("
	"SELECT event_day FROM effectd.processed_messages_daily WHERE consumer = $1 LIMIT 1) AND $2::bigint > 0";

static const char count_sql[] = "SELECT count(*)" OLD_CLAIMS_SQL;

static const char oldest_sql[] =
	"SELECT pg_catalog.date_part('epoch', c.processed_at)::int8 FROM effectd.processed_messages AS c"
	" WHERE c.consumer = $1 AND NOT " IS_PARKED_SQL " ORDER BY c.processed_at LIMIT 1";

static const char lock_sql[] =
	"SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('effectd retention ' || $1::text, 0))"
	"::int::int8";
static const char unlock_sql[] =
	"SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('effectd retention ' || $1::text, 0))";

static enum status run_batch(const struct prune *p, const char *sql, int64_t limit, int64_t *ret_rows,
			     struct error *err)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRId64, limit);
	struct pg_result r;
	enum status st = pg_begin(p->session, err);
	if (st == ST_OK)
		st = pg_query(p->session, plan_sql, NULL, 0, NULL, err);
	if (st == ST_OK)
		st = pg_query(p->session, sql, (const char *const[]){ p->consumer, text }, 2, &r, err);
	const int64_t rows = st == ST_OK ? r.affected : 0;
	if (st == ST_OK && FAULT_POINT("retention_batch"))
		return error_set(err, ST_UNAVAILABLE, "fault point retention_batch");
	if (st == ST_OK)
		st = pg_commit(p->session, err);
	if (st == ST_OK)
		*ret_rows = rows;
	struct error ignored;
	return st == ST_REFUSED && pg_rollback(p->session, &ignored) != ST_OK ? ST_UNAVAILABLE : st;
}

/* Longer where a batch takes long: a third of the time at most, whatever else the server has to do. */
static enum status rest(const struct prune *p, int64_t took_ms, struct error *err)
{
	const int64_t ms = 2 * took_ms > p->pause_ms ? 2 * took_ms : p->pause_ms;
	if (ms > 0 && p->waiter->wait(p->waiter, -1, 0, clock_mono_ms() + ms) < 0)
		return error_set(err, ST_STOPPED, "stopped between two batches");
	return ST_OK;
}

/* By date or by key, one statement again and again until it finds nothing more. */
static enum status run_batches(const struct prune *p, const char *sql, int64_t *rows, struct error *err)
{
	int64_t limit = p->batch_rows;
	for (;;) {
		int64_t deleted = 0;
		const int64_t start_ms = clock_mono_ms();
		enum status st = run_batch(p, sql, limit, &deleted, err);
		if (st == ST_REFUSED && strcmp(err->sqlstate, "57014") == 0 && limit / 2 >= BATCH_LEAST) {
			limit /= 2;
			log_info("retention_batch_halved", LOG_STR("consumer", p->consumer), LOG_INT("rows", limit),
				 LOG_ERR(err));
			continue;
		}
		if (st != ST_OK)
			return st;
		*rows += deleted;
		if (deleted > 0 && p->progress)
			p->progress(p->arg, p->consumer, deleted);
		if (deleted == 0 || (!p->all && deleted < limit))
			return ST_OK;
		if ((st = rest(p, clock_mono_ms() - start_ms, err)) != ST_OK)
			return st;
	}
}

enum status prune_run(const struct prune *p, int64_t *ret_rows, bool *ret_busy, struct error *err)
{
	struct pg_result r;
	*ret_rows = 0;
	enum status st = pg_query(p->session, lock_sql, &p->consumer, 1, &r, err);
	if (st != ST_OK)
		return st;
	*ret_busy = !pg_value_int8(&r, 0, 0);
	if (*ret_busy)
		return ST_OK;
	st = run_batches(p, p->all ? delete_all_sql : delete_sql, ret_rows, err);
	if (st == ST_OK && p->all)
		st = run_batches(p, delete_all_daily_sql, ret_rows, err);
	struct error later = { 0 };
	const enum status unlocked = st == ST_OK || st == ST_REFUSED || st == ST_STOPPED
					     ? pg_query(p->session, unlock_sql, &p->consumer, 1, NULL, &later)
					     : ST_OK;
	if (st == ST_OK && unlocked != ST_OK && err)
		*err = later;
	return st == ST_OK ? unlocked : st;
}

static enum status ask(struct pg_session *s, const char *sql, const char *consumer, int64_t *ret, struct error *err)
{
	struct pg_result r;
	enum status st = pg_begin(s, err);
	if (st == ST_OK)
		st = pg_query(s, plan_sql, NULL, 0, NULL, err);
	if (st == ST_OK)
		st = pg_query(s, sql, &consumer, 1, &r, err);
	if (st == ST_OK)
		*ret = r.rows > 0 ? pg_value_int8(&r, 0, 0) : 0;
	struct error ignored;
	const enum status ended = st == ST_OK || st == ST_REFUSED ? pg_rollback(s, &ignored) : st;
	return st == ST_OK ? ended : st;
}

enum status prune_count(struct pg_session *s, const char *consumer, int64_t *ret, struct error *err)
{
	return ask(s, count_sql, consumer, ret, err);
}

enum status prune_oldest(struct pg_session *s, const char *consumer, int64_t *ret_s, struct error *err)
{
	return ask(s, oldest_sql, consumer, ret_s, err);
}

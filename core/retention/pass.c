#include "retention/pass.h"
#include "base/log.h"
#include "pg/migrate.h"
#include "retention/prune.h"
#include "retention/registry.h"
#include <stdlib.h>
#include <string.h>

static const char consumers_sql[] =
	"SELECT consumer, claims, coalesce(pg_catalog.date_part('epoch', \"window\"), -1)::int8"
	" FROM effectd.consumers ORDER BY consumer";
enum { NAME, CLAIMS, WINDOW };

/* For one window both tables were claimed in; now the table of before knows nothing that the days do not know. */
static const char end_both_sql[] = "UPDATE effectd.consumers SET claims = 'daily', switched_at = NULL"
				   " WHERE claims = 'both' AND switched_at + \"window\" < now() RETURNING consumer";

static void copy(char *dst, size_t size, const struct pg_result *r, int row, int column)
{
	int len = 0;
	const char *text = pg_value(r, row, column, &len);
	const size_t n = (size_t)len < size ? (size_t)len : size - 1;
	if (text)
		memcpy(dst, text, n);
	dst[text ? n : 0] = '\0';
}

static enum status read_consumers(struct pass *p, struct pg_session *s, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, consumers_sql, NULL, 0, &r, err);
	if (st != ST_OK)
		return st;
	p->consumers = calloc((size_t)r.rows + 1, sizeof(*p->consumers));
	if (!p->consumers)
		return error_oom(err);
	p->consumer_count = (size_t)r.rows;
	for (int row = 0; row < r.rows; row++) {
		struct pass_consumer *c = &p->consumers[row];
		copy(c->name, sizeof(c->name), &r, row, NAME);
		copy(c->claims, sizeof(c->claims), &r, row, CLAIMS);
		c->window_s = pg_value_int8(&r, row, WINDOW);
	}
	return ST_OK;
}

static enum status end_both(struct pg_session *s, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, end_both_sql, NULL, 0, &r, err);
	for (int row = 0; st == ST_OK && row < r.rows; row++) {
		char name[PASS_NAME_BYTES];
		copy(name, sizeof(name), &r, row, 0);
		log_info("claims_are_daily_now", LOG_STR("consumer", name));
	}
	return st;
}

static bool lost(enum status st)
{
	return st != ST_OK && st != ST_REFUSED && st != ST_INVALID;
}

/* The first failure of several. */
static void keep_first(enum status *first, struct error *err, enum status st, const struct error *e)
{
	if (*first != ST_OK || st == ST_OK)
		return;
	*first = st;
	*err = *e;
}

static enum status prune_one(struct pass *p, struct pg_session *s, struct pass_consumer *c, struct error *err)
{
	const struct prune prune = {
		.session = s,
		.consumer = c->name,
		.batch_rows = p->batch_rows,
		.pause_ms = p->pause_ms,
		.waiter = p->waiter,
		.progress = p->progress,
		.arg = p->arg,
	};
	enum status st = c->window_s < 0 ? ST_OK : prune_run(&prune, &c->rows, &c->busy, err);
	if (st == ST_OK)
		st = prune_oldest(s, c->name, &c->oldest_s, err);
	c->failed = st != ST_OK;
	if (st != ST_OK)
		error_wrap(err, "consumer %s", c->name);
	if (st != ST_OK && st != ST_STOPPED)
		log_warn("retention_failed", LOG_STR("database", p->database), LOG_STR("consumer", c->name),
			 LOG_INT("deleted", c->rows), LOG_ERR(err));
	return st;
}

static enum status keep_days(struct pass *p, struct error *err)
{
	struct pg_session *owner = NULL;
	const struct days looked = p->days;
	enum status st = pg_session_open(&owner, &p->owner, p->waiter, err);
	if (st == ST_OK)
		st = days_keep(owner, &p->days, err);
	pg_session_destroy(owner);
	if (p->days.busy) {
		p->days = looked;
		p->days.busy = true;
	}
	if (st == ST_OK && (p->days.made > 0 || p->days.dropped > 0))
		log_info("days_kept", LOG_STR("database", p->database), LOG_STR("floor", days_text(p->days.floor).text),
			 LOG_INT("made", p->days.made), LOG_INT("dropped", p->days.dropped));
	return st;
}

static enum status run(struct pass *p, struct pg_session *s, struct error *err)
{
	enum status st = end_both(s, err), first = ST_OK;
	if (st == ST_OK)
		st = registry_touch(s, err);
	if (st == ST_OK)
		st = read_consumers(p, s, err);
	if (st == ST_OK)
		st = days_look(s, &p->days, err);
	if (st != ST_OK && st != ST_INVALID)
		return st;
	struct error e = *err;
	keep_first(&first, err, st, &e);
	if (st == ST_OK && (p->days.used || p->days.behind > 0)) {
		st = keep_days(p, &e);
		keep_first(&first, err, st, &e);
	}
	for (size_t i = 0; i < p->consumer_count && first != ST_STOPPED; i++) {
		st = prune_one(p, s, &p->consumers[i], &e);
		keep_first(&first, err, st, &e);
		if (lost(st))
			break;
	}
	return first;
}

static enum status look(struct pass *p, struct pg_session *s, struct error *err)
{
	enum status st = read_consumers(p, s, err);
	if (st == ST_OK)
		st = days_look(s, &p->days, err);
	for (size_t i = 0; i < p->consumer_count && st == ST_OK; i++) {
		struct pass_consumer *c = &p->consumers[i];
		st = prune_count(s, c->name, &c->rows, err);
		if (st == ST_OK)
			st = prune_oldest(s, c->name, &c->oldest_s, err);
	}
	return st;
}

static enum status with_session(struct pass *p,
				enum status (*what)(struct pass *p, struct pg_session *s, struct error *err),
				struct error *err)
{
	struct pg_session *s = NULL;
	enum status st = pg_session_open(&s, &p->app, p->waiter, err);
	if (st == ST_OK)
		st = migrate_require(s, err);
	if (st == ST_OK)
		st = what(p, s, err);
	pg_session_destroy(s);
	return st;
}

enum status pass_run(struct pass *p, struct error *err)
{
	return with_session(p, run, err);
}

enum status pass_look(struct pass *p, struct error *err)
{
	return with_session(p, look, err);
}

void pass_finish(struct pass *p)
{
	free(p->consumers);
	p->consumers = NULL;
	p->consumer_count = 0;
}

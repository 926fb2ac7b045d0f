#include "source/parked.h"
#include "amqp/properties.h"
#include "base/fault.h"
#include "source/journal.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The lease is the database's time, handed back to us as the mark that later statements are fenced by. */
static const char lease_sql[] = "UPDATE effectd.parked_messages AS p SET leased_until = clock_timestamp() + $2::bigint "
				"* interval '1 millisecond'"
				" WHERE id = (SELECT id FROM effectd.parked_messages"
				"  WHERE consumer = $1 AND status = 'retry' AND next_attempt_at <= now()"
				"   AND (leased_until IS NULL OR leased_until < now())"
				"  ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
				" RETURNING id, leased_until, body, properties, attempts::bigint, crashes::bigint,"
				" NOT beyond_window AND " PARKED_IS_BEYOND_WINDOW_SQL ", beyond_window";
enum { ID, LEASE, BODY, PROPERTIES, ATTEMPTS, CRASHES, EXPIRED, BEYOND_WINDOW };

static const char enter_sql[] = "UPDATE effectd.parked_messages SET crashes = crashes + 1"
				" WHERE id = $1 AND leased_until = $2";

static const char leave_sql[] = "UPDATE effectd.parked_messages SET crashes = greatest(crashes - 1, 0)"
				" WHERE id = $1 AND leased_until = $2";

static const char done_sql[] = "DELETE FROM effectd.parked_messages WHERE id = $1 AND leased_until = $2";

/* The attempt failed. What it failed of replaces what was there before; crashes that did not happen are forgotten. */
static const char failed_sql[] =
	"UPDATE effectd.parked_messages SET attempts = attempts + 1, crashes = 0, leased_until = NULL,"
	" status = $3, reason = $4, sqlstate = $5, detail = $6, message_key = coalesce(message_key, $7),"
	" event_day = coalesce(event_day, date '1970-01-01' + $9::int),"
	" next_attempt_at = CASE WHEN $3 = 'retry' THEN now() + $8::bigint * interval '1 millisecond' END"
	" WHERE id = $1 AND leased_until = $2";

static const struct pg_statement statements[] = {
	{ .name = "parked_lease", .sql = lease_sql },   { .name = "parked_enter", .sql = enter_sql },
	{ .name = "parked_leave", .sql = leave_sql },   { .name = "parked_done", .sql = done_sql },
	{ .name = "parked_failed", .sql = failed_sql },
};

struct parked_source {
	struct source base; /* must be first */
	struct parked_params params;
	struct delivery delivery; /* the one that is leased */
	bool leased, out;
	bool expired;         /* older than the window, and nobody said that this does not matter */
	char id[8], lease[8]; /* as they came: int8 and timestamptz, binary */
	int64_t attempts, crashes;
	char *memory; /* body and properties */
};

static void forget(struct parked_source *p)
{
	free(p->memory);
	p->memory = NULL;
	p->leased = p->out = false;
}

static enum status send(struct parked_source *p, struct pg_session *s, const char *statement, struct error *err)
{
	const struct pg_values values = {
		.count = 2,
		.data = (const char *const[]){ p->id, p->lease },
		.lengths = (const int[]){ sizeof(p->id), sizeof(p->lease) },
		.formats = (const int[]){ 1, 1 },
	};
	return pg_send(s, statement, &values, err);
}

static struct delivery *parked_next(struct source *src)
{
	struct parked_source *p = (struct parked_source *)src;
	if (!p->leased || p->out)
		return NULL;
	p->out = true;
	return &p->delivery;
}

/* A transaction of one statement, which must find the row: else *ret_gone. */
static enum status mark(struct parked_source *p, struct pg_session *s, const char *statement, bool *ret_gone,
			struct error *err)
{
	struct pg_result result;
	enum status st = send(p, s, statement, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_next(s, &result, err);
	if (st != ST_OK)
		return st;
	const bool refused = result.kind == PG_ERROR;
	*ret_gone = !refused && result.affected == 0;
	struct error ignored;
	st = pg_drain(s, refused ? &ignored : err);
	return refused && st == ST_OK ? ST_REFUSED : st;
}

static enum status parked_enter(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				bool suspects, enum entry *ret, struct error *err)
{
	(void)d;
	(void)arena;
	struct parked_source *p = (struct parked_source *)src;
	if (p->crashes >= JOURNAL_CRASHES)
		*ret = ENTRY_CULPRIT;
	else if (p->expired)
		*ret = ENTRY_EXPIRED;
	else if (p->crashes > 0 && !suspects)
		*ret = ENTRY_SUSPECT;
	else
		*ret = ENTRY_GO;
	if (*ret != ENTRY_GO)
		return ST_OK;
	bool gone = false;
	const enum status st = mark(p, s, "parked_enter", &gone, err);
	if (gone)
		*ret = ENTRY_GONE;
	return st;
}

static enum status parked_leave(struct source *src, struct pg_session *s, struct delivery *d, struct error *err)
{
	(void)d;
	bool gone; /* whoever has the row now finds the count too high by one: they took it from under us */
	return mark((struct parked_source *)src, s, "parked_leave", &gone, err);
}

static enum status parked_enlist(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				 int *ret_sent, struct error *err)
{
	(void)d;
	(void)arena;
	*ret_sent = 1;
	return send((struct parked_source *)src, s, "parked_done", err);
}

/* The key is kept out when it collides: the row of the same message that has it stays what it is. */
static enum status parked_park(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
			       struct arena *arena, int *ret_sent, struct error *err)
{
	(void)d;
	const struct parked_source *p = (const struct parked_source *)src;
	const char *status = why->retry ? "retry" : "dead", *reason = park_reason_names[why->reason];
	const struct str detail = park_shown(arena, (struct str){ why->detail, why->detail ? strlen(why->detail) : 0 });
	const struct str key = why->plain ? (struct str){ 0 } : why->key;
	char delay[24], day[24];
	const int delay_len = snprintf(delay, sizeof(delay), "%" PRId64, why->delay_ms);
	const int day_len = snprintf(day, sizeof(day), "%" PRId64, why->day);
	const char *data[] = { p->id,
			       p->lease,
			       status,
			       reason,
			       why->sqlstate[0] ? why->sqlstate : NULL,
			       detail.data,
			       key.data,
			       delay,
			       why->has_day ? day : NULL };
	const int lengths[] = { sizeof(p->id),
				sizeof(p->lease),
				(int)strlen(status),
				(int)strlen(reason),
				(int)strlen(why->sqlstate),
				(int)detail.len,
				(int)key.len,
				delay_len,
				day_len };
	const int formats[] = { 1, 1, 1, 1, 1, 1, 1, 0, 0 };
	*ret_sent = 1;
	return pg_send(s, "parked_failed", &(struct pg_values){ 9, data, lengths, formats }, err);
}

static void parked_settle(struct source *src, struct delivery *d, enum outcome outcome)
{
	(void)d;
	(void)outcome;
	forget((struct parked_source *)src);
}

/* The lease runs out by itself; then the row is due again, for whoever is there. */
static void parked_give_back(struct source *src, struct delivery *d)
{
	(void)d;
	forget((struct parked_source *)src);
}

static void parked_flush(struct source *src)
{
	(void)src;
}

static const struct source_ops parked_ops = {
	.next = parked_next,
	.enter = parked_enter,
	.leave = parked_leave,
	.enlist = parked_enlist,
	.park = parked_park,
	.settle = parked_settle,
	.give_back = parked_give_back,
	.flush = parked_flush,
};

static enum status take(struct parked_source *p, const struct pg_result *r, struct error *err)
{
	int id_len = 0, lease_len = 0, body_len = 0, packed_len = 0, flag_len = 0;
	const char *id = pg_value(r, 0, ID, &id_len), *lease = pg_value(r, 0, LEASE, &lease_len);
	const char *body = pg_value(r, 0, BODY, &body_len), *packed = pg_value(r, 0, PROPERTIES, &packed_len);
	if (!id || !lease || id_len != sizeof(p->id) || lease_len != sizeof(p->lease))
		return error_set(err, ST_INTERNAL, "effectd.parked_messages has columns of another type");
	p->memory = malloc((size_t)body_len + (size_t)packed_len + 1);
	if (!p->memory)
		return error_oom(err);
	memcpy(p->id, id, sizeof(p->id));
	memcpy(p->lease, lease, sizeof(p->lease));
	if (body_len > 0)
		memcpy(p->memory, body, (size_t)body_len);
	if (packed_len > 0)
		memcpy(p->memory + body_len, packed, (size_t)packed_len);
	p->attempts = pg_value_int8(r, 0, ATTEMPTS);
	p->crashes = pg_value_int8(r, 0, CRASHES);
	const char *expired = pg_value(r, 0, EXPIRED, &flag_len);
	p->expired = expired && *expired;
	const char *beyond_window = pg_value(r, 0, BEYOND_WINDOW, &flag_len);
	p->delivery = (struct delivery){
		.message = { .body = { p->memory, (size_t)body_len },
			     .codec = &amqp_properties,
			     .redelivered = true,
			     .attempt = (uint32_t)p->attempts + 1 },
		.beyond_window = beyond_window && *beyond_window,
		.journalled = true, /* the row itself */
	};
	struct message *m = &p->delivery.message;
	const struct str all = { p->memory + body_len, (size_t)packed_len };
	if (!park_unpack(all, &m->exchange, &m->routing_key, &m->properties))
		m->codec = NULL; /* written by hand: a body without properties */
	p->leased = true;
	return ST_OK;
}

enum status parked_source_fetch(struct parked_source *p, struct pg_session *s, struct error *err)
{
	if (p->leased)
		return ST_OK;
	char lease[24];
	const int len = snprintf(lease, sizeof(lease), "%" PRId64, p->params.lease_ms);
	const struct pg_values values = {
		.count = 2,
		.data = (const char *const[]){ p->params.consumer, lease },
		.lengths = (const int[]){ (int)strlen(p->params.consumer), len },
		.formats = (const int[]){ 1, 0 },
	};
	struct pg_result result;
	enum status st = pg_send(s, "parked_lease", &values, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_next(s, &result, err);
	if (st != ST_OK)
		return st;
	const bool refused = result.kind == PG_ERROR;
	if (result.kind == PG_ROWS && result.rows == 1)
		st = take(p, &result, err);
	struct error ignored;
	const enum status drained = pg_drain(s, refused || st != ST_OK ? &ignored : err);
	if (p->leased && FAULT_POINT("retry_leased"))
		return error_set(err, ST_UNAVAILABLE, "fault point retry_leased");
	return refused ? ST_REFUSED : st != ST_OK ? st : drained;
}

enum status parked_source_create(struct parked_source **ret, const struct parked_params *params, struct error *err)
{
	struct parked_source *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	p->params = *params;
	p->base = (struct source){
		.ops = &parked_ops,
		.statements = statements,
		.statement_count = ARRAY_LEN(statements),
		.fenced = true,
	};
	*ret = p;
	return ST_OK;
}

void parked_source_destroy(struct parked_source *p)
{
	if (!p)
		return;
	forget(p);
	free(p);
}

struct source *parked_source_base(struct parked_source *p)
{
	return &p->base;
}

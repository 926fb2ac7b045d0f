#include "run/rehearsal.h"
#include "base/clock.h"
#include "exact/exact.h"
#include "pg/migrate.h"
#include "run/json_text.h"
#include "run/params.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	LOCK_TIMEOUT_MS = 1000, /* a dry run waits for nobody for long */
	COPIES_MOST = 2,
};

/* One statement or outbox row that the message queued. */
struct step {
	enum plugin_op_kind kind;
	uint32_t statement;
	struct pg_values values; /* copied */
	bool answered;
	int64_t rows;
	struct error err; /* ST_OK: none */
};

/* What was seen of one delivery, in its last run. */
struct seen {
	struct delivery delivery, original; /* as it is run, and as it was given */
	bool has_key, claimed, won, judged;
	bool claim_ignored; /* it was taken, and taken away for this rehearsal */
	struct str key;
	int64_t event_ms, lock_order;
	effectd_verdict verdict;
	const char *text;
	struct step *steps;
	size_t step_count, step_room, answered_count;
	bool settled;
	enum outcome outcome;
	bool parked;
	struct park why;
	struct error err; /* why it was not settled */
	bool stops;       /* the consumer would */
};

struct rehearsal {
	struct exact_observer observer; /* must be first */
	struct source source;
	struct rehearsal_params params;
	struct consumer_counters counters;
	struct plugin_instance *instance;
	struct exact *exact;
	struct pg_session *pg;
	struct arena arena; /* of one message */
	bool *shown;        /* statement's parameters can be shown: show_N is prepared */

	struct seen seen[COPIES_MOST];
	size_t copies, given;
	bool failed; /* out of memory while looking */
};

/* --- looking --- */

static struct seen *seen_of(const struct delivery *d)
{
	return (struct seen *)d; /* its first member */
}

static struct str copy_str(struct rehearsal *t, struct str s)
{
	const char *copy = s.data ? arena_copy(&t->arena, s.data, s.len) : NULL;
	t->failed |= s.data && !copy;
	return (struct str){ copy, copy ? s.len : 0 };
}

static const char *copy_text(struct rehearsal *t, const char *text)
{
	return copy_str(t, (struct str){ text, strlen(text) }).data;
}

static void on_begun(struct exact_observer *o, const struct delivery *d, struct str key, int64_t event_ms,
		     int64_t lock_order)
{
	struct rehearsal *t = (struct rehearsal *)o;
	struct seen *s = seen_of(d);
	s->has_key = key.data;
	s->key = copy_str(t, key);
	s->event_ms = event_ms;
	s->lock_order = lock_order;
	s->claimed = s->won = s->judged = false;
	s->step_count = s->answered_count = 0;
}

static void on_claimed(struct exact_observer *o, const struct delivery *d, bool won)
{
	(void)o;
	seen_of(d)->claimed = true;
	seen_of(d)->won = won;
}

static void on_judged(struct exact_observer *o, const struct delivery *d, effectd_verdict verdict, const char *text)
{
	struct seen *s = seen_of(d);
	s->judged = true;
	s->verdict = verdict;
	s->text = copy_text((struct rehearsal *)o, text);
}

static bool copy_values(struct rehearsal *t, const struct pg_values *from, struct pg_values *to)
{
	const size_t n = (size_t)from->count;
	const char **data = arena_alloc(&t->arena, (n + 1) * sizeof(*data));
	int *lengths = arena_copy(&t->arena, from->lengths, n * sizeof(*lengths));
	int *formats = arena_copy(&t->arena, from->formats, n * sizeof(*formats));
	if (!data || !lengths || !formats)
		return false;
	for (size_t i = 0; i < n; i++) {
		data[i] = from->data[i] ? arena_copy(&t->arena, from->data[i], (size_t)lengths[i]) : NULL;
		if (from->data[i] && !data[i])
			return false;
	}
	*to = (struct pg_values){ from->count, data, lengths, formats };
	return true;
}

static void on_queued(struct exact_observer *o, const struct delivery *d, const struct plugin_op *op)
{
	struct rehearsal *t = (struct rehearsal *)o;
	struct seen *s = seen_of(d);
	if (s->step_count == s->step_room) {
		const size_t room = s->step_room ? 2 * s->step_room : 8;
		struct step *more = arena_alloc(&t->arena, room * sizeof(*more));
		t->failed |= !more;
		if (!more)
			return;
		if (s->step_count > 0)
			memcpy(more, s->steps, s->step_count * sizeof(*more));
		s->steps = more;
		s->step_room = room;
	}
	struct step *step = &s->steps[s->step_count++];
	*step = (struct step){ .kind = op->kind, .statement = op->statement };
	t->failed |= !copy_values(t, &op->values, &step->values);
}

static void on_answered(struct exact_observer *o, const struct delivery *d, int64_t rows, const struct error *err)
{
	(void)o;
	struct seen *s = seen_of(d);
	if (s->answered_count >= s->step_count)
		return;
	struct step *step = &s->steps[s->answered_count++];
	step->answered = true;
	step->rows = rows;
	if (err)
		step->err = *err;
}

static void on_settled(struct exact_observer *o, const struct delivery *d, enum outcome outcome, const struct park *why)
{
	struct rehearsal *t = (struct rehearsal *)o;
	struct seen *s = seen_of(d);
	s->settled = true;
	s->outcome = outcome;
	s->parked = why;
	if (!why)
		return;
	s->why = *why;
	s->why.detail = copy_text(t, why->detail ? why->detail : "");
	if (why->key.data) { /* it has one also where no run began with it */
		s->has_key = true;
		s->key = copy_str(t, why->key);
	}
}

/* --- the source: the message at hand, once or twice, in the order of asking --- */

static struct delivery *rehearsal_next(struct source *src)
{
	struct rehearsal *t = (struct rehearsal *)((char *)src - offsetof(struct rehearsal, source));
	return t->given < t->copies ? &t->seen[t->given++].delivery : NULL;
}

static enum status nothing_sent(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				int *ret_sent, struct error *err)
{
	(void)src, (void)s, (void)d, (void)arena, (void)err;
	*ret_sent = 0;
	return ST_OK;
}

static enum status nothing_parked(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
				  struct arena *arena, int *ret_sent, struct error *err)
{
	(void)why;
	return nothing_sent(src, s, d, arena, ret_sent, err);
}

static void forget(struct source *src, struct delivery *d)
{
	(void)src, (void)d;
}

static void settled(struct source *src, struct delivery *d, enum outcome outcome)
{
	(void)src, (void)d, (void)outcome;
}

static void flushed(struct source *src)
{
	(void)src;
}

static const struct source_ops rehearsal_ops = {
	.next = rehearsal_next,
	.enlist = nothing_sent,
	.park = nothing_parked,
	.settle = settled,
	.give_back = forget,
	.flush = flushed,
};

/* --- running --- */

static void run_copy(struct rehearsal *t, struct seen *s)
{
	struct error err = { 0 };
	const enum exact_result result = exact_turn(t->exact, &err);
	if (!s->settled && result == EXACT_IDLE)
		error_set(&err, ST_REFUSED,
			  "another transaction is at this key, or a retry waits: a delivery would be held back");
	if (!s->settled) {
		s->err = err;
		s->stops = result == EXACT_PROGRAM || result == EXACT_BROKEN;
	}
	exact_give_back(t->exact);
}

/* --ignore-claim: the claim goes, in the transaction that is rolled back, and the message runs again. */
static enum status run_without_claim(struct rehearsal *t, struct seen *s, struct error *err)
{
	static const char *const sql[] = {
		"DELETE FROM effectd.processed_messages WHERE consumer = $1 AND message_key = $2",
		"DELETE FROM effectd.processed_messages_daily WHERE consumer = $1 AND message_key = $2",
	};
	char key[EFFECTD_KEY_MAX + 1];
	snprintf(key, sizeof(key), "%.*s", (int)s->key.len, s->key.data);
	const char *const values[] = { t->params.consumer->config->name, key };
	for (size_t i = 0; i < ARRAY_LEN(sql); i++) {
		const enum status st = pg_query(t->pg, sql[i], values, ARRAY_LEN(values), NULL, err);
		if (st != ST_OK)
			return st;
	}
	*s = (struct seen){ .delivery = s->original, .original = s->original, .claim_ignored = true };
	t->given--;
	run_copy(t, s);
	return ST_OK;
}

/* What a deferred constraint says at COMMIT. */
static void check_deferred(struct rehearsal *t, struct seen *s)
{
	struct error err = { 0 };
	if (exact_session_lost(t->exact) ||
	    pg_query(t->pg, "SET CONSTRAINTS ALL IMMEDIATE", NULL, 0, NULL, &err) == ST_OK)
		return;
	error_wrap(&err, "COMMIT");
	s->settled = false;
	s->err = err;
}

static enum status run_all(struct rehearsal *t, struct error *err)
{
	enum status st = pg_query(t->pg, "BEGIN", NULL, 0, NULL, err);
	for (size_t i = 0; i < (t->params.twice ? COPIES_MOST : 1) && st == ST_OK; i++) {
		t->copies = i + 1;
		struct seen *s = &t->seen[i];
		run_copy(t, s);
		if (t->params.ignore_claim && s->claimed && !s->won && s->settled)
			st = run_without_claim(t, s, err);
		if (st != ST_OK)
			break;
		if (exact_session_lost(t->exact)) {
			*err = s->err;
			return ST_UNAVAILABLE;
		}
		check_deferred(t, s);
		if (!s->settled)
			break;
	}
	return st == ST_OK ? pg_query(t->pg, "ROLLBACK", NULL, 0, NULL, err) : st;
}

/* --- telling --- */

static const char *const verdict_names[] = {
	[EFFECTD_OK] = "ok",         [EFFECTD_IGNORE] = "ignore", [EFFECTD_RETRY] = "retry",
	[EFFECTD_REJECT] = "reject", [EFFECTD_BROKEN] = "broken",
};

static json_t *json_of(const char *text)
{
	return text ? json_text((struct str){ text, strlen(text) }) : json_null();
}

static json_t *error_of(const struct error *err)
{
	return json_pack("{ss* so}", "sqlstate", err->sqlstate[0] ? err->sqlstate : NULL, "text", json_of(err->text));
}

/* SELECT $1::TYPE::text, ...: PostgreSQL shows what it was sent. */
static enum status prepare_shown(struct rehearsal *t, uint32_t index, struct error *err)
{
	const struct pg_statement *of = &t->instance->prepared[index];
	CLEANUP(buffer_finish) struct buffer types = { 0 }, sql = { 0 };
	struct pg_result r;
	for (uint16_t i = 0; i < of->param_count; i++)
		buffer_printf(&types, "%c%" PRIu32, i ? ',' : '{', of->param_types[i]);
	buffer_puts(&types, of->param_count > 0 ? "}" : "{}");
	enum status st = pg_query(t->pg,
				  "SELECT format_type(u.t, NULL) FROM unnest($1::oid[]) WITH ORDINALITY AS u (t, n) "
				  "ORDER BY u.n",
				  (const char *const[]){ buffer_text(&types) }, 1, &r, err);
	if (st != ST_OK)
		return st;
	buffer_puts(&sql, "SELECT ");
	for (int i = 0; i < r.rows; i++) {
		int len;
		const char *type = pg_value(&r, i, 0, &len);
		buffer_printf(&sql, "%s($%d::%.*s)::text", i ? ", " : "", i + 1, len, type);
	}
	char name[32];
	size_t bad;
	snprintf(name, sizeof(name), "show_%" PRIu32, index);
	struct pg_statement shown = { .name = name, .sql = buffer_text(&sql) };
	if ((st = pg_prepare(t->pg, &shown, 1, &bad, err)) == ST_OK)
		t->shown[index] = true;
	return st;
}

static enum status add_parameters(struct rehearsal *t, const struct step *step, json_t *list, struct error *err)
{
	if (step->values.count == 0)
		return ST_OK;
	enum status st = t->shown[step->statement] ? ST_OK : prepare_shown(t, step->statement, err);
	char name[32];
	snprintf(name, sizeof(name), "show_%" PRIu32, step->statement);
	struct pg_result r;
	if (st == ST_OK)
		st = pg_send(t->pg, name, &step->values, err);
	if (st == ST_OK)
		st = pg_sync(t->pg, err);
	if (st == ST_OK)
		st = pg_next(t->pg, &r, err);
	for (int i = 0; st == ST_OK && r.kind == PG_ROWS && i < step->values.count; i++) {
		int len = 0;
		const char *value = pg_value(&r, 0, i, &len);
		json_array_append_new(list, json_text((struct str){ value, (size_t)len }));
	}
	return st == ST_OK ? pg_drain(t->pg, err) : st;
}

/* jsonb goes over as a version byte and text. */
static json_t *jsonb_of(const struct pg_values *v, int at)
{
	return v->data[at] && v->lengths[at] > 0
		       ? json_loadb(v->data[at] + 1, (size_t)v->lengths[at] - 1, JSON_DECODE_ANY, NULL)
		       : json_null();
}

static json_t *outbox_row(struct rehearsal *t, const struct seen *s, const struct step *step, unsigned ordinal)
{
	enum { KIND, PAYLOAD, HEADERS, ORDERING_KEY, IDEMPOTENCY_KEY };
	const struct pg_values *v = &step->values;
	CLEANUP(buffer_finish) struct buffer key = { 0 };
	if (v->data[IDEMPOTENCY_KEY])
		buffer_add(&key, v->data[IDEMPOTENCY_KEY], (size_t)v->lengths[IDEMPOTENCY_KEY]);
	else
		buffer_printf(&key, "%s/%.*s/%u", t->params.consumer->config->name, (int)s->key.len, s->key.data,
			      ordinal);
	return json_pack("{so so so so so}", "kind", json_text((struct str){ v->data[KIND], (size_t)v->lengths[KIND] }),
			 "payload", jsonb_of(v, PAYLOAD), "headers", jsonb_of(v, HEADERS), "ordering_key",
			 json_text((struct str){ v->data[ORDERING_KEY], (size_t)v->lengths[ORDERING_KEY] }),
			 "idempotency_key", json_of(buffer_text(&key)));
}

static enum status add_steps(struct rehearsal *t, const struct seen *s, json_t *report, struct error *err)
{
	json_t *statements = json_array(), *outbox = json_array();
	json_object_set_new(report, "statements", statements);
	json_object_set_new(report, "outbox", outbox);
	unsigned ordinal = 0;
	for (size_t i = 0; i < s->step_count; i++) {
		const struct step *step = &s->steps[i];
		if (step->kind == PLUGIN_OP_OUTBOX) {
			json_array_append_new(outbox, outbox_row(t, s, step, ++ordinal));
			continue;
		}
		json_t *one =
			json_pack("{ss s[]}", "name", t->instance->statements[step->statement].name, "parameters");
		json_array_append_new(statements, one);
		const enum status st = add_parameters(t, step, json_object_get(one, "parameters"), err);
		if (st != ST_OK)
			return st;
		if (step->err.status != ST_OK || step->err.sqlstate[0])
			json_object_set_new(one, "error", error_of(&step->err));
		else if (step->answered)
			json_object_set_new(one, "rows", json_integer(step->rows));
	}
	return ST_OK;
}

static json_t *time_of(int64_t ms)
{
	struct tm tm;
	char text[40];
	const time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
	if (ms == 0 || !gmtime_r(&seconds, &tm))
		return json_null();
	const size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(ms - (int64_t)seconds * 1000));
	return json_string(text);
}

static enum status tell(struct rehearsal *t, const struct seen *s, json_t **ret, struct error *err)
{
	const char *outcome = s->settled ? outcome_names[s->outcome] : s->stops ? "stops" : "again";
	json_t *report = json_pack("{ss so so sI ss}", "outcome", outcome, "key", json_text(s->key), "event_time",
				   time_of(s->event_ms), "lock_order", (json_int_t)s->lock_order, "claim",
				   s->claim_ignored ? "ignored"
				   : !s->claimed    ? "none"
				   : s->won         ? "new"
						    : "taken");
	if (!report)
		return error_oom(err);
	*ret = report;
	if (s->judged) {
		json_object_set_new(report, "verdict", json_string(verdict_names[s->verdict]));
		if (s->text && *s->text)
			json_object_set_new(report, "text", json_of(s->text));
	}
	const enum status st = add_steps(t, s, report, err);
	if (s->parked)
		json_object_set_new(report, "parked",
				    json_pack("{ss ss ss* so}", "status", s->why.retry ? "retry" : "dead", "reason",
					      park_reason_names[s->why.reason], "sqlstate",
					      s->why.sqlstate[0] ? s->why.sqlstate : NULL, "detail",
					      json_of(s->why.detail)));
	if (!s->settled)
		json_object_set_new(report, "error", error_of(&s->err));
	return st;
}

enum status rehearsal_run(struct rehearsal *t, const struct message *m, json_t **ret, struct error *err)
{
	arena_reset(&t->arena);
	t->copies = t->given = 0;
	t->failed = false;
	const bool oversized = (int64_t)m->body.len > t->params.consumer->config->max_body_bytes;
	const struct delivery delivery = { .message = *m, .oversized = oversized };
	for (size_t i = 0; i < COPIES_MOST; i++)
		t->seen[i] = (struct seen){ .delivery = delivery, .original = delivery };
	const int64_t begun_us = clock_mono_us();
	enum status st = run_all(t, err);
	const double took_ms = (double)(clock_mono_us() - begun_us) / 1000;
	json_t *report = NULL, *second = NULL;
	if (st == ST_OK)
		st = t->failed ? error_oom(err) : tell(t, &t->seen[0], &report, err);
	if (st == ST_OK && t->copies > 1)
		st = tell(t, &t->seen[1], &second, err);
	if (st != ST_OK) {
		json_decref(report);
		json_decref(second);
		return st;
	}
	if (second)
		json_object_set_new(report, "second", second);
	json_object_set_new(report, "took_ms", json_real(took_ms));
	*ret = report;
	return ST_OK;
}

/* --- opening --- */

static enum status connect_all(struct rehearsal *t, struct error *err)
{
	const struct config_consumer *config = t->params.consumer->config;
	struct pg_params params;
	params_of_database(config->database, t->params.process, "effectd/try", &params);
	params.rehearsal = true;
	params.lock_timeout_ms = LOCK_TIMEOUT_MS;
	enum status st = pg_session_open(&t->pg, &params, &wait_alone, err);
	if (st == ST_OK)
		st = migrate_require(t->pg, err);
	return st == ST_OK ? exact_attach(t->exact, t->pg, err) : st;
}

enum status rehearsal_open(struct rehearsal **ret, const struct rehearsal_params *params, struct error *err)
{
	struct rehearsal *t = calloc(1, sizeof(*t));
	if (!t)
		return error_oom(err);
	const struct config_consumer *config = params->consumer->config;
	t->params = *params;
	t->observer = (struct exact_observer){ on_begun, on_claimed, on_judged, on_queued, on_answered, on_settled };
	t->source.ops = &rehearsal_ops;
	arena_init(&t->arena);
	const struct exact_params exact = {
		.consumer = config->name,
		.batch_max = 1,
		.batch_bytes = SIZE_MAX,
		.retry_min_ms = config->retry_min_ms,
		.retry_max_ms = config->retry_max_ms,
		.max_attempts = config->max_attempts,
		.counters = &t->counters,
		.observer = &t->observer,
	};
	enum status st = plugin_instance_create(&t->instance, params->consumer->plugin, config->name,
						params->consumer->settings, config->settings.count, err);
	if (st == ST_OK)
		st = exact_create(&t->exact, &exact, t->instance, &t->source, err);
	if (st == ST_OK)
		st = connect_all(t, err);
	if (st == ST_OK && !(t->shown = calloc(t->instance->statement_count + 1, sizeof(*t->shown))))
		st = error_oom(err);
	if (st == ST_OK)
		*ret = t;
	else
		rehearsal_close(t);
	return st;
}

void rehearsal_close(struct rehearsal *t)
{
	if (!t)
		return;
	exact_destroy(t->exact);
	plugin_instance_destroy(t->instance);
	pg_session_destroy(t->pg);
	arena_finish(&t->arena);
	free(t->shown);
	free(t);
}

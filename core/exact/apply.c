/* The second flight: the plugin's statements for every claim that was won, parked rows, claims taken back. Every result
 * is read and every row count checked here, before COMMIT is sent: a COMMIT behind an unread UPDATE 0 would keep the
 * claim without its effect. */
#include "base/clock.h"
#include "base/fault.h"
#include "exact/heart.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status owe(struct exact *x, struct owed owed, struct error *err)
{
	if (x->owed_count == x->owed_capacity) {
		size_t capacity = x->owed_capacity ? 2 * x->owed_capacity : 256;
		struct owed *more = realloc(x->owed, capacity * sizeof(*more));
		if (!more)
			return error_oom(err);
		x->owed = more;
		x->owed_capacity = capacity;
	}
	x->owed[x->owed_count++] = owed;
	return ST_OK;
}

/* An outbox row: the plugin's values between consumer and key and the idempotency key, which has a default. */
static enum status send_outbox(struct exact *x, const struct item *item, const struct plugin_op *op, unsigned ordinal,
			       struct error *err)
{
	enum { KIND, PAYLOAD, HEADERS, ORDERING_KEY, IDEMPOTENCY_KEY, GIVEN };
	const struct pg_values *v = &op->values;
	const char *data[GIVEN + 2] = { x->params.consumer, item->key.data };
	int lengths[GIVEN + 2] = { (int)strlen(x->params.consumer), (int)item->key.len };
	int formats[GIVEN + 2] = { 1, 1 };
	for (int i = 0; i < GIVEN; i++) {
		data[2 + i] = v->data[i];
		lengths[2 + i] = v->lengths[i];
		formats[2 + i] = v->formats[i];
	}
	if (!v->data[IDEMPOTENCY_KEY]) {
		const size_t size = strlen(x->params.consumer) + item->key.len + 16;
		char *key = arena_alloc(&x->arena, size);
		if (!key)
			return error_oom(err);
		lengths[2 + IDEMPOTENCY_KEY] = snprintf(key, size, "%s/%.*s/%u", x->params.consumer, (int)item->key.len,
							item->key.data, ordinal);
		data[2 + IDEMPOTENCY_KEY] = key;
		formats[2 + IDEMPOTENCY_KEY] = 1;
	}
	const struct pg_values all = { GIVEN + 2, data, lengths, formats };
	return pg_send(x->session, "outbox", &all, err);
}

/* Sends operations from op to the one before end. */
static enum status send_ops(struct exact *x, struct item *item, const struct plugin_op *op, const struct plugin_op *end,
			    struct error *err)
{
	enum status st = ST_OK;
	for (unsigned ordinal = 1; op != end && st == ST_OK; op = op->next) {
		struct owed owed = { .item = item, .by = OWED_PLUGIN, .more = op->next != NULL };
		if (op->kind == PLUGIN_OP_OUTBOX) {
			st = send_outbox(x, item, op, ordinal++, err);
			x->outbox_rows++;
		} else {
			owed.statement = &x->instance->statements[op->statement];
			st = pg_send(x->session, x->instance->prepared[op->statement].name, &op->values, err);
		}
		if (st == ST_OK)
			st = owe(x, owed, err);
		if (item)
			TELL(x, queued, item->d, op);
	}
	return st;
}

static bool decides(const struct effectd_statement *statement)
{
	return statement && (statement->rows == EFFECTD_NEW || statement->rows == EFFECTD_NEWER);
}

static bool rows_fit(const struct effectd_statement *statement, int64_t rows, size_t messages)
{
	switch (statement->rows) {
	case EFFECTD_ONE:
		return rows == 1;
	case EFFECTD_EACH:
		return rows == (int64_t)messages;
	case EFFECTD_SOME:
		return rows >= 1;
	default:
		return true;
	}
}

/* A result without an SQL error: does it say what its statement promises? */
static enum run judge(struct exact *x, size_t n, const struct owed *owed, const struct pg_result *result,
		      size_t messages)
{
	if ((owed->by == OWED_SOURCE || owed->by == OWED_PARK) && x->source->fenced && result->affected == 0) {
		owed->item->d->gone = owed->item->skipped = true;
		return RUN_AGAIN;
	}
	if (owed->by != OWED_PLUGIN || !owed->statement)
		return RUN_COMMITTED;
	if (decides(owed->statement) && result->affected == 0) {
		if (!owed->item)
			return fault_in_row_count(x, n, NULL, owed->statement, 0);
		owed->item->outcome = owed->statement->rows == EFFECTD_NEW ? OUTCOME_DUPLICATE : OUTCOME_STALE;
		if (!owed->more)
			return RUN_COMMITTED;
		/* What it queued behind is executed already: away with all of it, and next time ask first. */
		owed->item->d->held = true;
		return RUN_AGAIN;
	}
	if (!rows_fit(owed->statement, result->affected, messages))
		return fault_in_row_count(x, n, owed->item, owed->statement, result->affected);
	return RUN_COMMITTED;
}

/* Its deciding statement said no: what the message queued behind it counts for nothing, whatever came of it. */
static bool decided_against(const struct owed *owed)
{
	return owed->by == OWED_PLUGIN && owed->item &&
	       (owed->item->outcome == OUTCOME_DUPLICATE || owed->item->outcome == OUTCOME_STALE);
}

static enum run failed(struct exact *x, size_t n, const struct owed *owed, struct error *err)
{
	switch (owed->by) {
	case OWED_PLUGIN:
		return fault_in_plugin_statement(x, n, owed->item, owed->statement, err);
	case OWED_PARK:
		return fault_in_park(x, n, owed->item, err);
	case OWED_SOURCE:
		return fault_in_core_statement(x, n, "the source's own row", err);
	case OWED_CORE:
		break;
	}
	return fault_in_core_statement(x, n, "undoing claims", err);
}

/* Ends the flight and reads all that is owed; messages: those of one call into the plugin. The first failure decides;
 * row counts of several messages are all noted.
 */
static enum run read_flight(struct exact *x, size_t n, size_t messages, struct error *err)
{
	enum status st = pg_sync(x->session, err);
	enum run run = RUN_COMMITTED;
	if (st == ST_OK && FAULT_POINT("effects_sent"))
		st = error_set(err, ST_UNAVAILABLE, "fault point effects_sent");
	for (size_t i = 0; i < x->owed_count && st == ST_OK; i++) {
		struct pg_result result;
		if ((st = pg_next(x->session, &result, err)) != ST_OK)
			return fault_in_flight(x, n, st, &x->owed[i], err);
		if (result.kind == PG_SKIPPED)
			continue;
		if (x->owed[i].by == OWED_PARK && result.kind == PG_ROWS && result.rows > 0)
			x->xid = (uint64_t)pg_value_int8(&result, 0, 0);
		if (x->owed[i].by == OWED_PLUGIN && x->owed[i].item)
			TELL(x, answered, x->owed[i].item->d, result.affected, result.kind == PG_ERROR ? err : NULL);
		enum run this = decided_against(&x->owed[i]) ? RUN_AGAIN
				: result.kind == PG_ERROR    ? failed(x, n, &x->owed[i], err)
							     : judge(x, n, &x->owed[i], &result, messages);
		if (run == RUN_COMMITTED || this > run)
			run = this;
		if (!x->session)
			return run;
	}
	struct error ignored;
	if (st == ST_OK)
		st = pg_drain(x->session, run == RUN_COMMITTED ? err : &ignored);
	return st == ST_OK || st == ST_REFUSED ? run : fault_in_session(x, st, NULL, err);
}

/* A message in careful mode whose first statement decides: it is asked before anything else is sent. */
static enum run ask_first(struct exact *x, struct item *item, const struct plugin_op **op, struct error *err)
{
	const struct plugin_op *first = *op;
	if (!first || first->kind != PLUGIN_OP_STATEMENT || !first->next ||
	    !decides(&x->instance->statements[first->statement]))
		return RUN_COMMITTED;
	enum status st = send_ops(x, item, first, first->next, err);
	if (st != ST_OK)
		return fault_in_session(x, st, NULL, err);
	x->owed[x->owed_count - 1].more = false;
	const int64_t start_us = clock_mono_us();
	enum run run = read_flight(x, 1, 1, err);
	x->asked_us += clock_mono_us() - start_us;
	x->owed_count = 0;
	*op = item->outcome == OUTCOME_APPLIED ? first->next : NULL;
	return run;
}

/* The item is out by its verdict: nothing it queued is sent, its claim goes, its row is parked. */
static enum run out(struct exact *x, struct item *item, const struct plugin_call *call, effectd_verdict verdict)
{
	item->unclaims = item->won;
	if (verdict == EFFECTD_IGNORE) {
		item->outcome = OUTCOME_IGNORED;
		return RUN_COMMITTED;
	}
	const bool unparsable = item->d->message.json_tried && !item->d->message.json;
	fault_park(x, item, unparsable ? PARK_BAD_BODY : PARK_REJECTED, verdict == EFFECTD_RETRY, NULL,
		   call->text[0] ? call->text
		   : unparsable  ? item->d->message.json_error
				 : "the plugin gave no reason");
	if (!item->parks)
		return RUN_AGAIN; /* it is to be retried in place: nothing of this run may stay */
	item->judged = true;
	item->outcome = item->why.retry ? OUTCOME_RETRIED : OUTCOME_PARKED;
	return RUN_COMMITTED;
}

static enum run broken(const struct plugin_call *call, struct error *err)
{
	error_set(err, ST_INTERNAL, "the plugin is broken: %s", call->text[0] ? call->text : "it gave no reason");
	return RUN_BROKEN;
}

static enum run apply_one(struct exact *x, size_t n, struct item *item, struct error *err)
{
	struct plugin_call call;
	plugin_call_init(&call, x->instance, &x->arena);
	const effectd_verdict verdict = plugin_call_apply(&call, &item->d->message);
	TELL(x, judged, item->d, verdict, call.text);
	if (verdict == EFFECTD_BROKEN)
		return broken(&call, err);
	if (verdict != EFFECTD_OK)
		return out(x, item, &call, verdict);
	const struct plugin_op *op = call.first;
	if (n == 1 && item->d->held) {
		enum run run = ask_first(x, item, &op, err);
		if (run != RUN_COMMITTED)
			return run;
	}
	enum status st = send_ops(x, item, op, NULL, err);
	return st == ST_OK ? RUN_COMMITTED : fault_in_session(x, st, NULL, err);
}

static enum run apply_together(struct exact *x, size_t won, struct error *err)
{
	for (size_t i = 0; i < won; i++)
		x->messages[i] = &x->order[i]->d->message;
	struct plugin_call call;
	plugin_call_init(&call, x->instance, &x->arena);
	const effectd_verdict verdict = plugin_call_apply_batch(&call, x->messages, won);
	if (verdict == EFFECTD_BROKEN)
		return broken(&call, err);
	if (verdict != EFFECTD_OK)
		return fault_in_row_count(x, won, NULL, NULL, 0);
	enum status st = send_ops(x, NULL, call.first, NULL, err);
	return st == ST_OK ? RUN_COMMITTED : fault_in_session(x, st, NULL, err);
}

static int by_lock_order(const void *a, const void *b)
{
	const struct item *i = *(struct item *const *)a, *j = *(struct item *const *)b;
	if (i->lock_order != j->lock_order)
		return i->lock_order < j->lock_order ? -1 : 1;
	return item_compare_keys(i, j);
}

static int by_arrival(const void *a, const void *b)
{
	const struct item *i = *(struct item *const *)a, *j = *(struct item *const *)b;
	return i < j ? -1 : i > j;
}

/* Parked rows, and the source's own statements for those that leave none; then the claims that nobody keeps. */
static enum status send_rest(struct exact *x, size_t n, struct error *err)
{
	bool unclaims = false;
	for (size_t i = 0; i < n; i++) {
		struct item *item = x->set[i];
		int sent = 0;
		enum status st = ST_OK;
		item->why.plain = item->plain;
		if (item->parks && FAULT_POINT("before_park"))
			return error_set(err, ST_UNAVAILABLE, "fault point before_park");
		if (item->parks)
			st = x->source->ops->park(x->source, x->session, item->d, &item->why, &x->arena, &sent, err);
		else
			st = x->source->ops->enlist(x->source, x->session, item->d, &x->arena, &sent, err);
		while (st == ST_OK && sent-- > 0)
			st = owe(x, (struct owed){ .item = item, .by = item->parks ? OWED_PARK : OWED_SOURCE }, err);
		if (st != ST_OK)
			return st;
		unclaims |= item->unclaims;
	}
	if (!unclaims)
		return ST_OK;
	int sent = 0;
	enum status st = claim_undo_send(x, n, &sent, err);
	while (st == ST_OK && sent-- > 0)
		st = owe(x, (struct owed){ .by = OWED_CORE }, err);
	return st;
}

enum run apply_set(struct exact *x, size_t n, struct error *err)
{
	size_t won = 0;
	for (size_t i = 0; i < n; i++) {
		struct item *item = x->set[i];
		if (item->won || (item->claims && x->instance->claim == EFFECTD_CLAIM_NONE))
			x->order[won++] = item;
	}
	x->owed_count = 0;
	enum run run = RUN_COMMITTED;
	qsort(x->order, won, sizeof(struct item *), x->params.in_order ? by_arrival : by_lock_order);
	const bool together = won > 1 && x->instance->plugin->descriptor.apply_batch && !x->params.observer;
	const int64_t start_us = won > 0 ? clock_mono_us() : 0;
	if (together) {
		run = apply_together(x, won, err);
	} else {
		for (size_t i = 0; i < won && run == RUN_COMMITTED; i++)
			run = apply_one(x, n, x->order[i], err);
	}
	if (won > 0)
		observe_plugin(x, won, clock_mono_us() - start_us - x->asked_us);
	if (run == RUN_COMMITTED) {
		enum status st = send_rest(x, n, err);
		if (st != ST_OK)
			return fault_in_session(x, st, NULL, err);
		return x->owed_count > 0 ? read_flight(x, n, together ? won : 1, err) : RUN_COMMITTED;
	}
	/* The plugin stopped us half-way: what was sent must still be read before anything else can be. */
	if (x->session && x->owed_count > 0) {
		struct error ignored;
		enum status st = pg_sync(x->session, &ignored);
		if (st == ST_OK)
			st = pg_drain(x->session, &ignored);
		if (st != ST_OK && st != ST_REFUSED)
			x->session = NULL;
	}
	return run;
}

/* One turn's items, taken as far as they go: choose a set that may share a transaction, run it, settle what committed,
 * choose again.
 *
 * A set never holds two copies of a key. Copies of a key wait for the first one: they are duplicates only once it
 * committed as applied or was one itself, else the next copy runs on its own. */
#include "base/fault.h"
#include "base/log.h"
#include "exact/heart.h"
#include "pg/transaction.h"
#include <stdlib.h>
#include <string.h>

int item_compare_keys(const struct item *a, const struct item *b)
{
	const size_t shorter = a->key.len < b->key.len ? a->key.len : b->key.len;
	const int order = shorter ? memcmp(a->key.data, b->key.data, shorter) : 0;
	return order ? order : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static int by_key_and_arrival(const void *a, const void *b)
{
	const struct item *i = *(struct item *const *)a, *j = *(struct item *const *)b;
	const int order = item_compare_keys(i, j);
	return order ? order : i < j ? -1 : i > j;
}

static bool twins(const struct exact *x, const struct item *a, const struct item *b)
{
	return x->instance->claim == EFFECTD_CLAIM_KEY && a->key.data && b->key.data && item_compare_keys(a, b) == 0;
}

/* All unsettled items by key, then by arrival, each knowing whether a copy came before it. */
static void sort_items(struct exact *x)
{
	x->sorted_count = 0;
	for (size_t i = 0; i < x->item_count; i++)
		if (x->items[i].d)
			x->sorted[x->sorted_count++] = &x->items[i];
	qsort(x->sorted, x->sorted_count, sizeof(struct item *), by_key_and_arrival);
	for (size_t i = 0; i < x->sorted_count; i++)
		x->sorted[i]->twin = i > 0 && twins(x, x->sorted[i - 1], x->sorted[i]);
}

/* All that need not run alone, or one that must. */
static size_t choose_freely(struct exact *x)
{
	size_t n = 0;
	struct item *alone = NULL;
	for (size_t i = 0; i < x->sorted_count; i++) {
		struct item *item = x->sorted[i];
		if (item->twin || item->skipped)
			continue;
		if (!item->d->held && n < x->limit)
			x->set[n++] = item;
		else if (item->d->held && !alone)
			alone = item;
	}
	if (n == 0 && alone)
		x->set[n++] = alone;
	return n;
}

/* The same when arrival order counts: nothing passes an item that must run alone, later, or after its twin. */
static size_t choose_in_order(struct exact *x)
{
	size_t n = 0;
	const size_t limit =
		x->params.stop_on_dead ? 1 : x->limit; /* who comes behind a dead one is not known before */
	for (size_t i = 0; i < x->item_count && n < limit; i++) {
		struct item *item = &x->items[i];
		if (!item->d)
			continue;
		if (item->skipped || item->twin || (item->d->held && n > 0))
			break;
		x->set[n++] = item;
		if (item->d->held)
			break;
	}
	qsort(x->set, n, sizeof(struct item *), by_key_and_arrival);
	return n;
}

/* Fills x->set with the items that run next, in key order. */
static size_t choose_set(struct exact *x)
{
	sort_items(x);
	return x->params.in_order ? choose_in_order(x) : choose_freely(x);
}

/* Forgets what earlier runs of this turn came to. */
static size_t prepare_set(struct exact *x, size_t n)
{
	size_t claiming = 0;
	x->set_claims_in = 0;
	for (size_t i = 0; i < n; i++) {
		struct item *item = x->set[i];
		if (item->judged)
			item->parks = item->judged = false;
		item->won = item->unclaims = false;
		item->won_in = 0;
		item->claims = !item->parks && !item->ignored;
		item->outcome = item->ignored     ? OUTCOME_IGNORED
				: !item->parks    ? OUTCOME_APPLIED
				: item->why.retry ? OUTCOME_RETRIED
						  : OUTCOME_PARKED;
		claiming += item->claims;
		x->set_claims_in |= item->claims ? item->claims_in : 0;
	}
	x->xid = 0;
	return x->instance->claim == EFFECTD_CLAIM_KEY ? claiming : 0;
}

/* A test makes the environment fail here. */
static enum run injected(struct exact *x, const char *point, struct error *err)
{
	return fault_in_session(x, error_set(err, ST_UNAVAILABLE, "fault point %s", point), NULL, err);
}

/* The day must be a function of the message: else a copy is looked for on a day where its claim is not. */
static void has_two_days(const struct item *item, struct error *err)
{
	error_set(
		err, ST_INTERNAL,
		"the plugin is broken: it gave the key %.*s two event days, with claims = daily one key must have one",
		(int)item->key.len, item->key.data);
}

/* The first flight: BEGIN and the claims, ended by a Sync. */
static enum run begin_set(struct exact *x, size_t n, size_t claiming, struct error *err)
{
	if (FAULT_POINT("before_claim"))
		return injected(x, "before_claim", err);
	observe_begin(x);
	bool parked_before = false;
	enum status st = pg_begin_send(x->session, err);
	if (st == ST_OK && x->params.stop_on_dead)
		st = parked_before_send(x, err);
	if (st == ST_OK && claiming > 0)
		st = claim_send(x, n, err);
	if (st == ST_OK)
		st = pg_sync(x->session, err);
	if (st != ST_OK)
		return fault_in_session(x, st, NULL, err);
	st = pg_begin_read(x->session, err);
	if (st == ST_OK && x->params.stop_on_dead)
		st = parked_before_read(x, &parked_before, err);
	if (st == ST_OK && claiming > 0)
		st = claim_read(x, n, err);
	struct error ignored;
	const enum status drained =
		st == ST_OK || st == ST_REFUSED ? pg_drain(x->session, st == ST_OK ? err : &ignored) : st;
	if (drained != ST_OK && drained != ST_REFUSED)
		return fault_in_session(x, drained, NULL, err);
	if (claiming > 0)
		observe_claims(x);
	if (st == ST_REFUSED)
		return fault_in_claim(x, n, err);
	if (parked_before) {
		error_set(err, ST_REFUSED, "a message before this one is parked");
		return RUN_DEAD;
	}
	if (claiming > 0 && x->torn) {
		has_two_days(x->torn, err);
		return RUN_BROKEN;
	}
	for (size_t i = 0; i < n && claiming > 0; i++) {
		struct item *item = x->set[i];
		if (!item->claims)
			continue;
		TELL(x, claimed, item->d, item->won);
		if (!item->won)
			item->outcome = OUTCOME_DUPLICATE;
	}
	return FAULT_POINT("after_claim") ? injected(x, "after_claim", err) : RUN_COMMITTED;
}

/* Would this commit park too many in a row for one reason? Counts on a copy; the count stands when the commit does.
 * What a turn sets aside it parks behind all that it applies, so a row is broken by anything that the turn applied. */
static bool streak_grows_too_long(struct exact *x, size_t n, unsigned *ret_streak, enum park_reason *ret_reason,
				  const char **ret_sqlstate)
{
	unsigned streak = x->streak;
	enum park_reason reason = x->streak_reason;
	const char *sqlstate = x->streak_sqlstate;
	bool applied = x->applied;
	for (size_t i = 0; i < n; i++) {
		const struct item *item = x->set[i];
		applied |= item->outcome == OUTCOME_APPLIED;
		if (item->outcome != OUTCOME_PARKED)
			continue;
		streak = item->why.reason == reason && strcmp(item->why.sqlstate, sqlstate) == 0 ? streak + 1 : 1;
		reason = item->why.reason;
		sqlstate = item->why.sqlstate;
	}
	*ret_streak = applied ? 0 : streak;
	*ret_reason = reason;
	*ret_sqlstate = sqlstate;
	return x->params.streak_most > 0 && *ret_streak >= x->params.streak_most;
}

static const struct item *last_parked(const struct exact *x, size_t n)
{
	while (n > 1 && !x->set[n - 1]->parks)
		n--;
	return x->set[n - 1];
}

static void keep_streak(struct exact *x, unsigned streak, enum park_reason reason, const char *sqlstate)
{
	if (sqlstate != x->streak_sqlstate)
		memcpy(x->streak_sqlstate, sqlstate, sizeof(x->streak_sqlstate));
	x->streak = streak;
	x->streak_reason = reason;
}

/* pg_commit() in its steps, so that a test can lose the answer of an effect's COMMIT and of no other. */
static enum status commit(struct exact *x, struct error *err)
{
	enum status st = pg_commit_send(x->session, err);
	if (st == ST_OK)
		st = pg_sync(x->session, err);
	if (st == ST_OK && FAULT_POINT("commit_sent"))
		return error_set(err, ST_IN_DOUBT, "fault point commit_sent");
	return st == ST_OK ? pg_commit_read(x->session, err) : st;
}

static enum run commit_set(struct exact *x, size_t n, struct error *err)
{
	unsigned streak;
	enum park_reason reason;
	const char *sqlstate;
	if (streak_grows_too_long(x, n, &streak, &reason, &sqlstate)) {
		const struct item *last = last_parked(x, n);
		x->failed = last->d;
		keep_streak(x, streak - 1, reason, sqlstate); /* it grows too long again by the next of the kind */
		error_set(err, ST_REFUSED,
			  "%u messages in a row would be parked as %s and none was applied between; the last: %s",
			  streak, park_reason_names[reason], last->why.detail ? last->why.detail : "");
		return RUN_PROGRAM;
	}
	if (x->trial)
		return RUN_TRIED;
	if (FAULT_POINT("before_commit"))
		return injected(x, "before_commit", err);
	switch (commit(x, err)) {
	case ST_OK:
		break;
	case ST_REFUSED:
		return fault_in_commit(x, n, err);
	case ST_STOPPED:
		x->session = NULL;
		return RUN_STOPPED;
	default:
		x->session = NULL;
		x->doubt = true;
		for (size_t i = 0; i < n; i++)
			x->set[i]->d->lost = x->set[i]->outcome == OUTCOME_APPLIED;
		return RUN_ENVIRONMENT;
	}
	FAULT_POINT("after_commit");
	keep_streak(x, streak, reason, sqlstate);
	return RUN_COMMITTED;
}

/* One transaction for the set. Whatever comes back, no transaction is open. */
static enum run run_set(struct exact *x, size_t n, struct error *err)
{
	const size_t claiming = prepare_set(x, n);
	for (size_t i = 0; i < n; i++)
		if (!x->set[i]->parks)
			TELL(x, begun, x->set[i]->d, x->set[i]->key, x->set[i]->event_ms, x->set[i]->lock_order);
	enum run run = begin_set(x, n, claiming, err);
	if (run == RUN_COMMITTED)
		run = apply_set(x, n, err);
	if (run == RUN_COMMITTED)
		run = commit_set(x, n, err);
	if (run == RUN_COMMITTED)
		return run;
	counter_add(&x->params.counters->rollbacks, 1);
	struct error lost;
	if (x->session && pg_rollback(x->session, &lost) != ST_OK)
		x->session = NULL;
	if (x->session)
		return run;
	x->left_xid = x->xid;
	if (run > RUN_SPLIT)
		return run;
	/* To be run again, and there is nothing to run it on: a message's fault became one of the environment. */
	error_set(err, ST_UNAVAILABLE, "the session was lost while a batch was rolled back");
	return RUN_ENVIRONMENT;
}

static void settle(struct exact *x, struct item *item, enum outcome outcome)
{
	if ((outcome == OUTCOME_DUPLICATE || outcome == OUTCOME_STALE) && item->d->lost)
		outcome = OUTCOME_APPLIED; /* by the commit that was in doubt */
	if (item->parks)
		log_warn("parked", LOG_BYTES("key", item->key.data, item->key.len),
			 LOG_STR("reason", park_reason_names[item->why.reason]),
			 LOG_STR("status", item->why.retry ? "retry" : "dead"),
			 LOG_STR("sqlstate", item->why.sqlstate[0] ? item->why.sqlstate : NULL),
			 LOG_STR("detail", item->why.detail));
	x->applied |= outcome == OUTCOME_APPLIED;
	counter_add(&x->params.counters->outcomes[outcome], 1);
	TELL(x, settled, item->d, outcome, item->parks ? &item->why : NULL);
	message_release(&item->d->message);
	x->source->ops->settle(x->source, item->d, outcome);
	item->d = NULL;
}

/* What committed is over, and so are the copies of what is applied now. */
static void settle_set(struct exact *x, size_t n)
{
	for (size_t i = 0, j = 0; i < n; i++) {
		struct item *item = x->set[i];
		const enum outcome outcome = item->outcome;
		if (outcome == OUTCOME_APPLIED || outcome == OUTCOME_DUPLICATE || outcome == OUTCOME_STALE) {
			while (x->sorted[j] != item)
				j++;
			for (size_t k = j + 1; k < x->sorted_count && twins(x, item, x->sorted[k]); k++)
				settle(x, x->sorted[k], OUTCOME_DUPLICATE);
		}
		settle(x, item, outcome);
	}
	FAULT_POINT("before_ack");
	x->source->ops->flush(x->source);
	FAULT_POINT("after_ack");
}

static enum exact_result result_of(enum run run)
{
	static const enum exact_result results[] = {
		[RUN_CONTENDED] = EXACT_CONTENDED, [RUN_ENVIRONMENT] = EXACT_ENVIRONMENT,
		[RUN_PROGRAM] = EXACT_PROGRAM,     [RUN_BROKEN] = EXACT_BROKEN,
		[RUN_DEAD] = EXACT_DEAD,           [RUN_STOPPED] = EXACT_STOPPED,
		[RUN_TRIED] = EXACT_IDLE,
	};
	return results[run];
}

/* Of the copies in hand; claim_read() looks for those that came before. */
static bool days_agree(struct exact *x, struct error *err)
{
	if (!(x->days.in & CLAIM_IN_DAYS))
		return true;
	sort_items(x);
	for (size_t i = 1; i < x->sorted_count; i++) {
		const struct item *item = x->sorted[i], *before = x->sorted[i - 1];
		if (!item->twin || item->day == before->day || !item->has_day || !before->has_day)
			continue;
		has_two_days(item, err);
		return false;
	}
	return true;
}

/* True: go on with what is left of the turn. */
static bool find_days(struct exact *x, struct error *err)
{
	bool changed = false;
	x->days_stale = false;
	if (days_look_again(x, &changed, err) != ST_OK)
		x->session = NULL;
	return changed;
}

enum exact_result batch_run(struct exact *x, struct error *err)
{
	size_t n;
	bool worked = false, dead = false;
	if (!days_agree(x, err))
		return EXACT_BROKEN;
	x->aside = 0;
	x->applied = false;
	while (!(dead && x->params.stop_on_dead) && (n = choose_set(x)) > 0) {
		const enum run run = run_set(x, n, err);
		if (x->days_stale && x->session && !find_days(x, err))
			return EXACT_ENVIRONMENT;
		if (run > RUN_SPLIT)
			return result_of(run);
		if (run != RUN_COMMITTED)
			continue;
		for (size_t i = 0; i < n; i++)
			dead |= x->set[i]->outcome == OUTCOME_PARKED;
		observe_commit(x, n);
		settle_set(x, n);
		worked = true;
		counter_add(&x->params.counters->batches, 1);
		x->contention = 0;
		x->misses_day = false;
		x->fresh_session_tried = false;
		x->limit = x->limit * 2 < x->params.batch_max ? x->limit * 2 : x->params.batch_max;
	}
	if (dead && x->params.stop_on_dead) {
		error_set(err, ST_REFUSED, "a message was parked");
		return EXACT_DEAD;
	}
	return worked ? EXACT_WORKED : EXACT_IDLE;
}

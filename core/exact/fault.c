/* What a failure means: for the message that brought it, for the set that shared its transaction, for the consumer.
 *
 * A message is parked for a fault of SQL only by a run in which it was alone; before that it is set aside and its
 * siblings run again without it. An environment fault parks nobody, unless it strikes again and again in one message's
 * own statement. A fault of the core's own statements is never a message's. */
#include "base/clock.h"
#include "base/log.h"
#include "exact/heart.h"
#include <stdio.h>
#include <string.h>

enum {
	SUSPECT_ASIDE = 2,     /* environment faults in its own statement before a message runs alone */
	ASIDE_MOST = 3,        /* set aside in a turn before sets are halved as well */
	CONTENTION_HALVES = 3, /* serialization failures in a row before the set is halved */
	BLOCKED_MS = 1000,     /* the first wait before a blocked claim is asked for again; doubles five times */
};

static void halve(struct exact *x, size_t n)
{
	x->limit = n > 1 ? n / 2 : 1;
}

static enum run set_aside(struct exact *x, size_t n, struct item *item)
{
	if (!item->d->held && ++x->aside >= ASIDE_MOST)
		halve(x, n);
	item->d->held = true;
	return RUN_AGAIN;
}

static enum run split(struct exact *x, size_t n)
{
	halve(x, n);
	return RUN_SPLIT;
}

static int64_t retry_delay_ms(const struct exact *x, const struct delivery *d)
{
	struct backoff backoff;
	backoff_init(&backoff, x->params.retry_min_ms, x->params.retry_max_ms);
	backoff.failures = d->message.attempt - 1;
	return backoff_next_ms(&backoff);
}

/* order = queue: the message stays where it is, and everything behind it waits. */
static void retry_in_place(struct item *item, int64_t delay_ms, const char *detail)
{
	struct delivery *d = item->d;
	log_warn("retry_in_place", LOG_BYTES("key", item->key.data, item->key.len),
		 LOG_INT("failures", d->message.attempt), LOG_INT("retry_ms", delay_ms), LOG_STR("detail", detail));
	d->not_before_ms = clock_mono_ms() + delay_ms;
	d->message.attempt++;
	item->skipped = true;
}

void fault_park(struct exact *x, struct item *item, enum park_reason reason, bool retry, const char *sqlstate,
		const char *detail)
{
	if (retry && item->d->message.attempt >= (uint64_t)x->params.max_attempts) {
		retry = false;
		reason = PARK_RETRIES_EXHAUSTED;
	}
	const int64_t delay_ms = retry ? retry_delay_ms(x, item->d) : 0;
	if (retry && x->params.in_order) {
		retry_in_place(item, delay_ms, detail);
		return;
	}
	item->parks = true;
	item->d->held = false;
	item->why = (struct park){
		.reason = reason,
		.retry = retry,
		.delay_ms = delay_ms,
		.detail = arena_copy(&x->arena, detail, strlen(detail)),
		.key = item->key,
		.has_day = days_storable(item),
		.day = item->day,
	};
	snprintf(item->why.sqlstate, sizeof(item->why.sqlstate), "%s", sqlstate ? sqlstate : "");
}

static enum run contended(struct exact *x, size_t n)
{
	if (++x->contention % CONTENTION_HALVES == 0)
		halve(x, n);
	return RUN_CONTENDED;
}

/* The environment failed while this message's own statement ran. Mostly it is innocent; a statement that always times
 * out or kills its backend is found by coming back here alone. */
static enum run suspect(struct item *item, const struct error *err)
{
	struct delivery *d = item->d;
	memcpy(d->suspect_sqlstate, err->sqlstate, sizeof(d->suspect_sqlstate));
	if (++d->suspect >= SUSPECT_ASIDE)
		d->held = true;
	return RUN_ENVIRONMENT;
}

enum run fault_in_session(struct exact *x, enum status st, struct item *item, struct error *err)
{
	x->session = NULL;
	if (st == ST_STOPPED)
		return RUN_STOPPED;
	if (!item)
		return RUN_ENVIRONMENT;
	x->failed = item->d;
	return suspect(item, err);
}

/* The session ended where this result was due. */
enum run fault_in_flight(struct exact *x, size_t n, enum status st, const struct owed *owed, struct error *err)
{
	const bool plugins = owed->by == OWED_PLUGIN;
	if (plugins && !owed->item)
		halve(x, n); /* a message of apply_batch() that ends its session is found in the end */
	return fault_in_session(x, st, plugins ? owed->item : NULL, err);
}

static enum run program(struct exact *x, struct fault_kind kind)
{
	if ((kind.traits & FAULT_TRAIT_SESSION) && !x->fresh_session_tried) {
		x->fresh_session_tried = true;
		x->session = NULL; /* a new one may cure it: statements are prepared and described again */
		return RUN_ENVIRONMENT;
	}
	return RUN_PROGRAM;
}

enum run fault_in_plugin_statement(struct exact *x, size_t n, struct item *item,
				   const struct effectd_statement *statement, struct error *err)
{
	const struct fault_kind kind = pg_sqlstate_kind(err);
	if (statement)
		error_wrap(err, "statement %s", statement->name);
	if (item)
		x->failed = item->d;
	switch (kind.class) {
	case FAULT_ENVIRONMENT:
		if (kind.traits & FAULT_TRAIT_CONTENTION)
			return contended(x, n);
		if (!(kind.traits & FAULT_TRAIT_OWN))
			return RUN_ENVIRONMENT;
		if (item)
			return suspect(item, err);
		halve(x, n);
		return RUN_ENVIRONMENT;
	case FAULT_PROGRAM:
		return program(x, kind);
	case FAULT_MESSAGE:
		break;
	}
	if (!item)
		return split(x, n);
	if (n > 1)
		return set_aside(x, n, item);
	if ((kind.traits & FAULT_TRAIT_TWICE) && !item->d->again) {
		item->d->again = true;
		return set_aside(x, n, item);
	}
	const bool retry =
		statement && statement->otherwise == EFFECTD_OTHERWISE_RETRY && strcmp(err->sqlstate, "23503") == 0;
	fault_park(x, item, PARK_SQL, retry, err->sqlstate, err->text);
	return RUN_AGAIN;
}

static const char *const rows_wanted[] = {
	[EFFECTD_ANY] = "any number of rows", [EFFECTD_ONE] = "exactly one row",  [EFFECTD_SOME] = "at least one row",
	[EFFECTD_EACH] = "exactly one row",   [EFFECTD_NEW] = "at least one row", [EFFECTD_NEWER] = "at least one row",
};

enum run fault_in_row_count(struct exact *x, size_t n, struct item *item, const struct effectd_statement *statement,
			    int64_t rows)
{
	if (!item)
		return split(x, n);
	if (n > 1)
		return set_aside(x, n, item);
	char detail[256];
	snprintf(detail, sizeof(detail), "statement %s touched %lld rows, %s was expected", statement->name,
		 (long long)rows, rows_wanted[statement->rows]);
	fault_park(x, item, PARK_ROW_COUNT, statement->otherwise == EFFECTD_OTHERWISE_RETRY, NULL, detail);
	return RUN_AGAIN;
}

enum run fault_in_park(struct exact *x, size_t n, struct item *item, struct error *err)
{
	const struct fault_kind kind = pg_sqlstate_kind(err);
	if (kind.class == FAULT_MESSAGE && !item->plain) {
		item->plain = true; /* something for people cannot be stored: what a replay needs can */
		return RUN_AGAIN;
	}
	return fault_in_core_statement(x, n, "parking", err);
}

enum run fault_in_core_statement(struct exact *x, size_t n, const char *what, struct error *err)
{
	const struct fault_kind kind = pg_sqlstate_kind(err);
	error_wrap(err, "%s", what);
	if (kind.class != FAULT_ENVIRONMENT)
		return program(x, kind);
	return kind.traits & FAULT_TRAIT_CONTENTION ? contended(x, n) : RUN_ENVIRONMENT;
}

enum run fault_in_claim(struct exact *x, size_t n, struct error *err)
{
	if (strcmp(err->sqlstate, "23514") == 0 && (x->set_claims_in & CLAIM_IN_DAYS)) {
		error_wrap(err, "a day of claims is missing");
		x->days_stale = true;
		return RUN_AGAIN;
	}
	if (strcmp(err->sqlstate, "55P03") != 0)
		return fault_in_core_statement(x, n, "claiming", err);
	/* Somebody sits on one of these claims, maybe a stopped process. Find which one; its siblings go on. */
	if (n > 1)
		return split(x, n);
	struct delivery *d = x->set[0]->d;
	d->held = true;
	d->not_before_ms = clock_mono_ms() + (BLOCKED_MS << (d->blocked < 5 ? d->blocked : 5));
	d->blocked++;
	x->set[0]->skipped = true;
	log_warn("claim_blocked", LOG_BYTES("key", x->set[0]->key.data, x->set[0]->key.len),
		 LOG_INT("times", d->blocked));
	return RUN_AGAIN;
}

/* A deferred constraint, mostly: it fails at COMMIT and names nobody. */
enum run fault_in_commit(struct exact *x, size_t n, struct error *err)
{
	error_wrap(err, "COMMIT");
	return fault_in_plugin_statement(x, n, n == 1 ? x->set[0] : NULL, NULL, err);
}

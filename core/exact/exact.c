/* The heart from the outside: what it holds between turns, collecting, and a COMMIT in doubt. */
#include "exact/exact.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/wait.h"
#include "exact/heart.h"
#include "pg/transaction.h"
#include <stdlib.h>
#include <string.h>

/* Blocked deliveries stay in hand while their siblings go on, so the hand is larger than a batch. */
static size_t hand_capacity(const struct exact *x)
{
	return 2 * x->params.batch_max;
}

enum status exact_create(struct exact **ret, const struct exact_params *params, struct plugin_instance *instance,
			 struct source *source, struct error *err)
{
	struct exact *x = calloc(1, sizeof(*x));
	if (!x)
		return error_oom(err);
	x->params = *params;
	x->instance = instance;
	x->source = source;
	x->limit = params->batch_max;
	arena_init(&x->arena);
	const size_t n = hand_capacity(x);
	x->hand = calloc(n, sizeof(struct delivery *));
	x->items = calloc(n, sizeof(*x->items));
	x->sorted = calloc(n, sizeof(struct item *));
	x->set = calloc(n, sizeof(struct item *));
	x->order = calloc(n, sizeof(struct item *));
	x->messages = calloc(n, sizeof(struct message *));
	if (!x->hand || !x->items || !x->sorted || !x->set || !x->order || !x->messages) {
		exact_destroy(x);
		return error_oom(err);
	}
	*ret = x;
	return ST_OK;
}

void exact_destroy(struct exact *x)
{
	if (!x)
		return;
	exact_give_back(x);
	arena_finish(&x->arena);
	free(x->hand);
	free(x->items);
	free(x->sorted);
	free(x->set);
	free(x->order);
	free(x->messages);
	free(x->owed);
	free(x);
}

bool exact_session_lost(const struct exact *x)
{
	return !x->session;
}

void exact_detach(struct exact *x)
{
	x->session = NULL;
}

void exact_set_care(struct exact *x, enum care care)
{
	x->care = care;
}

void exact_set_oldest_event(struct exact *x, int64_t ms)
{
	x->oldest_event_ms = ms;
}

bool exact_misses_day(const struct exact *x)
{
	return x->misses_day;
}

size_t exact_held(const struct exact *x)
{
	return x->hand_count;
}

static void count_applied(struct exact *x, uint64_t n)
{
	counter_add(&x->params.counters->outcomes[OUTCOME_APPLIED], n);
}

void exact_give_back(struct exact *x)
{
	uint64_t lost = 0;
	for (size_t i = 0; i < x->hand_count; i++) {
		lost += x->hand[i]->lost;
		x->source->ops->give_back(x->source, x->hand[i]);
	}
	x->hand_count = 0;
	/* The redelivery meets the claim, if there is one: a duplicate of what the lost commit applied. */
	if (x->doubt)
		x->doubt_given_back += lost;
	else
		count_applied(x, lost);
}

int64_t exact_wake_ms(const struct exact *x)
{
	int64_t wake = WAIT_FOREVER;
	if (x->params.in_order && x->hand_count > 0)
		return x->hand[0]->not_before_ms; /* the others wait for it */
	for (size_t i = 0; i < x->hand_count; i++)
		if (x->hand[i]->not_before_ms < wake)
			wake = x->hand[i]->not_before_ms;
	return wake;
}

/* Our old backend may not have noticed that we are gone: it holds our claims, or works on a COMMIT that we shall never
 * hear of. It is known by its transaction; behind a pooler the process id that we were told is not the server's. */
static enum status end_old_backend(struct pg_session *s, uint64_t left_xid, struct error *err)
{
	static const char sql[] = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
				  " WHERE backend_xid = $1::xid8::xid";
	char xid[24];
	snprintf(xid, sizeof(xid), "%" PRIu64, left_xid);
	return pg_query(s, sql, (const char *const[]){ xid }, 1, NULL, err);
}

static enum status resolve_doubt(struct exact *x, struct pg_session *s, struct error *err)
{
	enum pg_fate fate = PG_FATE_UNKNOWN;
	if (x->left_xid) {
		enum status st = pg_transaction_fate(s, x->left_xid, &fate, err);
		if (st != ST_OK)
			return st;
		if (fate == PG_FATE_IN_PROGRESS) {
			if ((st = end_old_backend(s, x->left_xid, err)) != ST_OK)
				return st;
			return error_set(err, ST_UNAVAILABLE,
					 "transaction %" PRIu64 ", whose commit is in doubt, is still in progress",
					 x->left_xid);
		}
	}
	/* Only for counting: whether it is applied, the claims tell. */
	const bool committed = fate != PG_FATE_ABORTED;
	if (committed) {
		enum status st = pg_wait_durable(s, err);
		if (st != ST_OK)
			return st;
		count_applied(x, x->doubt_given_back);
	}
	for (size_t i = 0; i < x->hand_count && !committed; i++)
		x->hand[i]->lost = false;
	x->doubt_given_back = 0;
	counter_add(&x->params.counters->in_doubt[committed], 1);
	log_warn("commit_in_doubt_resolved", LOG_STR("resolution", committed ? "committed" : "not committed"),
		 LOG_INT("xid", x->left_xid));
	x->doubt = false;
	return ST_OK;
}

/* The tables are read-only and shared by all workers; what PostgreSQL says of them is not needed. */
static enum status prepare(struct pg_session *s, const struct pg_statement *table, size_t n, struct error *err)
{
	AUTOFREE struct pg_statement *statements = malloc((n + 1) * sizeof(*statements));
	if (!statements)
		return error_oom(err);
	for (size_t i = 0; i < n; i++)
		statements[i] = table[i];
	size_t bad;
	enum status st = n > 0 ? pg_prepare(s, statements, n, &bad, err) : ST_OK;
	if (st == ST_REFUSED)
		error_wrap(err, "statement %s of effectd; is the schema there? `effectd migrate status` tells",
			   statements[bad].name);
	return st;
}

enum status exact_attach(struct exact *x, struct pg_session *s, struct error *err)
{
	enum status st = prepare(s, exact_statements, EXACT_STATEMENT_COUNT, err);
	if (st == ST_OK)
		st = prepare(s, x->source->statements, x->source->statement_count, err);
	if (st == ST_OK)
		st = plugin_instance_prepare(x->instance, s, err);
	if (st == ST_OK)
		st = days_read(x, s, err);
	if (st == ST_OK && x->doubt)
		st = resolve_doubt(x, s, err);
	else if (st == ST_OK && x->left_xid)
		st = end_old_backend(s, x->left_xid, err);
	if (st == ST_OK) {
		x->session = s;
		x->left_xid = 0;
	}
	return st;
}

/* Takes what the source has, up to a batch beside what is blocked. */
static void collect(struct exact *x)
{
	size_t ready = 0, bytes = 0;
	const int64_t now = clock_mono_ms();
	for (size_t i = 0; i < x->hand_count; i++)
		ready += x->hand[i]->not_before_ms <= now;
	const size_t most = x->care != CARE_NONE ? 1 : x->params.batch_max;
	while (ready < most && x->hand_count < hand_capacity(x) && bytes < x->params.batch_bytes) {
		struct delivery *d = x->source->ops->next(x->source);
		if (!d)
			break;
		x->hand[x->hand_count++] = d;
		bytes += d->message.body.len;
		ready++;
	}
}

/* A statement of the source's own, outside of any transaction, failed. */
static enum exact_result source_failed(struct exact *x, enum status st, const struct error *err)
{
	if (st == ST_REFUSED)
		return pg_sqlstate_kind(err).class == FAULT_ENVIRONMENT ? EXACT_ENVIRONMENT : EXACT_PROGRAM;
	x->session = NULL;
	return st == ST_STOPPED ? EXACT_STOPPED : EXACT_ENVIRONMENT;
}

/* Careful mode: the delivery is counted before the plugin sees it; one that must not be seen is parked. WORKED with an
 * item that neither parks nor is skipped: go in. */
static enum exact_result enter(struct exact *x, struct item *item, struct error *err)
{
	struct delivery *d = item->d;
	enum entry entry;
	const enum status st =
		x->source->ops->enter(x->source, x->session, d, &x->arena, x->care == CARE_ALL, &entry, err);
	if (st != ST_OK)
		return source_failed(x, st, err);
	switch (entry) {
	case ENTRY_GO:
		d->entered = true;
		if (FAULT_POINT("crash_counted"))
			return source_failed(x, error_set(err, ST_UNAVAILABLE, "fault point crash_counted"), err);
		break;
	case ENTRY_SUSPECT:
		return EXACT_SUSPECT;
	case ENTRY_CULPRIT:
		fault_park(x, item, PARK_CRASH, false, NULL,
			   "the process died again and again with this message inside the plugin");
		break;
	case ENTRY_EXPIRED:
		fault_park(x, item, PARK_EXPIRED, false, NULL, "it is " OLDER_THAN_WINDOW);
		break;
	case ENTRY_GONE:
		d->gone = item->skipped = true;
		break;
	}
	return EXACT_WORKED;
}

/* It came out of the plugin alive. A count that cannot be taken back now, because the session is lost, stands until it
 * settles. */
static void leave(struct exact *x, struct delivery *d)
{
	struct error err = { 0 };
	if (!d->entered || !x->session)
		return;
	const enum status st = x->source->ops->leave(x->source, x->session, d, &err);
	if (st == ST_OK)
		d->entered = false;
	else if (st != ST_REFUSED)
		x->session = NULL;
	if (st != ST_OK)
		log_warn("crash_count_stands", LOG_ERR(&err));
}

/* Whether it was applied, the claims can no longer tell. */
static void park_expired(struct exact *x, struct item *item)
{
	if (!x->oldest_event_ms || x->instance->claim != EFFECTD_CLAIM_KEY)
		return;
	const struct properties *p = message_properties(&item->d->message);
	int64_t event_ms = item->event_ms;
	if (!event_ms && (!p->has_timestamp || __builtin_mul_overflow(p->timestamp_s, 1000, &event_ms)))
		event_ms = 0;
	if (event_ms >= x->oldest_event_ms)
		return;
	fault_park(x, item, PARK_EXPIRED, false, NULL,
		   event_ms ? "it is " OLDER_THAN_WINDOW
			    : "neither its key nor its timestamp says how old it is, and " CLAIM_MAY_BE_GONE);
}

/* Asks the plugin what effect this message names. */
static enum exact_result make_item(struct exact *x, struct item *item, struct delivery *d, struct error *err)
{
	*item = (struct item){ .d = d };
	item->skipped = d->not_before_ms > clock_mono_ms();
	message_prepare(&d->message, &x->arena);
	if (x->care != CARE_NONE && item->skipped)
		return EXACT_WORKED; /* its time has not come, and the plugin is not asked uncounted */
	if (x->care != CARE_NONE && !d->entered) {
		const enum exact_result entered = enter(x, item, err);
		if (entered != EXACT_WORKED || item->parks || item->skipped)
			return entered;
	}
	if (d->oversized) {
		char detail[96];
		snprintf(detail, sizeof(detail), "the body has %zu bytes, more than max_body", d->message.body.len);
		fault_park(x, item, PARK_TOO_BIG, false, NULL, detail);
		return EXACT_WORKED;
	}
	struct plugin_call call;
	struct effectd_key key;
	bool bad_key = false;
	plugin_call_init(&call, x->instance, &x->arena);
	const effectd_verdict verdict = plugin_call_key(&call, &d->message, &key, &bad_key);
	switch (verdict) {
	case EFFECTD_OK:
		item->key = (struct str){ arena_copy(&x->arena, key.text, key.len), key.len };
		item->lock_order = key.lock_order;
		item->event_ms = key.has_event_time ? key.event_time_us / 1000 : 0;
		if (!item->key.data) {
			error_oom(err);
			return EXACT_ENVIRONMENT;
		}
		item->beyond_window = x->params.beyond_window || d->beyond_window;
		if (key.has_event_time)
			days_set(item, key.event_time_us);
		if (d->suspect >= SUSPECT_PARK)
			fault_park(x, item, PARK_ENVIRONMENT, true, d->suspect_sqlstate,
				   "its own statement failed again and again for a reason of the environment");
		else
			park_expired(x, item);
		days_judge(x, item);
		return EXACT_WORKED;
	case EFFECTD_IGNORE:
		item->ignored = true;
		return EXACT_WORKED;
	case EFFECTD_BROKEN:
		error_set(err, ST_INTERNAL, "the plugin is broken: %s", call.text[0] ? call.text : "it gave no reason");
		return EXACT_BROKEN;
	default:
		break;
	}
	const bool unparsable = d->message.json_tried && !d->message.json;
	const char *why = call.text[0] ? call.text : "the plugin gave no reason";
	if (unparsable && !bad_key)
		why = d->message.json_error;
	fault_park(x, item,
		   bad_key      ? PARK_BAD_KEY
		   : unparsable ? PARK_BAD_BODY
				: PARK_REJECTED,
		   verdict == EFFECTD_RETRY, NULL, why);
	return EXACT_WORKED;
}

static enum exact_result make_items(struct exact *x, bool *ret_settled, struct error *err)
{
	bool ignored = false;
	x->item_count = 0;
	for (size_t i = 0; i < x->hand_count; i++) {
		struct item *item = &x->items[x->item_count];
		const enum exact_result made = make_item(x, item, x->hand[i], err);
		x->item_count++;
		if (item->ignored && !item->d->journalled) {
			counter_add(&x->params.counters->outcomes[OUTCOME_IGNORED], 1);
			TELL(x, settled, item->d, OUTCOME_IGNORED, NULL);
			message_release(&item->d->message);
			x->source->ops->settle(x->source, item->d, OUTCOME_IGNORED);
			item->d = NULL;
			ignored = true;
		} else if (made != EXACT_WORKED) {
			for (size_t j = i + 1; j < x->hand_count; j++)
				x->items[x->item_count++] = (struct item){ .d = x->hand[j] };
			return made;
		}
	}
	if (ignored)
		x->source->ops->flush(x->source);
	*ret_settled = ignored;
	return EXACT_WORKED;
}

enum exact_result exact_turn(struct exact *x, struct error *err)
{
	collect(x);
	if (x->hand_count == 0 || exact_wake_ms(x) > clock_mono_ms())
		return EXACT_IDLE;
	FAULT_POINT("after_collect");
	bool settled = false;
	enum exact_result result = make_items(x, &settled, err);
	FAULT_POINT("after_key");
	if (result == EXACT_WORKED)
		result = batch_run(x, err);
	if (result == EXACT_IDLE && settled)
		result = EXACT_WORKED;
	size_t left = 0;
	for (size_t i = 0; i < x->item_count; i++) {
		struct delivery *d = x->items[i].d;
		if (!d)
			continue;
		message_release(&d->message);
		if (!d->gone) {
			leave(x, d);
			x->hand[left++] = d;
			continue;
		}
		/* Mostly somebody else has it now; or it was ours, and went in the COMMIT that was in doubt. */
		count_applied(x, d->lost);
		x->source->ops->give_back(x->source, d);
	}
	x->hand_count = left;
	arena_reset(&x->arena);
	return result;
}

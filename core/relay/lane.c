/* A lane's loop: exchange with PostgreSQL, begin calls, wait. While PostgreSQL works, calls go on: whatever is waited
 * for, the driver is served. */
#include "relay/lane.h"
#include "base/fault.h"
#include "base/log.h"
#include "pg/migrate.h"
#include "pg/sqlstate.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	STACK_BYTES = 16 << 20, /* rabbitmq-c decodes nested headers by recursion */
	RECONNECT_MIN_MS = 100,
	RECONNECT_MAX_MS = 3000,
	AHEAD = 2,             /* rows leased for each call that may be under way: the next is here when one ends */
	BYTES_MOST = 64 << 20, /* of rows in hand; one more may always come */
	FAILURES = 5,          /* in a row: the target is down, not the rows */
	PAUSE_MIN_MS = 200,
	PAUSE_MAX_MS = 10000,
	COUNT_SHARE = 20, /* counting may take a 20th of the time */
	PRUNE_INTERVAL_MS = 60000,
	PRUNE_PAUSE_MS = 50, /* between two bites of a long meal */
	MARK_MS = 500,       /* kept from the time for draining */
};

static bool stopping(const struct lane *l)
{
	return atomic_load(&l->order->stop);
}

static bool must_end(const struct lane *l)
{
	return stopping(l) && clock_mono_ms() >= atomic_load(&l->order->deadline_ms);
}

static enum relay_lane_state state_of(const struct lane *l)
{
	if (!l->pg)
		return RELAY_NO_DATABASE;
	if (l->ready.first && l->driver->ops->away && l->driver->ops->away(l->driver))
		return RELAY_TARGET_AWAY;
	return l->failures >= FAILURES ? RELAY_TARGET_FAILS : RELAY_RUNNING;
}

static void show(struct lane *l)
{
	atomic_store_explicit(&l->shown.state, (int)state_of(l), memory_order_relaxed);
	atomic_store_explicit(&l->shown.under_way, l->under_way, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->shown.ticks, 1, memory_order_relaxed);
}

/* --- calls --- */

static size_t calls_most(const struct lane *l)
{
	return l->failures >= FAILURES ? 1 : (size_t)l->config->in_flight;
}

static void count_failure(struct lane *l, const struct row *row)
{
	if (++l->failures < FAILURES)
		return;
	const int64_t pause_ms = backoff_next_ms(&l->pauses);
	l->pause_until_ms = clock_mono_ms() + pause_ms;
	log_warn("target_fails", LANE_FIELDS(l), LOG_STR("error", row->error), LOG_INT("failures", l->failures),
		 LOG_INT("next_try_ms", pause_ms));
}

static void count_success(struct lane *l)
{
	if (l->failures >= FAILURES)
		log_info("target_is_back", LANE_FIELDS(l), LOG_INT("failures", l->failures));
	l->failures = 0;
	backoff_reset(&l->pauses);
}

void lane_finish(struct lane *l, struct row *row, const struct verdict *verdict)
{
	static const enum relay_result results[] = {
		[FATE_SENT] = RELAY_SENT, [FATE_RETRY] = RELAY_RETRIED, [FATE_DEAD] = RELAY_DEAD
	};
	verdict_apply(verdict, l->config, &l->target, row);
	struct row *last = l->calls[--l->under_way];
	last->slot = row->slot;
	l->calls[row->slot] = last;
	histogram_observe(&row->kind->seconds, &relay_call_scale, clock_mono_us() - row->begun_us);
	atomic_fetch_add_explicit(&row->kind->results[results[row->fate]], 1, memory_order_relaxed);
	if (verdict->kind == VERDICT_RETRY)
		count_failure(l, row);
	else
		count_success(l);
	if (row->fate == FATE_RETRY)
		l->next_due_ms = earlier(l->next_due_ms, clock_mono_ms() + row->delay_ms);
	if (row->fate == FATE_DEAD)
		log_error("outbox_row_dead", LANE_FIELDS(l), LOG_STR("kind", row->kind->name), LOG_INT("id", row->id),
			  LOG_BYTES("key", row->key.data, row->key.len), LOG_INT("attempts", row->attempts),
			  LOG_STR("error", row->error),
			  LOG_STR("next", "mend what it names, then: effectd outbox retry ID"));
	else if (row->fate == FATE_RETRY)
		log_debug("outbox_row_retried", LANE_FIELDS(l), LOG_INT("id", row->id),
			  LOG_INT("attempt", row->attempts), LOG_STR("error", row->error),
			  LOG_INT("delay_ms", row->delay_ms));
	(void)FAULT_POINT("outbox_answered");
	rows_add(&l->done, row);
}

/* How long until max_per_second allows a call; 0: now. */
static int64_t limit_ms(struct lane *l)
{
	const double rate = (double)l->target.config->max_per_second;
	if (rate <= 0)
		return 0;
	const int64_t now = clock_mono_us();
	const double burst = rate / 10 > 1 ? rate / 10 : 1; /* what a tenth of a second allows */
	l->allowance += (double)(now - l->allowed_us) * rate / 1e6;
	l->allowed_us = now;
	if (l->allowance > burst)
		l->allowance = burst;
	return l->allowance >= 1 ? 0 : (int64_t)((1 - l->allowance) * 1000 / rate) + 1;
}

/* Would two calls of one ordering key be under way? Then the later row was leased before the earlier one committed. */
static bool overtakes(const struct lane *l, const struct row *row)
{
	const struct str key = row->ordering_key;
	for (size_t i = 0; key.data && i < l->under_way; i++) {
		const struct str other = l->calls[i]->ordering_key;
		if (other.data && other.len == key.len && memcmp(other.data, key.data, key.len) == 0)
			return true;
	}
	return false;
}

/* The next row that may be called, or NULL. */
static struct row *next_row(struct lane *l)
{
	for (size_t i = l->ready.count; i > 0; i--) {
		struct row *row = rows_take(&l->ready);
		if (!overtakes(l, row))
			return row;
		rows_add(&l->ready, row);
	}
	return NULL;
}

static void give_back(struct lane *l, struct row *row)
{
	row->fate = FATE_BACK;
	rows_add(&l->done, row);
	l->look = true;
}

static void begin(struct lane *l, struct row *row, int64_t timeout_ms)
{
	row->slot = l->under_way;
	l->calls[l->under_way++] = row;
	l->allowance -= 1;
	row->begun_us = clock_mono_us();
	l->driver->ops->begin(l->driver, row, timeout_ms);
}

/* Begins what may begin. A row whose lease is half used up goes back: a call must end before its lease does. */
static void begin_calls(struct lane *l)
{
	const int64_t timeout_ms = l->target.config->timeout_ms;
	while (l->ready.first && !stopping(l) && l->under_way < calls_most(l)) {
		const int64_t now = clock_mono_ms();
		if (now < l->pause_until_ms || limit_ms(l) > 0 || !l->driver->ops->ready(l->driver))
			break;
		struct row *row = next_row(l);
		if (!row)
			break;
		const int64_t left_ms = row->until_ms - now;
		if (left_ms < timeout_ms / 2)
			give_back(l, row);
		else
			begin(l, row, earlier(timeout_ms, left_ms));
	}
}

static void serve(struct lane *l)
{
	l->driver->ops->pump(l->driver);
	begin_calls(l);
}

/* --- waiting --- */

static bool has_news(const struct lane *l)
{
	return l->done.count > 0 || (stopping(l) && !l->draining);
}

static int64_t calls_wake_ms(struct lane *l, int64_t now)
{
	int64_t until = l->driver->ops->wake_ms(l->driver);
	if (l->ready.first && l->under_way < calls_most(l)) {
		if (l->pause_until_ms > now)
			until = earlier(until, l->pause_until_ms);
		else if (limit_ms(l) > 0)
			until = earlier(until, now + limit_ms(l));
	}
	return until;
}

/* Waits for fd (or -1), for time, or with for_work for anything that the loop must look at. As a waiter's wait(). */
static int lane_poll(struct lane *l, int fd, short events, int64_t deadline_ms, bool for_work)
{
	for (;;) {
		show(l);
		if (must_end(l))
			return -1;
		if (for_work && has_news(l))
			return 0;
		const int64_t now = clock_mono_ms();
		int64_t until = earlier(earlier(deadline_ms, now + l->tick_ms), calls_wake_ms(l, now));
		if (stopping(l))
			until = earlier(until, atomic_load(&l->order->deadline_ms));
		struct pollfd fds[] = {
			{ .fd = l->wake_fd, .events = POLLIN },
			{ .fd = l->driver->ops->fd(l->driver), .events = POLLIN },
			{ .fd = fd, .events = events },
		};
		const int ready = poll(fds, ARRAY_LEN(fds), until <= now ? 0 : (int)(until - now));
		if (ready < 0 && errno != EINTR)
			return -1;
		if (ready > 0 && fds[0].revents) {
			uint64_t drop;
			if (read(l->wake_fd, &drop, sizeof(drop)) < 0 && errno != EAGAIN)
				return -1;
			l->look = true;
		}
		serve(l);
		if (ready > 0 && fds[2].revents)
			return fds[2].revents;
		if (clock_mono_ms() >= deadline_ms || (for_work && l->look && fds[0].revents))
			return 0;
	}
}

static int lane_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	return lane_poll((struct lane *)self, fd, events, deadline_ms, false);
}

static void lane_pause(struct lane *l, int64_t ms)
{
	const int64_t deadline = clock_mono_ms() + ms;
	while (clock_mono_ms() < deadline && !stopping(l))
		if (lane_poll(l, -1, 0, deadline, false) < 0)
			return;
}

/* --- PostgreSQL --- */

static void lose_database(struct lane *l, enum status st, const struct error *err)
{
	pg_session_destroy(l->pg);
	l->pg = NULL;
	if (st == ST_STOPPED)
		return;
	const int64_t wait_ms = backoff_next_ms(&l->pg_backoff);
	const bool program = st == ST_INVALID || (st == ST_REFUSED && pg_sqlstate_kind(err).class != FAULT_ENVIRONMENT);
	log_write(program ? LOG_ERROR : LOG_WARNING, "database_unavailable",
		  (const struct log_field[]){ LANE_FIELDS(l), LOG_ERR(err), LOG_INT("retry_ms", wait_ms) }, 5);
	show(l);
	lane_pause(l, wait_ms);
}

static bool have_database(struct lane *l)
{
	if (l->pg)
		return true;
	struct error err = { 0 };
	struct pg_session *s = NULL;
	enum status st = pg_session_open(&s, &l->database, &l->waiter, &err);
	if (st == ST_OK)
		st = migrate_require(s, &err);
	if (st == ST_OK)
		st = outbox_attach(s, &err);
	l->pg = s;
	if (st != ST_OK) {
		lose_database(l, st, &err);
		return false;
	}
	if (l->pg_backoff.failures > 0)
		log_info("database_is_back", LANE_FIELDS(l), LOG_INT("failures", l->pg_backoff.failures));
	l->look = true;
	return true;
}

/* How many rows to ask for: as many as can be called soon, in as much memory as there is for them. */
static size_t room(const struct lane *l)
{
	const size_t calls = calls_most(l), most = calls > 1 ? AHEAD * calls : 1;
	const size_t in_hand = l->ready.count + l->under_way;
	if (in_hand >= most || l->ready.bytes >= BYTES_MOST || clock_mono_ms() < l->pause_until_ms)
		return 0;
	/* A few at a time would be a transaction each, while others are ready to go. */
	if (l->ready.count > 0 && most - in_hand < most / 4)
		return 0;
	const size_t fit = (BYTES_MOST - l->ready.bytes) / (l->largest + 1) + 1;
	return most - in_hand < fit ? most - in_hand : fit;
}

static void take_leased(struct lane *l, struct outbox_exchange *x)
{
	l->largest = 0;
	for (const struct row *row = x->leased.first; row; row = row->next)
		if (row->bytes > l->largest)
			l->largest = row->bytes;
	rows_move(&l->ready, &x->leased);
	for (size_t i = 0; i < l->shown.kind_count; i++)
		if (l->leases[i].most > 0 && (l->leases[i].late > 0 || l->leases[i].taken == l->leases[i].most))
			l->look = true;
	if (x->released)
		l->look = true;
}

static void after_marks(struct lane *l, struct rows *marks, size_t fenced)
{
	if (fenced > 0) {
		log_warn("outbox_lease_lost", LANE_FIELDS(l), LOG_INT("rows", fenced),
			 LOG_STR("next", "they are called again with the same key; a longer lease makes it rarer"));
		atomic_fetch_add_explicit(&marks->first->kind->fenced, fenced, memory_order_relaxed);
	}
	rows_free(marks);
}

/* Marks what is done, leases what may be called. False: the session is lost. */
static bool exchange(struct lane *l, bool lease)
{
	struct rows marks;
	struct outbox_exchange x = {
		.marks = &marks,
		.leases = l->leases,
		.lease_count = l->shown.kind_count,
		.lease_ms = l->config->lease_ms,
		.key_most = l->driver->ops->key_most,
		.envelope = l->target.config->body == BODY_ENVELOPE,
	};
	rows_init(&marks);
	rows_init(&x.leased);
	rows_move(&marks, &l->done);
	const size_t most = lease ? room(l) : 0;
	for (size_t i = 0; i < l->shown.kind_count; i++)
		l->leases[i].most = most;
	if (most > 0)
		l->look = false;
	struct error err = { 0 };
	const enum status st = outbox_exchange(l->pg, &l->arena, &x, &err);
	if (st == ST_OK) {
		backoff_reset(&l->pg_backoff);
		take_leased(l, &x);
		after_marks(l, &marks, x.fenced);
		return true;
	}
	/* Marked again on the next session: what was committed already is fenced off. */
	rows_move(&marks, &l->done);
	rows_move(&l->done, &marks);
	l->look = true;
	lose_database(l, st, &err);
	return false;
}

/* For metrics, at the slow poll. */
static enum status count(struct lane *l, int64_t now, struct error *err)
{
	enum status st = ST_OK;
	if (now < l->next_count_ms)
		return ST_OK;
	for (size_t i = 0; st == ST_OK && i < l->shown.kind_count; i++)
		st = outbox_count(l->pg, &l->shown.kinds[i], err);
	l->next_count_ms = now + COUNT_SHARE * (clock_mono_ms() - now);
	return st;
}

static enum status prune(struct lane *l, int64_t now, struct error *err)
{
	enum status st = ST_OK;
	bool any = false;
	for (size_t i = 0; st == ST_OK && i < l->shown.kind_count; i++) {
		bool more = false;
		st = outbox_prune(l->pg, &l->shown.kinds[i], l->config->sent_retention_ms, &more, err);
		any = any || more;
	}
	l->prunes = any;
	l->next_prune_ms = now + (any ? PRUNE_PAUSE_MS : earlier(PRUNE_INTERVAL_MS, l->config->sent_retention_ms));
	return st;
}

static bool keep_house(struct lane *l, bool polls)
{
	struct error err = { 0 };
	const int64_t now = clock_mono_ms();
	enum status st = polls ? count(l, now, &err) : ST_OK;
	if (st == ST_OK && l->config->sent_retention_ms >= 0 && (polls || l->prunes) && now >= l->next_prune_ms)
		st = prune(l, now, &err);
	if (st == ST_OK)
		return true;
	lose_database(l, st, &err);
	return false;
}

/* --- the loop --- */

static bool wants_exchange(const struct lane *l)
{
	return l->done.count > 0 || (l->look && room(l) > 0);
}

static void wait_for_work(struct lane *l)
{
	int64_t deadline = earlier(l->next_poll_ms, l->next_due_ms);
	if (l->prunes)
		deadline = earlier(deadline, l->next_prune_ms);
	if (l->look && l->pause_until_ms > clock_mono_ms())
		deadline = earlier(deadline, l->pause_until_ms);
	struct error err = { 0 };
	(void)lane_poll(l, pg_session_fd(l->pg), POLLIN, deadline, true);
	const enum status st = pg_session_check(l->pg, &err);
	if (st != ST_OK)
		lose_database(l, st, &err);
	else if (pg_session_notified(l->pg))
		l->look = true;
}

static void step(struct lane *l)
{
	if (!have_database(l))
		return;
	const int64_t now = clock_mono_ms();
	const bool polls = now >= l->next_poll_ms, due = now >= l->next_due_ms;
	if (polls)
		l->next_poll_ms = now + l->config->poll_interval_ms;
	if (due)
		l->next_due_ms = WAIT_FOREVER;
	l->look = l->look || polls || due;
	serve(l);
	if (wants_exchange(l) && !exchange(l, l->look))
		return;
	serve(l);
	if (keep_house(l, polls) && !wants_exchange(l))
		wait_for_work(l);
}

/* Until when calls may go on: then there is still time to mark them. */
static int64_t calls_deadline_ms(const struct lane *l)
{
	return atomic_load(&l->order->deadline_ms) - MARK_MS;
}

/* What was not called goes back, what is under way may end, then all is marked. */
static void drain(struct lane *l)
{
	l->draining = true;
	for (struct row *row; (row = rows_take(&l->ready));)
		give_back(l, row);
	while (l->under_way > 0 && clock_mono_ms() < calls_deadline_ms(l))
		if (l->done.count == 0 || !have_database(l) || !exchange(l, false))
			if (lane_poll(l, -1, 0, calls_deadline_ms(l), l->done.count == 0) < 0)
				break;
	l->driver->ops->abandon(l->driver);
	if (l->done.count > 0 && l->pg && exchange(l, false))
		return;
	if (l->done.count > 0)
		log_warn("outbox_marks_lost", LANE_FIELDS(l), LOG_INT("rows", l->done.count),
			 LOG_STR("next", "they are called again when their lease ends, with the same key"));
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;
	log_info("relaying", LANE_FIELDS(l), LOG_INT("in_flight", l->config->in_flight));
	while (!stopping(l))
		step(l);
	drain(l);
	pg_session_destroy(l->pg);
	l->pg = NULL;
	show(l);
	atomic_store(&l->shown.state, RELAY_ENDED);
	return NULL;
}

enum status lane_start(struct lane *l, struct error *err)
{
	static const struct driver_ops *const drivers[] = {
		[TARGET_HTTP] = &http_driver, [TARGET_AMQP] = &amqp_driver, [TARGET_SMTP] = &smtp_driver
	};
	l->waiter.wait = lane_wait;
	l->next_due_ms = WAIT_FOREVER;
	l->allowed_us = clock_mono_us();
	backoff_init(&l->pg_backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&l->pauses, earlier(l->config->retry_min_ms, PAUSE_MIN_MS),
		     earlier(l->config->retry_max_ms, PAUSE_MAX_MS));
	const enum status st = drivers[l->target.config->type]->create(&l->driver, l, err);
	if (st != ST_OK)
		return error_wrap(err, "target %s", l->target.config->name);
	pthread_attr_t attr;
	int failed = pthread_attr_init(&attr);
	if (failed == 0) {
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		failed = pthread_create(&l->thread, &attr, lane_main, l);
		pthread_attr_destroy(&attr);
	}
	if (failed != 0)
		return error_errno(err, ST_INTERNAL, failed, "cannot start a thread");
	l->started = true;
	return ST_OK;
}

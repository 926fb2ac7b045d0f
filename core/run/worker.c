/* The worker's loop: take turns with the heart while both peers are there, hold while PostgreSQL is away, drain when
 * told. Waiting is wait.c's, connections are peers.c's. */
#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "pg/sqlstate.h"
#include "run/loop.h"
#include "run/relays.h"
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	STACK_BYTES = 16 << 20, /* rabbitmq-c decodes nested headers by recursion */
	RECONNECT_MIN_MS = 100, /* a peer that restarts is back within seconds: be there */
	RECONNECT_MAX_MS = 3000,
	CONTENTION_MIN_MS = 2, /* after 40001 and 40P01: the other one needs a moment to finish */
	CONTENTION_MAX_MS = 200,
	TICK_MS = 1000,             /* a wakeup that costs nothing */
	CANCEL_PATIENCE_MS = 50,    /* for deliveries that were under way when draining began */
	RETRY_POLL_MS = 1000,       /* how late a due row may be, at the most */
	LEASE_SLACK_MS = 30 * 1000, /* of a parked row, beyond what its attempt may take */
	STREAK_MOST = 20,           /* a bad deploy must not park a million */
};

/* The environment failed: hold what is in hand, give it back once when that takes longer than the broker would allow.
 */
static void hold(struct worker *w, const struct error *err)
{
	const int64_t now = clock_mono_ms();
	if (w->held_since_ms == 0)
		w->held_since_ms = now;
	if (exact_misses_day(w->exact))
		consumer_miss_day(w->consumer);
	log_warn("batch_rolled_back", LOG_ERR(err), LOG_INT("held", exact_held(w->exact)));
	if (pg_sqlstate_kind(err).traits & FAULT_TRAIT_SESSION)
		exact_detach(w->exact); /* another session may lead to another server */
	worker_pause(w, backoff_next_ms(&w->pg_backoff));
}

static bool held_too_long(const struct worker *w)
{
	return w->amqp && w->held_since_ms && clock_mono_ms() - w->held_since_ms >= w->consumer->config->hold_max_ms;
}

static void wait_for_work(struct worker *w)
{
	int64_t deadline = exact_wake_ms(w->exact);
	if (w->parked)
		deadline = earlier(deadline, clock_mono_ms() + RETRY_POLL_MS);
	deadline = earlier(earlier(deadline, worker_quiet_ms(w)), earlier(worker_stall_wake_ms(w), w->tell.notify_ms));
	const int ready = worker_poll(w, w->pg ? pg_session_fd(w->pg) : -1, POLLIN, deadline, true);
	struct error err = { 0 };
	if (w->pg && pg_session_check(w->pg, &err) != ST_OK) {
		log_warn("database_lost", LOG_ERR(&err));
		exact_detach(w->exact);
	}
	if (ready != 0)
		return;
	worker_meet_quiet(w);
	worker_stall_look(w);
}

/* False: not now. */
static bool take_turn(struct worker *w, enum exact_result *ret, struct error *err)
{
	if (w->parked) {
		worker_count_parked(w);
		const enum status st = parked_source_fetch(w->parked, w->pg, err);
		if (st != ST_OK && st != ST_REFUSED)
			exact_detach(w->exact);
		if (st != ST_OK) {
			*ret = st == ST_STOPPED                   ? EXACT_STOPPED
			       : worker_is_program_fault(st, err) ? EXACT_PROGRAM
								  : EXACT_ENVIRONMENT;
			return true;
		}
	}
	return worker_take_turn(w, ret, err);
}

/* That rows for them were committed: those of this process at once. */
static void tell_relays(struct worker *w)
{
	if (tell_look(&w->tell))
		relays_wake(w->relays, w->consumer->config->database->name);
	tell_notify(&w->tell, w->pg, w->exact);
}

/* One turn with the heart and what follows from it. */
static void turn(struct worker *w)
{
	struct error err = { 0 };
	enum exact_result result;
	worker_serve_broker(w);
	if (!take_turn(w, &result, &err))
		return;
	switch (result) {
	case EXACT_IDLE:
		backoff_reset(&w->pg_backoff);
		tell_relays(w);
		wait_for_work(w);
		return;
	case EXACT_WORKED:
		worker_stall_fed(w);
		tell_relays(w);
		w->held_since_ms = 0;
		backoff_reset(&w->pg_backoff);
		backoff_reset(&w->contention);
		atomic_store_explicit(&w->consumer->closures, 0, memory_order_relaxed);
		return;
	case EXACT_CONTENDED:
		log_debug("contended", LOG_ERR(&err));
		worker_pause(w, backoff_next_ms(&w->contention));
		return;
	case EXACT_ENVIRONMENT:
		hold(w, &err);
		return;
	case EXACT_PROGRAM:
		worker_close_consumer(w, false, &err);
		return;
	case EXACT_BROKEN:
		worker_close_consumer(w, true, &err);
		return;
	case EXACT_DEAD:
		worker_stop_on_dead(w, &err);
		return;
	case EXACT_SUSPECT:
	case EXACT_STOPPED:
		return;
	}
}

/* Draining: the broker stops sending; what it sent already is applied while there is time, what is in hand always.
 * Where order counts, what is not in hand goes back. */
static bool drained(struct worker *w)
{
	if (!w->amqp || w->broker_lost || !w->pg || exact_session_lost(w->exact))
		return true;
	struct error err = { 0 };
	if (worker_keeps_order(w) && exact_held(w->exact) == 0)
		return true;
	if (!w->cancelled && !worker_keeps_order(w)) {
		w->cancelled = true;
		if (amqp_session_cancel(w->amqp, &err) != ST_OK)
			return true;
	}
	if (clock_mono_ms() >= atomic_load(&w->stop->fetch_until_ms))
		return true;
	worker_serve_broker(w);
	enum exact_result result;
	if (!take_turn(w, &result, &err))
		return result == EXACT_SUSPECT;
	switch (result) {
	case EXACT_WORKED:
	case EXACT_CONTENDED:
		return false;
	case EXACT_IDLE:
		if (w->parked || exact_held(w->exact) > 0 || amqp_session_cancelled(w->amqp))
			return true;
		worker_poll(w, -1, 0, clock_mono_ms() + CANCEL_PATIENCE_MS, true);
		return false;
	default:
		return true;
	}
}

static void step(struct worker *w)
{
	if (worker_consumer_is_closed(w)) {
		worker_give_back(w);
		worker_lose_database(w);
		worker_pause(w, 1000);
	} else if (worker_must_wait(w)) {
		return;
	} else if (held_too_long(w)) {
		log_warn("held_too_long", LOG_INT("held", exact_held(w->exact)),
			 LOG_STR("next", "the deliveries go back once; consuming goes on when they can be applied"));
		worker_give_back(w);
		exact_detach(w->exact);
	} else if (worker_stands_back(w)) {
		return;
	} else if (worker_have_database(w) && !worker_waits_for_parked(w) && (w->parked || worker_have_broker(w))) {
		turn(w);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	log_context(w->consumer->config->name, w->number);
	while (worker_ordered(w) == STOP_NO) {
		worker_show(w);
		step(w);
	}
	w->draining = true;
	FAULT_POINT("drain_begun");
	while (!worker_must_end(w) && !drained(w))
		;
	FAULT_POINT("drain_done");
	if (!worker_must_end(w))
		tell_rest(&w->tell, w->pg, w->exact);
	/* Waits for the broker's answer: every ack before it has arrived then. */
	struct error ignored;
	if (w->amqp && !w->broker_lost && !worker_must_end(w) && amqp_session_close_channel(w->amqp, &ignored) != ST_OK)
		log_debug("channel_not_closed", LOG_ERR(&ignored));
	worker_leave_broker(w);
	worker_lose_database(w);
	worker_drop_suspect(w);
	worker_show_end(w);
	return NULL;
}

static void worker_destroy(struct worker *w)
{
	worker_end_trial(w);
	exact_destroy(w->exact);
	queue_source_destroy(w->queue);
	parked_source_destroy(w->parked);
	plugin_instance_destroy(w->instance);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	free(w);
}

static enum status create_source(struct worker *w, struct source **ret, struct error *err)
{
	const struct config_consumer *config = w->consumer->config;
	if (w->number != WORKER_RETRY) {
		const enum status st = queue_source_create(&w->queue, config->name, &w->consumer->counters, err);
		if (st == ST_OK)
			*ret = queue_source_base(w->queue);
		return st;
	}
	const struct parked_params params = {
		.consumer = config->name,
		.lease_ms = w->process->watchdog_ms + config->database->statement_timeout_ms +
			    config->database->lock_timeout_ms + LEASE_SLACK_MS,
	};
	const enum status st = parked_source_create(&w->parked, &params, err);
	if (st == ST_OK)
		*ret = parked_source_base(w->parked);
	return st;
}

enum status worker_start(struct worker **ret, struct consumer *consumer, int number, struct worker_context *context,
			 struct error *err)
{
	const struct config_consumer *config = consumer->config;
	struct worker *w = calloc(1, sizeof(*w));
	if (!w)
		return error_oom(err);
	w->waiter.wait = worker_wait;
	w->consumer = consumer;
	w->process = consumer->process;
	w->stop = &consumer->stop;
	w->probation = &context->probation;
	w->relays = &context->relays;
	tell_init(&w->tell, &consumer->counters, relays_notified_ms(&context->relays, config->database->name));
	w->heard_ms = clock_mono_ms();
	w->number = number;
	w->tick_ms = earlier(w->process->watchdog_ms / 4, TICK_MS);
	snprintf(w->name, sizeof(w->name), "effectd/%s/%d", config->name, number);
	backoff_init(&w->pg_backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&w->amqp_backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&w->contention, CONTENTION_MIN_MS, CONTENTION_MAX_MS);
	w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	enum status st = w->wake_fd < 0 ? error_errno(err, ST_INTERNAL, errno, "eventfd") : ST_OK;
	if (st == ST_OK && !w->tell.notified_ms)
		st = error_oom(err);
	const struct exact_params params = {
		.consumer = config->name,
		.batch_max = (size_t)config->batch_max,
		.batch_bytes = (size_t)config->batch_bytes,
		.retry_min_ms = config->retry_min_ms,
		.retry_max_ms = config->retry_max_ms,
		.max_attempts = config->max_attempts,
		.in_order = config->order == ORDER_QUEUE && number != WORKER_RETRY,
		.stop_on_dead = config->stop_on_dead && number != WORKER_RETRY,
		.streak_most = STREAK_MOST,
		.counters = &consumer->counters,
	};
	if (st == ST_OK)
		st = plugin_instance_create(&w->instance, consumer->plugin, config->name, consumer->settings,
					    config->settings.count, err);
	if (st == ST_OK)
		w->instance->doing = &consumer->vitals[number].doing;
	struct source *source;
	if (st == ST_OK)
		st = create_source(w, &source, err);
	if (st == ST_OK)
		st = exact_create(&w->exact, &params, w->instance, source, err);
	pthread_attr_t attr;
	if (st == ST_OK && pthread_attr_init(&attr) == 0) {
		pthread_attr_setstacksize(&attr, STACK_BYTES);
		const int failed = pthread_create(&w->thread, &attr, worker_main, w);
		pthread_attr_destroy(&attr);
		if (failed)
			st = error_errno(err, ST_INTERNAL, failed, "cannot start a thread");
	}
	if (st != ST_OK) {
		worker_destroy(w);
		return st;
	}
	*ret = w;
	return ST_OK;
}

void worker_wake(struct worker *w)
{
	const uint64_t one = 1;
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		log_debug("wake_failed", LOG_INT("errno", errno)); /* the counter is full: it is awake */
}

bool worker_join(struct worker *w, int64_t deadline_ms)
{
	if (!thread_join(w->thread, deadline_ms))
		return false;
	worker_destroy(w);
	return true;
}

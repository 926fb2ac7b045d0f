/* The worker's loop: keep both peers, take turns with the heart, hold while PostgreSQL is away, drain when told.
 *
 * The thread waits in one place only, worker_wait(), which serves the broker whoever is waited for: heartbeats go out
 * and deliveries come in while PostgreSQL works. A channel is never closed in order to wait; each return of a delivery
 * counts against a quorum queue's delivery limit. */
#include "run/worker.h"
#include "amqp/session.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "exact/exact.h"
#include "pg/migrate.h"
#include "pg/sqlstate.h"
#include "run/params.h"
#include "source/parked.h"
#include "source/queue.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	STACK_BYTES = 16 << 20, /* rabbitmq-c decodes nested headers by recursion */
	RECONNECT_MIN_MS = 100, /* a peer that restarts is back within seconds: be there */
	RECONNECT_MAX_MS = 3000,
	CONTENTION_MIN_MS = 2, /* after 40001 and 40P01: the other one needs a moment to finish */
	CONTENTION_MAX_MS = 200,
	CLOSED_MIN_MS = 30 * 1000, /* a fault of the program: a person must act, so look now and then */
	CLOSED_MAX_MS = 5 * 60 * 1000,
	CANCEL_PATIENCE_MS = 50,           /* for deliveries that were under way when draining began */
	RETRY_POLL_MS = 1000,              /* how late a due row may be, at the most */
	LEASE_SLACK_MS = 30 * 1000,        /* of a parked row, beyond what its attempt may take */
	PROBATION_STEP_MS = 5,             /* for whoever waits for another consumer's turn */
	PROBATION_QUIET_MS = 100,          /* nothing came for so long: is the queue empty? */
	PROBATION_PATIENCE_MS = 10 * 1000, /* for a consumer whose servers are away: others cannot wait for it */
};

struct worker {
	struct waiter waiter; /* must be first */
	struct consumer *consumer;
	const struct config_process *process;
	const struct stop_order *stop;
	struct probation *probation;
	int number;
	pthread_t thread;
	int wake_fd;
	char name[128]; /* effectd/CONSUMER/NUMBER: what the servers show */

	struct plugin_instance *instance;
	struct exact *exact;
	struct queue_source *queue;   /* or */
	struct parked_source *parked; /* the retry worker's */
	struct pg_session *pg;
	struct amqp_session *amqp;
	bool broker_lost; /* the session failed while something else was waited for */
	struct error broker_error;
	bool cancelled; /* the broker was asked to send nothing more */
	bool careful;   /* it consumes one delivery at a time */
	bool must_test; /* it gave everything back since PostgreSQL failed: a write must succeed before it consumes */
	int64_t started_ms;

	struct backoff pg_backoff, amqp_backoff, contention;
	int64_t held_since_ms; /* deliveries are held because PostgreSQL is away; 0: they are not */
};

static enum stop ordered(const struct worker *w)
{
	return atomic_load(&w->stop->order);
}

/* A full stop: nothing is waited for any longer. */
static bool must_end(const struct worker *w)
{
	const enum stop order = ordered(w);
	return order == STOP_NOW || (order == STOP_DRAIN && clock_mono_ms() >= atomic_load(&w->stop->deadline_ms));
}

static void serve_broker(struct worker *w)
{
	if (w->amqp && !w->broker_lost && amqp_session_pump(w->amqp, &w->broker_error) != ST_OK)
		w->broker_lost = true;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool broker_has_news(const struct worker *w)
{
	return w->broker_lost ||
	       (w->amqp && (amqp_session_peek(w->amqp) || (w->cancelled && amqp_session_cancelled(w->amqp))));
}

/* Waits for fd, for time, or (fd -1, for_work) for anything that the loop must look at. */
static int worker_poll(struct worker *w, int fd, short events, int64_t deadline_ms, bool for_work)
{
	const enum stop before = ordered(w);
	for (;;) {
		if (must_end(w))
			return -1;
		if (for_work && (broker_has_news(w) || ordered(w) != before))
			return 0;
		const bool broker = w->amqp && !w->broker_lost;
		int64_t until = deadline_ms;
		if (broker)
			until = earlier(until, amqp_session_wake_ms(w->amqp));
		if (before == STOP_DRAIN)
			until = earlier(until, atomic_load(&w->stop->deadline_ms));
		const int64_t now = clock_mono_ms(), rest = until <= now ? 0 : until - now;
		struct pollfd fds[] = {
			{ .fd = w->wake_fd, .events = POLLIN },
			{ .fd = broker ? amqp_session_fd(w->amqp) : -1,
			  .events = broker && amqp_session_reading(w->amqp) ? POLLIN : 0 },
			{ .fd = fd, .events = events },
		};
		const int ready = poll(fds, ARRAY_LEN(fds), until == WAIT_FOREVER ? -1 : (int)earlier(rest, 1 << 30));
		if (ready < 0 && errno != EINTR)
			return -1;
		if (ready > 0 && fds[0].revents) {
			uint64_t drop;
			if (read(w->wake_fd, &drop, sizeof(drop)) < 0 && errno != EAGAIN)
				return -1;
		}
		if (ready > 0 && fds[2].revents)
			return fds[2].revents;
		serve_broker(w);
		if (clock_mono_ms() >= deadline_ms)
			return 0;
	}
}

static int worker_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	return worker_poll((struct worker *)self, fd, events, deadline_ms, false);
}

/* Time passes, the broker is served. */
static void pause_ms(struct worker *w, int64_t ms)
{
	const int64_t deadline = clock_mono_ms() + ms;
	while (clock_mono_ms() < deadline && ordered(w) == STOP_NO)
		if (worker_poll(w, -1, 0, deadline, false) < 0)
			return;
}

static void lose_database(struct worker *w)
{
	pg_session_destroy(w->pg);
	w->pg = NULL;
}

/* The deliveries go back with the channel: the broker sends them again, and the claims tell which were applied. */
static void leave_broker(struct worker *w)
{
	struct error ignored;
	exact_give_back(w->exact);
	if (w->queue && queue_source_attach(w->queue, NULL, &ignored) != ST_OK)
		log_debug("queue_detach_failed", LOG_ERR(&ignored));
	amqp_session_destroy(w->amqp);
	w->amqp = NULL;
	w->broker_lost = w->cancelled = false;
	w->held_since_ms = 0;
}

static bool in_probation(const struct worker *w)
{
	return atomic_load_explicit(&w->probation->left, memory_order_relaxed) > 0;
}

/* This consumer needs probation no longer; with the last one it is over. */
static void meet(struct worker *w)
{
	if (!atomic_exchange(&w->consumer->met, true) && atomic_fetch_sub(&w->probation->left, 1) == 1)
		log_debug("probation_over");
}

/* The program is wrong, not the messages: all workers of the consumer stop, the queue keeps everything. */
static void close_consumer(struct worker *w, bool for_good, const struct error *err)
{
	struct consumer *c = w->consumer;
	if (for_good) {
		atomic_store(&c->broken, true);
		log_error("consumer_broken", LOG_ERR(err),
			  LOG_STR("next", "mend the plugin or its configuration, then restart effectd"));
	} else {
		const unsigned closures = atomic_fetch_add(&c->closures, 1);
		int64_t ms = CLOSED_MIN_MS << (closures < 4 ? closures : 4);
		ms = earlier(ms, CLOSED_MAX_MS);
		atomic_store(&c->closed_until_ms, clock_mono_ms() + ms);
		log_error("consumer_closed", LOG_ERR(err), LOG_INT("next_try_s", ms / 1000),
			  LOG_STR("next", "nothing is lost, the queue keeps its messages; mend what the error names"));
	}
	leave_broker(w);
	lose_database(w);
	meet(w);
}

static bool consumer_is_closed(const struct worker *w)
{
	return atomic_load(&w->consumer->broken) || clock_mono_ms() < atomic_load(&w->consumer->closed_until_ms);
}

static bool is_program_fault(enum status st, const struct error *err)
{
	return st == ST_INVALID || (st == ST_REFUSED && pg_sqlstate_kind(err).class != FAULT_ENVIRONMENT);
}

/* A row written, committed and removed: does this server take effects again? */
static enum status test_write(struct worker *w, struct error *err)
{
	static const char *const sql[] = {
		"INSERT INTO effectd.attempts (consumer, fingerprint) VALUES ($1, sha256('effectd: can this be "
		"written?'))"
		" ON CONFLICT DO NOTHING",
		"DELETE FROM effectd.attempts WHERE consumer = $1 AND fingerprint = sha256('effectd: can this be "
		"written?')",
	};
	enum status st = ST_OK;
	for (size_t i = 0; i < ARRAY_LEN(sql) && st == ST_OK; i++)
		st = pg_query(w->pg, sql[i], (const char *const[]){ w->consumer->config->name }, 1, NULL, err);
	return st;
}

/* stop_on_dead: while a dead message waits for a person, nothing that came behind it may be applied. */
static enum status require_no_dead(struct worker *w, struct error *err)
{
	struct pg_result result;
	const enum status st =
		pg_query(w->pg, "SELECT count(*) FROM effectd.parked_messages WHERE consumer = $1 AND status = 'dead'",
			 (const char *const[]){ w->consumer->config->name }, 1, &result, err);
	if (st != ST_OK || pg_value_int8(&result, 0, 0) == 0)
		return st;
	return error_set(err, ST_INVALID,
			 "a dead message is parked and stop_on_dead is set: `effectd parked list` shows it, then retry "
			 "or drop it");
}

/* Connects to PostgreSQL and hands the session to the heart: the test that consuming makes sense. */
static bool have_database(struct worker *w)
{
	if (w->pg && !exact_session_lost(w->exact))
		return true;
	lose_database(w);
	struct pg_params params;
	struct error err = { 0 };
	params_of_database(w->consumer->config->database, w->process, w->name, &params);
	enum status st = pg_session_open(&w->pg, &params, &w->waiter, &err);
	if (st == ST_OK)
		st = migrate_require(w->pg, &err);
	if (st == ST_OK && w->must_test)
		st = test_write(w, &err);
	if (st == ST_OK && w->queue && w->consumer->config->stop_on_dead)
		st = require_no_dead(w, &err);
	if (st == ST_OK)
		st = exact_attach(w->exact, w->pg, &err);
	if (st == ST_OK) {
		w->must_test = false;
		if (w->pg_backoff.failures > 0)
			log_info("database_is_back", LOG_INT("failures", w->pg_backoff.failures));
		backoff_reset(&w->pg_backoff);
		return true;
	}
	if (st == ST_STOPPED)
		return false;
	if (is_program_fault(st, &err)) {
		close_consumer(w, false, &err);
		return false;
	}
	lose_database(w);
	counter_add(&w->consumer->counters.reconnects[1], 1);
	const int64_t wait_ms = backoff_next_ms(&w->pg_backoff);
	log_warn("database_unavailable", LOG_ERR(&err), LOG_INT("retry_ms", wait_ms),
		 LOG_INT("held", exact_held(w->exact)));
	pause_ms(w, wait_ms);
	return false;
}

/* Opens a channel: in probation for one delivery at a time, else for as many as configured. */
static enum status consume(struct worker *w, struct error *err)
{
	const struct config_consumer *config = w->consumer->config;
	struct consume_params params;
	enum status st = params_of_consume(config, w->name, &params, err);
	w->careful = in_probation(w);
	w->cancelled = false;
	if (w->careful)
		params.consume.prefetch = 1;
	if (st == ST_OK)
		st = amqp_session_consume(w->amqp, &params.consume, err);
	if (st == ST_OK)
		st = queue_source_attach(w->queue, w->amqp, err);
	if (st == ST_OK)
		log_info("consuming", LOG_STR("queue", config->queue), LOG_INT("prefetch", params.consume.prefetch));
	consume_params_finish(&params);
	return st;
}

/* Probation is over: what the broker sent until now is applied, then a new channel gets the full prefetch. */
static enum status leave_probation(struct worker *w, struct error *err)
{
	if (!w->cancelled) {
		w->cancelled = true;
		const enum status st = amqp_session_cancel(w->amqp, err);
		if (st != ST_OK)
			return st;
	}
	if (!amqp_session_cancelled(w->amqp) || amqp_session_peek(w->amqp) || exact_held(w->exact) > 0)
		return ST_OK; /* not yet */
	enum status st = queue_source_attach(w->queue, NULL, err);
	if (st == ST_OK)
		st = amqp_session_close_channel(w->amqp, err);
	if (st == ST_OK)
		st = consume(w, err);
	return st;
}

static bool have_broker(struct worker *w)
{
	struct error err = { 0 };
	if (w->amqp && !w->broker_lost && w->careful && !in_probation(w) &&
	    leave_probation(w, &w->broker_error) != ST_OK)
		w->broker_lost = true;
	if (w->amqp && !w->broker_lost)
		return true;
	if (w->amqp) {
		log_warn("broker_lost", LOG_ERR(&w->broker_error), LOG_INT("code", w->broker_error.code));
		leave_broker(w);
	}
	struct amqp_params params;
	params_of_broker(w->consumer->config->broker, w->name, &params);
	enum status st = amqp_session_open(&w->amqp, &params, &w->waiter, &err);
	if (st == ST_OK)
		st = consume(w, &err);
	if (st == ST_OK) {
		backoff_reset(&w->amqp_backoff);
		return true;
	}
	leave_broker(w);
	if (st == ST_STOPPED)
		return false;
	counter_add(&w->consumer->counters.reconnects[0], 1);
	const int64_t wait_ms = backoff_next_ms(&w->amqp_backoff);
	log_warn("broker_unavailable", LOG_ERR(&err), LOG_INT("code", err.code), LOG_INT("retry_ms", wait_ms));
	pause_ms(w, wait_ms);
	return false;
}

/* The environment failed: hold what is in hand, give it back once when that takes longer than the broker would allow.
 */
static void hold(struct worker *w, const struct error *err)
{
	const int64_t now = clock_mono_ms();
	if (w->held_since_ms == 0)
		w->held_since_ms = now;
	log_warn("batch_rolled_back", LOG_ERR(err), LOG_INT("held", exact_held(w->exact)));
	if (!exact_session_lost(w->exact))
		pause_ms(w, backoff_next_ms(&w->pg_backoff));
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
	if (w->careful && w->amqp)
		deadline = earlier(deadline, clock_mono_ms() + PROBATION_QUIET_MS);
	const int ready = worker_poll(w, w->pg ? pg_session_fd(w->pg) : -1, POLLIN, deadline, true);
	struct error err = { 0 };
	if (w->pg && pg_session_check(w->pg, &err) != ST_OK) {
		log_warn("database_lost", LOG_ERR(&err));
		exact_detach(w->exact);
	}
	uint32_t messages;
	if (ready == 0 && w->careful && w->amqp && !w->broker_lost && in_probation(w) && !amqp_session_peek(w->amqp) &&
	    exact_held(w->exact) == 0 &&
	    amqp_session_ready(w->amqp, w->consumer->config->queue, &messages, &err) == ST_OK && messages == 0 &&
	    !amqp_session_peek(w->amqp))
		meet(w);
}

/* A turn in probation: nobody else in the process is inside plugin code meanwhile. */
static enum exact_result careful_turn(struct worker *w, struct error *err)
{
	if (pthread_mutex_trylock(&w->probation->inside) != 0) {
		pause_ms(w, PROBATION_STEP_MS);
		return EXACT_WORKED;
	}
	const struct amqp_delivery *next = w->amqp ? amqp_session_peek(w->amqp) : NULL;
	const bool fresh = next && !next->redelivered;
	const enum exact_result result = exact_turn(w->exact, err);
	pthread_mutex_unlock(&w->probation->inside);
	if (fresh && result == EXACT_WORKED && exact_held(w->exact) == 0)
		meet(w);
	return result;
}

static enum exact_result take_turn(struct worker *w, struct error *err)
{
	if (w->parked) {
		const enum status st = parked_source_fetch(w->parked, w->pg, err);
		if (st == ST_STOPPED)
			return EXACT_STOPPED;
		if (st != ST_OK && st != ST_REFUSED)
			exact_detach(w->exact);
		if (st != ST_OK)
			return is_program_fault(st, err) ? EXACT_PROGRAM : EXACT_ENVIRONMENT;
	}
	const bool probation = in_probation(w);
	exact_set_careful(w->exact, probation || w->parked);
	return probation ? careful_turn(w, err) : exact_turn(w->exact, err);
}

/* One turn with the heart and what follows from it. */
static void turn(struct worker *w)
{
	struct error err = { 0 };
	serve_broker(w);
	switch (take_turn(w, &err)) {
	case EXACT_IDLE:
		wait_for_work(w);
		return;
	case EXACT_WORKED:
		w->held_since_ms = 0;
		backoff_reset(&w->pg_backoff);
		backoff_reset(&w->contention);
		atomic_store_explicit(&w->consumer->closures, 0, memory_order_relaxed);
		return;
	case EXACT_CONTENDED:
		log_debug("contended", LOG_ERR(&err));
		pause_ms(w, backoff_next_ms(&w->contention));
		return;
	case EXACT_ENVIRONMENT:
		hold(w, &err);
		return;
	case EXACT_PROGRAM:
		close_consumer(w, false, &err);
		return;
	case EXACT_BROKEN:
		close_consumer(w, true, &err);
		return;
	case EXACT_STOPPED:
		return;
	}
}

/* Draining: the broker stops sending; what it sent already is applied while there is time, what is in hand always. */
static bool drained(struct worker *w)
{
	if (!w->amqp || w->broker_lost || !w->pg || exact_session_lost(w->exact))
		return true;
	struct error err = { 0 };
	if (!w->cancelled) {
		w->cancelled = true;
		if (amqp_session_cancel(w->amqp, &err) != ST_OK)
			return true;
	}
	if (clock_mono_ms() >= atomic_load(&w->stop->fetch_until_ms))
		return true;
	serve_broker(w);
	switch (take_turn(w, &err)) {
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

static bool must_wait(struct worker *w)
{
	if (!in_probation(w))
		return false;
	if (clock_mono_ms() - w->started_ms > PROBATION_PATIENCE_MS && (!w->pg || !w->amqp))
		meet(w);
	return w->number > 1;
}

static void step(struct worker *w)
{
	if (consumer_is_closed(w)) {
		leave_broker(w);
		lose_database(w);
		pause_ms(w, 1000);
	} else if (must_wait(w)) {
		pause_ms(w, PROBATION_STEP_MS);
	} else if (held_too_long(w)) {
		log_warn(
			"held_too_long", LOG_INT("held", exact_held(w->exact)),
			LOG_STR("next", "the deliveries go back once; consuming goes on when PostgreSQL takes writes"));
		leave_broker(w);
		exact_detach(w->exact);
		w->must_test = true;
	} else if (have_database(w) && (w->parked || have_broker(w))) {
		turn(w);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	log_context(w->consumer->config->name, w->number);
	while (ordered(w) == STOP_NO)
		step(w);
	while (!must_end(w) && !drained(w))
		;
	leave_broker(w);
	lose_database(w);
	return NULL;
}

static void worker_destroy(struct worker *w)
{
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
		.max_attempts = config->max_attempts,
		.retry_min_ms = config->retry_min_ms,
		.retry_max_ms = config->retry_max_ms,
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
	w->process = context->process;
	w->stop = &context->stop;
	w->probation = &context->probation;
	w->started_ms = clock_mono_ms();
	w->number = number;
	snprintf(w->name, sizeof(w->name), "effectd/%s/%d", config->name, number);
	backoff_init(&w->pg_backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&w->amqp_backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&w->contention, CONTENTION_MIN_MS, CONTENTION_MAX_MS);
	w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	enum status st = w->wake_fd < 0 ? error_errno(err, ST_INTERNAL, errno, "eventfd") : ST_OK;
	const struct exact_params params = {
		.consumer = config->name,
		.batch_max = (size_t)config->batch_max,
		.batch_bytes = (size_t)config->batch_bytes,
		.retry_min_ms = config->retry_min_ms,
		.retry_max_ms = config->retry_max_ms,
		.max_attempts = config->max_attempts,
		.in_order = config->order == ORDER_QUEUE,
		.stop_on_dead = config->stop_on_dead,
		.counters = &consumer->counters,
	};
	if (st == ST_OK)
		st = plugin_instance_create(&w->instance, consumer->plugin, config->name, consumer->settings,
					    config->settings.count, err);
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
	const int64_t rest_ms = deadline_ms - clock_mono_ms();
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	const int64_t ns = until.tv_nsec + (rest_ms > 0 ? rest_ms : 0) % 1000 * 1000000;
	until.tv_sec += (rest_ms > 0 ? rest_ms : 0) / 1000 + ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	if (pthread_timedjoin_np(w->thread, NULL, &until) != 0)
		return false;
	worker_destroy(w);
	return true;
}

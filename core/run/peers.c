/* The worker's two connections: made again with backoff when they are lost, PostgreSQL first. A channel is never closed
 * in order to wait; each return of a delivery counts against a quorum queue's delivery limit. */
#include "base/log.h"
#include "pg/migrate.h"
#include "pg/sqlstate.h"
#include "run/loop.h"
#include "run/params.h"

enum { LASTED_MS = 5000 /* a session that lived so long is no part of a row of failures */ };

void worker_lose_database(struct worker *w)
{
	pg_session_destroy(w->pg);
	w->pg = NULL;
}

/* The deliveries go back with the channel: the broker sends them again, and the claims tell which were applied. */
void worker_leave_broker(struct worker *w)
{
	struct error ignored;
	exact_give_back(w->exact);
	if (w->queue && queue_source_attach(w->queue, NULL, &ignored) != ST_OK)
		log_debug("queue_detach_failed", LOG_ERR(&ignored));
	amqp_session_destroy(w->amqp);
	w->amqp = NULL;
	worker_consumes(w, false);
	w->broker_lost = w->cancelled = false;
	w->held_since_ms = 0;
}

bool worker_is_program_fault(enum status st, const struct error *err)
{
	return st == ST_INVALID || (st == ST_REFUSED && pg_sqlstate_kind(err).class != FAULT_ENVIRONMENT);
}

static void count_session(struct worker *w, enum peer peer)
{
	if (w->had[peer])
		counter_add(&w->consumer->counters.reconnects[peer], 1);
	w->had[peer] = true;
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

/* Connects to PostgreSQL and hands the session to the heart: the test that consuming makes sense. */
bool worker_have_database(struct worker *w)
{
	if (w->pg && !exact_session_lost(w->exact))
		return true;
	worker_lose_database(w);
	struct pg_params params;
	struct error err = { 0 };
	params_of_database(w->consumer->config->database, w->process, w->name, &params);
	enum status st = pg_session_open(&w->pg, &params, &w->waiter, &err);
	if (st == ST_OK)
		st = migrate_require(w->pg, &err);
	w->schema_wrong = w->pg && worker_is_program_fault(st, &err);
	if (st == ST_OK && w->must_test)
		st = test_write(w, &err);
	if (st == ST_OK)
		st = consumer_host(w->consumer, w->pg, true, &err);
	if (st == ST_OK && w->trial) {
		worker_try_again(w);
		return false;
	}
	if (st == ST_OK)
		st = exact_attach(w->exact, w->pg, &err);
	if (st == ST_OK) {
		w->must_test = false;
		if (exact_held(w->exact) == 0)
			w->held_since_ms = 0;
		count_session(w, PEER_DATABASE);
		if (w->pg_backoff.failures > 0)
			log_info("database_is_back", LOG_INT("failures", w->pg_backoff.failures));
		return true; /* the backoff goes on until a turn worked: a session may die of each batch */
	}
	if (st == ST_STOPPED)
		return false;
	if (worker_is_program_fault(st, &err)) {
		worker_close_consumer(w, false, &err);
		return false;
	}
	worker_lose_database(w);
	w->trial_fails = false;
	/* Nothing was in hand when it went, maybe; what the broker has sent or sends now waits all the same. */
	if (w->amqp && w->held_since_ms == 0)
		w->held_since_ms = clock_mono_ms();
	const int64_t wait_ms = backoff_next_ms(&w->pg_backoff);
	if (exact_misses_day(w->exact))
		consumer_miss_day(w->consumer);
	log_warn(exact_misses_day(w->exact) ? "claim_days_missing" : "database_unavailable", LOG_ERR(&err),
		 LOG_INT("retry_ms", wait_ms), LOG_INT("held", exact_held(w->exact)));
	worker_pause(w, wait_ms);
	return false;
}

/* Opens a channel: in probation for one delivery at a time, else for as many as configured. */
static enum status consume(struct worker *w, struct error *err)
{
	const struct config_consumer *config = w->consumer->config;
	struct consume_params params;
	enum status st = params_of_consume(config, w->name, &params, err);
	w->careful = worker_in_probation(w);
	w->consuming_ms = w->heard_ms = clock_mono_ms();
	w->cancelled = false;
	worker_stall_begin(w);
	if (w->careful)
		params.consume.prefetch = 1;
	worker_consumes(w, true); /* before it does, so that nobody who gives back overlooks it */
	if (st == ST_OK)
		st = amqp_session_consume(w->amqp, &params.consume, err);
	if (st == ST_OK)
		st = queue_source_attach(w->queue, w->amqp, err);
	if (st == ST_OK)
		log_info("consuming", LOG_STR("queue", config->queue), LOG_INT("prefetch", params.consume.prefetch));
	consume_params_finish(&params);
	return st;
}

/* Probation is over: what the broker sent until now is applied, then a new channel gets the full prefetch. Where order
 * counts nothing is cancelled, see worker_keeps_order(): the one delivery goes back with the channel. */
static enum status leave_probation(struct worker *w, struct error *err)
{
	const bool ordered = worker_keeps_order(w);
	if (!w->cancelled && !ordered) {
		w->cancelled = true;
		const enum status st = amqp_session_cancel(w->amqp, err);
		if (st != ST_OK)
			return st;
	}
	const bool rest = !ordered && (!amqp_session_cancelled(w->amqp) || amqp_session_peek(w->amqp));
	if (rest || exact_held(w->exact) > 0)
		return ST_OK; /* not yet */
	enum status st = queue_source_attach(w->queue, NULL, err);
	if (st == ST_OK)
		st = amqp_session_close_channel(w->amqp, err);
	if (st == ST_OK)
		st = consume(w, err);
	return st;
}

/* True: it broke soon after it was made, maybe by what it delivers, and has waited already. Without that the broker
 * would be asked for the same again and again, and each time counts against the delivery limit. */
static bool lose_broker(struct worker *w)
{
	const bool lasted = clock_mono_ms() - w->consuming_ms >= LASTED_MS;
	log_warn("broker_lost", LOG_ERR(&w->broker_error), LOG_INT("code", w->broker_error.code));
	worker_leave_broker(w);
	if (lasted)
		backoff_reset(&w->amqp_backoff);
	else
		worker_pause(w, backoff_next_ms(&w->amqp_backoff));
	return !lasted;
}

bool worker_have_broker(struct worker *w)
{
	struct error err = { 0 };
	if (w->amqp && !w->broker_lost && w->careful && !worker_in_probation(w) &&
	    leave_probation(w, &w->broker_error) != ST_OK)
		w->broker_lost = true;
	if (w->amqp && !w->broker_lost)
		return true;
	if (w->amqp && lose_broker(w))
		return false;
	struct amqp_params params;
	params_of_broker(w->consumer->config->broker, w->name, &params);
	enum status st = amqp_session_open(&w->amqp, &params, &w->waiter, &err);
	if (st == ST_OK)
		st = consume(w, &err);
	if (st == ST_OK) {
		count_session(w, PEER_BROKER);
		return true; /* the backoff goes on until it lasts */
	}
	worker_leave_broker(w);
	if (st == ST_STOPPED)
		return false;
	if (amqp_is_program_fault(st, &err)) {
		worker_close_consumer(w, false, &err);
		return false;
	}
	const int64_t wait_ms = backoff_next_ms(&w->amqp_backoff);
	log_warn("broker_unavailable", LOG_ERR(&err), LOG_INT("code", err.code), LOG_INT("retry_ms", wait_ms));
	worker_pause(w, wait_ms);
	return false;
}

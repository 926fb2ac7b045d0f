/* A consumer that the broker counts as there and gives nothing, though messages are ready: known of brokers that moved
 * a queue, or deleted it and made it again. Heartbeats go on, no error comes; only a new channel helps.
 *
 * After a heartbeat's time without a delivery the queue is asked how many messages are ready. Once means nothing, they
 * may be on their way; twice in a row with nothing delivered between is a stall. */
#include "base/log.h"
#include "run/loop.h"

enum {
	SELDOM_MS = 5 * 60 * 1000, /* a reconnect that did not help, again and again */
	NOT_FOUND = 404,
};

static void ask_later(struct worker *w)
{
	const unsigned doubled = w->stall.in_a_row < 8 ? w->stall.in_a_row : 8;
	w->stall.ask_ms = clock_mono_ms() + earlier(w->consumer->config->broker->heartbeat_ms << doubled, SELDOM_MS);
}

void worker_stall_begin(struct worker *w)
{
	w->stall.fed = w->stall.suspicious = false;
	ask_later(w);
}

static void all_is_well(struct worker *w)
{
	w->stall.suspicious = w->stall.stalled = false;
	w->stall.in_a_row = 0;
	ask_later(w);
}

void worker_stall_fed(struct worker *w)
{
	w->stall.fed = true;
	all_is_well(w);
}

/* Probation has a patience of its own. Where one consumer of several gets everything, the others never got anything. */
static bool may_stall(const struct worker *w)
{
	return w->amqp && !w->broker_lost && !w->careful && exact_held(w->exact) == 0 &&
	       (w->stall.fed || w->consumer->config->order != ORDER_QUEUE);
}

int64_t worker_stall_wake_ms(const struct worker *w)
{
	return may_stall(w) ? w->stall.ask_ms : WAIT_FOREVER;
}

static void reconnect(struct worker *w, uint32_t ready)
{
	error_set(&w->broker_error, ST_UNAVAILABLE, "%u messages are ready in queue %s, and none is delivered", ready,
		  w->consumer->config->queue);
	log_warn("stalled", LOG_STR("queue", w->consumer->config->queue), LOG_INT("ready", ready),
		 LOG_INT("times", w->stall.in_a_row + 1));
	w->stall.stalled = true;
	w->stall.in_a_row++;
	w->broker_lost = true;
}

void worker_stall_look(struct worker *w)
{
	if (clock_mono_ms() < worker_stall_wake_ms(w) || amqp_session_peek(w->amqp))
		return;
	struct error err = { 0 };
	uint32_t ready;
	const enum status st = amqp_session_ready(w->amqp, w->consumer->config->queue, &ready, &err);
	if (st == ST_REFUSED && err.code != NOT_FOUND) {
		log_debug("not_asked_for_stall", LOG_ERR(&err));
		ask_later(w);
	} else if (st != ST_OK) {
		w->broker_error = err;
		w->broker_lost = true;
	} else if (amqp_session_peek(w->amqp) || ready == 0) {
		all_is_well(w);
	} else if (!w->stall.suspicious) {
		w->stall.suspicious = true;
		ask_later(w);
	} else {
		reconnect(w, ready);
	}
}

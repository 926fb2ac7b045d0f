/* Deliveries that go back, and what must be true before their worker consumes again. Each return counts against a
 * quorum queue's delivery limit, so a fault that lasts may cost one return and no more: before the channel is closed no
 * worker of the consumer gets deliveries any more, and before a channel is opened again a copy of what failed is tried,
 * without the broker. */
#include "base/log.h"
#include "run/loop.h"

enum {
	ROUND_MS = 2000, /* for all workers of the consumer to stop consuming; their loops turn more often than that */
	LOOK_MS = 20,
	ARRIVE_MS = 250, /* for deliveries under way: one that meets a cancelled consumer counts as returned as well */
	STAND_BACK_MS = 200,
};

/* Some worker gave back what the consumer cannot apply now, and has not found yet that it can. */
static bool is_called_off(const struct worker *w)
{
	return w->queue && !w->trial && atomic_load_explicit(&w->consumer->trials, memory_order_relaxed) > 0;
}

void worker_consumes(struct worker *w, bool consumes)
{
	if (consumes != w->consumes)
		atomic_fetch_add(&w->consumer->consuming, consumes ? 1 : -1);
	w->consumes = consumes;
}

static void stop_consuming(struct worker *w, int64_t deadline_ms)
{
	struct error ignored;
	if (!w->amqp || w->broker_lost || w->cancelled)
		return;
	if (worker_poll(w, -1, 0, clock_mono_ms() + ARRIVE_MS, false) < 0 || w->broker_lost)
		return;
	w->cancelled = true;
	if (amqp_session_cancel(w->amqp, &ignored) != ST_OK)
		return;
	while (!w->broker_lost && !amqp_session_cancelled(w->amqp) && clock_mono_ms() < deadline_ms)
		if (worker_poll(w, -1, 0, clock_mono_ms() + LOOK_MS, false) < 0)
			return;
}

static void keep_for_trial(struct worker *w)
{
	struct error err = { 0 };
	if (!w->queue || w->trial)
		return;
	if (trial_create(&w->trial, w->exact, &err) != ST_OK)
		log_warn("no_trial", LOG_ERR(&err));
	if (w->trial)
		atomic_fetch_add(&w->consumer->trials, 1);
}

void worker_end_trial(struct worker *w)
{
	if (w->trial)
		atomic_fetch_sub(&w->consumer->trials, 1);
	trial_destroy(w->trial);
	w->trial = NULL;
	w->trial_fails = false;
}

void worker_give_back(struct worker *w)
{
	const int64_t deadline = clock_mono_ms() + ROUND_MS;
	keep_for_trial(w);
	stop_consuming(w, deadline);
	worker_consumes(w, false);
	while (w->amqp && atomic_load(&w->consumer->consuming) > 0 && clock_mono_ms() < deadline &&
	       worker_ordered(w) == STOP_NO)
		if (worker_poll(w, -1, 0, clock_mono_ms() + LOOK_MS, false) < 0)
			break;
	if (w->amqp)
		log_debug("given_back", LOG_INT("held", exact_held(w->exact)),
			  LOG_INT("consuming", atomic_load(&w->consumer->consuming)));
	worker_leave_broker(w);
	w->must_test = true;
}

bool worker_should_leave(const struct worker *w)
{
	if (!w->amqp)
		return false;
	return worker_consumer_is_closed(w) ||
	       (is_called_off(w) && exact_held(w->exact) == 0 && !amqp_session_peek(w->amqp));
}

/* Who has nothing in hand stops consuming, who cannot apply what he has gives it back as well; who can goes on. */
bool worker_stands_back(struct worker *w)
{
	if (!is_called_off(w))
		return false;
	if (w->held_since_ms != 0)
		worker_give_back(w);
	else if (worker_should_leave(w))
		worker_leave_broker(w);
	if (w->amqp)
		return false;
	worker_pause(w, STAND_BACK_MS);
	return true;
}

/* The session is used up by a trial, whatever comes of it. */
void worker_try_again(struct worker *w)
{
	struct error err = { 0 };
	if (pthread_mutex_trylock(&w->probation->inside) != 0) { /* somebody must be alone inside plugin code */
		worker_lose_database(w);
		worker_pause(w, LOOK_MS);
		return;
	}
	const enum status st = trial_attach(w->trial, w->pg, &err);
	const enum exact_result result = st == ST_OK                         ? trial_turn(w->trial, &err)
					 : st == ST_STOPPED                  ? EXACT_STOPPED
					 : worker_is_program_fault(st, &err) ? EXACT_PROGRAM
									     : EXACT_ENVIRONMENT;
	pthread_mutex_unlock(&w->probation->inside);
	worker_lose_database(w);
	switch (result) {
	case EXACT_STOPPED:
		return;
	case EXACT_PROGRAM:
	case EXACT_BROKEN:
		worker_close_consumer(w, result == EXACT_BROKEN, &err);
		return;
	case EXACT_CONTENDED:
	case EXACT_ENVIRONMENT: {
		w->trial_fails = true;
		if (trial_misses_day(w->trial))
			consumer_miss_day(w->consumer);
		const int64_t wait_ms = backoff_next_ms(&w->pg_backoff);
		log_warn("still_failing", LOG_ERR(&err), LOG_INT("retry_ms", wait_ms));
		worker_pause(w, wait_ms);
		return;
	}
	default:
		log_info("trial_passed");
		worker_end_trial(w);
	}
}

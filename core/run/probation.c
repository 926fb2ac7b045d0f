/* Probation, after a start: maybe the process before this one died of a message, which is among those that come again
 * now. One delivery at a time is inside plugin code, counted before it goes in, so that each crash names its message.
 *
 * A suspect, which was inside when a process died before, waits until every other consumer has met a fresh message or
 * an empty queue: when it kills this process as well, hardly anything goes back to a queue with it. Parked messages are
 * counted always; a suspect among them is applied after probation, while no other worker takes a turn. */
#include "base/log.h"
#include "run/loop.h"
#include "source/journal.h"

enum {
	STEP_MS = 5,                   /* for whoever waits for another worker's turn */
	QUIET_MS = 100,                /* nothing came for so long: is the queue empty? */
	SUSPECT_PATIENCE_MS = 10000,   /* of a suspect, for other consumers */
	PROBATION_PATIENCE_MS = 10000, /* for a consumer that gets nothing, or whose servers are away */
};

bool worker_in_probation(const struct worker *w)
{
	return atomic_load_explicit(&w->probation->left, memory_order_relaxed) > 0;
}

static void set_suspect(struct worker *w, bool suspect)
{
	if (suspect && w->suspect_since_ms == 0) {
		w->suspect_since_ms = clock_mono_ms();
		atomic_fetch_add(&w->probation->suspects, 1);
	} else if (!suspect && w->suspect_since_ms != 0) {
		w->suspect_since_ms = 0;
		atomic_fetch_sub(&w->probation->suspects, 1);
	}
}

void worker_drop_suspect(struct worker *w)
{
	set_suspect(w, false);
}

void worker_meet(struct worker *w)
{
	set_suspect(w, false);
	if (!atomic_exchange(&w->consumer->met, true) && atomic_fetch_sub(&w->probation->left, 1) == 1)
		log_debug("probation_over");
}

/* All consumers that did not meet what ends probation stand before a suspect of theirs, like this one. */
static bool may_suspect_go(const struct worker *w)
{
	return w->suspect_since_ms != 0 && (atomic_load(&w->probation->suspects) >= atomic_load(&w->probation->left) ||
					    clock_mono_ms() - w->suspect_since_ms > SUSPECT_PATIENCE_MS);
}

void worker_sweep_journal(struct worker *w)
{
	struct error err = { 0 };
	if (w->pg && !exact_session_lost(w->exact) && journal_sweep(w->pg, w->consumer->config->name, &err) != ST_OK)
		log_debug("journal_not_swept", LOG_ERR(&err));
}

static bool take_careful_turn(struct worker *w, enum exact_result *ret, struct error *err)
{
	if (pthread_mutex_trylock(&w->probation->inside) != 0)
		return false;
	const struct amqp_delivery *next = w->amqp ? amqp_session_peek(w->amqp) : NULL;
	const bool fresh = next && !next->redelivered;
	exact_set_care(w->exact, may_suspect_go(w) ? CARE_ALL : CARE_NO_SUSPECTS);
	*ret = exact_turn(w->exact, err);
	if (w->queue)
		set_suspect(w, *ret == EXACT_SUSPECT && !atomic_load(&w->consumer->met));
	if (*ret == EXACT_WORKED)
		w->heard_ms = clock_mono_ms();
	if (fresh && *ret == EXACT_WORKED && exact_held(w->exact) == 0)
		worker_meet(w);
	pthread_mutex_unlock(&w->probation->inside);
	return *ret != EXACT_SUSPECT;
}

/* A parked suspect: waits until nobody takes a turn, and nobody begins one before it came out. */
static bool take_turn_alone(struct worker *w, enum exact_result *ret, struct error *err)
{
	if (pthread_mutex_trylock(&w->probation->inside) != 0)
		return false;
	atomic_store(&w->probation->alone, true);
	bool patient = true;
	while (patient && atomic_load(&w->probation->turns) > 0)
		patient = worker_poll(w, -1, 0, clock_mono_ms() + STEP_MS, false) >= 0;
	if (patient) {
		exact_set_care(w->exact, CARE_ALL);
		*ret = exact_turn(w->exact, err);
		w->parked_suspect = false;
	}
	atomic_store(&w->probation->alone, false);
	pthread_mutex_unlock(&w->probation->inside);
	return patient;
}

static bool take_common_turn(struct worker *w, enum exact_result *ret, struct error *err)
{
	struct probation *p = w->probation;
	atomic_fetch_add(&p->turns, 1);
	const bool may = !atomic_load(&p->alone);
	if (may) {
		exact_set_care(w->exact, w->parked ? CARE_NO_SUSPECTS : CARE_NONE);
		*ret = exact_turn(w->exact, err);
	}
	atomic_fetch_sub(&p->turns, 1);
	w->parked_suspect = may && *ret == EXACT_SUSPECT;
	return may && *ret != EXACT_SUSPECT;
}

bool worker_take_turn(struct worker *w, enum exact_result *ret, struct error *err)
{
	*ret = EXACT_IDLE;
	const bool taken = worker_in_probation(w) ? take_careful_turn(w, ret, err)
			   : w->parked_suspect    ? take_turn_alone(w, ret, err)
						  : take_common_turn(w, ret, err);
	if (!taken)
		worker_poll(w, -1, 0, clock_mono_ms() + STEP_MS, false);
	return taken;
}

bool worker_must_wait(struct worker *w)
{
	if (!worker_in_probation(w))
		return false;
	if (clock_mono_ms() - w->heard_ms > PROBATION_PATIENCE_MS && (!w->pg || !w->amqp))
		worker_meet(w);
	if (w->number > 1)
		worker_pause(w, STEP_MS);
	return w->number > 1;
}

int64_t worker_quiet_ms(const struct worker *w)
{
	return w->careful && w->amqp ? clock_mono_ms() + QUIET_MS : WAIT_FOREVER;
}

/* A queue of which another process gets everything, as a single active consumer, is never seen empty. */
void worker_meet_quiet(struct worker *w)
{
	struct error err = { 0 };
	uint32_t messages;
	if (!w->careful || !w->amqp || w->broker_lost || !worker_in_probation(w) || exact_held(w->exact) > 0 ||
	    amqp_session_peek(w->amqp) ||
	    amqp_session_ready(w->amqp, w->consumer->config->queue, &messages, &err) != ST_OK ||
	    amqp_session_peek(w->amqp))
		return;
	if (messages > 0 && clock_mono_ms() - w->heard_ms < PROBATION_PATIENCE_MS)
		return;
	/* Whoever is inside plugin code now was counted, and must come out before others go in uncounted. */
	if (pthread_mutex_trylock(&w->probation->inside) == 0) {
		worker_meet(w);
		pthread_mutex_unlock(&w->probation->inside);
	}
}

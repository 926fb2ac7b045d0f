/* What a worker shows of itself: worked out anew from where it stands, at each turn of its loop and of its waits. */
#include "run/loop.h"

static enum worker_state state_of(const struct worker *w)
{
	if (worker_ordered(w) != STOP_NO)
		return WORKER_DRAINING;
	if (atomic_load_explicit(&w->consumer->broken, memory_order_relaxed))
		return WORKER_BROKEN;
	if (worker_consumer_is_closed(w) || w->stopped_on_dead)
		return WORKER_CLOSED;
	if (w->number > 1 && worker_in_probation(w))
		return WORKER_PROBATION;
	if (w->trial_fails)
		return WORKER_TRYING;
	return w->held_since_ms && exact_held(w->exact) > 0 ? WORKER_HOLDING : WORKER_RUNNING;
}

void worker_show(struct worker *w)
{
	struct vitals *v = &w->consumer->vitals[w->number];
	vitals_tick(v);
	vitals_set_state(v, state_of(w));
	vitals_set_connected(v, PEER_BROKER, w->amqp && !w->broker_lost && amqp_session_epoch(w->amqp) != 0);
	vitals_set_connected(v, PEER_DATABASE, w->pg && !exact_session_lost(w->exact));
	atomic_store_explicit(&v->schema_wrong, w->schema_wrong, memory_order_relaxed);
	atomic_store_explicit(&v->stalled, w->stall.stalled, memory_order_relaxed);
	atomic_store_explicit(&v->day_missing, exact_misses_day(w->exact), memory_order_relaxed);
	atomic_store_explicit(&v->inflight, exact_held(w->exact), memory_order_relaxed);
}

void worker_show_end(struct worker *w)
{
	worker_show(w);
	vitals_set_state(&w->consumer->vitals[w->number], WORKER_ENDED);
}

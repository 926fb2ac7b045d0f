/* When a consumer must not go on as usual: a fault of the program closes it for all its workers; probation, after a
 * start, lets it take one delivery at a time. */
#include "base/log.h"
#include "run/loop.h"

enum {
	CLOSED_MIN_MS = 30 * 1000, /* a fault of the program: a person must act, so look now and then */
	CLOSED_MAX_MS = 5 * 60 * 1000,
};

bool worker_in_probation(const struct worker *w)
{
	return atomic_load_explicit(&w->probation->left, memory_order_relaxed) > 0;
}

/* This consumer needs probation no longer; with the last one it is over. */
void worker_meet(struct worker *w)
{
	if (!atomic_exchange(&w->consumer->met, true) && atomic_fetch_sub(&w->probation->left, 1) == 1)
		log_debug("probation_over");
}

/* The program is wrong, not the messages: all workers of the consumer stop, the queue keeps everything. */
void worker_close_consumer(struct worker *w, bool for_good, const struct error *err)
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
	worker_leave_broker(w);
	worker_lose_database(w);
	worker_meet(w);
}

bool worker_consumer_is_closed(const struct worker *w)
{
	return atomic_load(&w->consumer->broken) || clock_mono_ms() < atomic_load(&w->consumer->closed_until_ms);
}

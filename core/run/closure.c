/* When a consumer must not go on: a fault of the program closes it for all its workers; stop_on_dead stops the one that
 * consumes, until the parked message is applied or dropped. */
#include "base/log.h"
#include "run/loop.h"
#include <inttypes.h>

enum {
	CLOSED_MIN_MS = 30 * 1000, /* a fault of the program: a person must act, so look now and then */
	CLOSED_MAX_MS = 5 * 60 * 1000,
	PARKED_POLL_MS = 1000, /* a person has retried or dropped it: go on */
};

/* Closes the consumer for a while; false: another worker has done so already, for the same fault mostly. What each of
 * them finds counts once, else a consumer of many workers would wait the longest time after its first fault. */
static bool close_for_a_while(struct consumer *c, int64_t *ret_ms)
{
	const int64_t now = clock_mono_ms();
	int64_t until = atomic_load(&c->closed_until_ms);
	const unsigned closures = atomic_load(&c->closures);
	const int64_t ms = earlier(CLOSED_MIN_MS << (closures < 4 ? closures : 4), CLOSED_MAX_MS);
	if (now < until || !atomic_compare_exchange_strong(&c->closed_until_ms, &until, now + ms))
		return false;
	atomic_store(&c->closures, closures + 1);
	*ret_ms = ms;
	return true;
}

/* The program is wrong, not the messages: all workers of the consumer stop, the queue keeps everything. */
void worker_close_consumer(struct worker *w, bool for_good, const struct error *err)
{
	int64_t ms = 0;
	if (for_good) {
		atomic_store(&w->consumer->broken, true);
		log_error("consumer_broken", LOG_ERR(err),
			  LOG_STR("next", "mend the plugin or its configuration, then `effectd reload`"));
	} else if (close_for_a_while(w->consumer, &ms)) {
		log_error("consumer_closed", LOG_ERR(err), LOG_INT("next_try_s", ms / 1000),
			  LOG_STR("next",
				  "nothing is lost, the queue keeps its messages; mend what the error names, then "
				  "`effectd reload` does not wait"));
	} else {
		log_debug("consumer_is_closed", LOG_ERR(err));
	}
	worker_give_back(w);
	worker_lose_database(w);
	worker_meet(w);
}

bool worker_consumer_is_closed(const struct worker *w)
{
	return atomic_load(&w->consumer->broken) || clock_mono_ms() < atomic_load(&w->consumer->closed_until_ms);
}

/* The one that applies parked messages goes on: that is how it ends. */
void worker_stop_on_dead(struct worker *w, const struct error *err)
{
	log_error("stopped_on_dead", LOG_ERR(err),
		  LOG_STR("next", "nothing behind it is applied: `effectd parked list` shows it, retry or drop it"));
	w->stopped_on_dead = true;
	worker_leave_broker(w);
	worker_meet(w);
}

/* Asked before it consumes; what is parked later, by another process maybe, is seen by each transaction. */
bool worker_waits_for_parked(struct worker *w)
{
	static const char sql[] = "SELECT count(*) FROM effectd.parked_messages WHERE consumer = $1";
	if (!w->queue || w->amqp || !w->consumer->config->stop_on_dead)
		return false;
	struct error err = { 0 };
	struct pg_result result;
	const enum status st =
		pg_query(w->pg, sql, (const char *const[]){ w->consumer->config->name }, 1, &result, &err);
	if (st != ST_OK) {
		exact_detach(w->exact);
		return true;
	}
	const int64_t count = pg_value_int8(&result, 0, 0);
	if (count > 0 && !w->stopped_on_dead) {
		error_set(&err, ST_REFUSED, "%" PRId64 " messages are parked", count);
		worker_stop_on_dead(w, &err);
	} else if (count == 0 && w->stopped_on_dead) {
		log_info("nothing_is_parked");
		w->stopped_on_dead = false;
	}
	if (count > 0)
		worker_pause(w, PARKED_POLL_MS);
	return count > 0;
}

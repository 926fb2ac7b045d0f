/* Tells relays that rows for them were committed: those of this process at once, those of others by NOTIFY.
 *
 * NOTIFY is never part of an effect's transaction, where it would make commits wait for each other. It goes out in a
 * transaction of its own, at most once in 100 ms for each database of the process. One that is lost costs a relay its
 * slow poll. */
#include "base/log.h"
#include "run/loop.h"
#include "run/relays.h"

enum { NOTIFY_INTERVAL_MS = 100 };

static const char notify_sql[] = "NOTIFY " RELAY_CHANNEL;

static void notify(struct worker *w, int64_t now)
{
	const int64_t last = atomic_load(w->notified_ms);
	/* Has a sibling told it since our rows were committed? */
	if (last <= w->outbox_ms && now < last + NOTIFY_INTERVAL_MS) {
		w->notify_ms = last + NOTIFY_INTERVAL_MS;
		return;
	}
	w->notify_ms = WAIT_FOREVER;
	if (last > w->outbox_ms || exact_session_lost(w->exact))
		return;
	atomic_store(w->notified_ms, now);
	struct error err = { 0 };
	const enum status st = pg_query(w->pg, notify_sql, NULL, 0, NULL, &err);
	if (st == ST_OK)
		return;
	log_debug("notify_failed", LOG_ERR(&err));
	if (st != ST_REFUSED)
		exact_detach(w->exact);
}

void worker_tell_relays(struct worker *w)
{
	const uint64_t rows = counter_get(&w->consumer->counters.outbox_rows);
	const int64_t now = clock_mono_ms();
	if (rows != w->outbox_rows) {
		w->outbox_rows = rows;
		w->outbox_ms = now;
		if (w->notify_ms == WAIT_FOREVER)
			w->notify_ms = now;
		relays_wake(w->relays, w->consumer->config->database->name);
	}
	if (now >= w->notify_ms)
		notify(w, now);
}

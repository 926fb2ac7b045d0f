/* What metrics show of the database: counted now and then by the worker that applies parked messages, which has the
 * time, and never on the way of a delivery. */
#include "base/log.h"
#include "run/loop.h"
#include <string.h>

enum { COUNT_MS = 15 * 1000 /* as often as it is mostly scraped */ };

const char *const parked_status_names[PARKED_STATUS_COUNT] = { [PARKED_RETRY] = "retry", [PARKED_DEAD] = "dead" };

/* One row, also of nothing. */
static const char count_sql[] =
	"SELECT count(*) FILTER (WHERE status = 'retry'), count(*) FILTER (WHERE status = 'dead')"
	" FROM effectd.parked_messages WHERE consumer = $1";

void worker_count_parked(struct worker *w)
{
	struct consumer *c = w->consumer;
	struct error err = { 0 };
	struct pg_result r;
	if (!w->parked || clock_mono_ms() < w->count_parked_ms)
		return;
	w->count_parked_ms = clock_mono_ms() + COUNT_MS;
	if (pg_query(w->pg, count_sql, (const char *const[]){ c->config->name }, 1, &r, &err) != ST_OK) {
		log_debug("parked_not_counted", LOG_ERR(&err));
		return;
	}
	for (int i = 0; i < PARKED_STATUS_COUNT; i++)
		atomic_store_explicit(&c->parked[i], (uint64_t)pg_value_int8(&r, 0, i), memory_order_relaxed);
	atomic_store_explicit(&c->parked_known, true, memory_order_release);
}

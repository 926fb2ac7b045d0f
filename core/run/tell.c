#include "run/tell.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "relay/relay.h"

enum { NOTIFY_INTERVAL_MS = 100 };

static const char notify_sql[] = "NOTIFY " RELAY_CHANNEL;

void tell_init(struct tell *t, const struct consumer_counters *counters, _Atomic int64_t *notified_ms)
{
	*t = (struct tell){ .counters = counters, .notified_ms = notified_ms, .notify_ms = WAIT_FOREVER };
}

bool tell_look(struct tell *t)
{
	const uint64_t rows = counter_get(&t->counters->outbox_rows);
	if (rows == t->rows)
		return false;
	t->rows = rows;
	t->rows_ms = clock_mono_ms();
	if (t->notify_ms == WAIT_FOREVER)
		t->notify_ms = t->rows_ms;
	return true;
}

void tell_notify(struct tell *t, struct pg_session *s, struct exact *exact)
{
	const int64_t now = clock_mono_ms();
	if (now < t->notify_ms)
		return;
	int64_t last = atomic_load(t->notified_ms);
	do { /* again when a sibling, who wakes at the same time, was faster */
		/* Has a sibling told it since our rows were committed? */
		if (last <= t->rows_ms && now < last + NOTIFY_INTERVAL_MS) {
			t->notify_ms = last + NOTIFY_INTERVAL_MS;
			return;
		}
		t->notify_ms = WAIT_FOREVER;
		if (last > t->rows_ms || exact_session_lost(exact))
			return;
	} while (!atomic_compare_exchange_weak(t->notified_ms, &last, now));
	struct error err = { 0 };
	const enum status st = pg_query(s, notify_sql, NULL, 0, NULL, &err);
	if (st == ST_OK)
		return;
	log_debug("notify_failed", LOG_ERR(&err));
	if (st != ST_REFUSED)
		exact_detach(exact);
}

void tell_rest(struct tell *t, struct pg_session *s, struct exact *exact)
{
	(void)tell_look(t);
	while (t->notify_ms != WAIT_FOREVER && !exact_session_lost(exact)) {
		const int64_t rest_ms = t->notify_ms - clock_mono_ms();
		(void)poll(NULL, 0, rest_ms > 0 ? (int)rest_ms : 0);
		tell_notify(t, s, exact);
	}
}

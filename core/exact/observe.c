/* What the heart measures. The clock is read a few times a transaction, never for each message. */
#include "base/clock.h"
#include "base/log.h"
#include "exact/heart.h"

enum { SLOW_PLUGIN_US = 1000000 }; /* locks and the transaction are held meanwhile */

void observe_begin(struct exact *x)
{
	x->begun_us = clock_mono_us();
	x->asked_us = 0;
	x->outbox_rows = 0;
}

void observe_claims(struct exact *x)
{
	counters_observe(x->params.counters, DISTRIBUTION_CLAIM_WAIT, clock_mono_us() - x->begun_us);
}

void observe_plugin(struct exact *x, size_t messages, int64_t took_us)
{
	counters_observe(x->params.counters, DISTRIBUTION_PLUGIN, took_us);
	if (took_us > SLOW_PLUGIN_US)
		log_warn("plugin_slow", LOG_INT("ms", took_us / 1000), LOG_INT("messages", messages),
			 LOG_STR("next", "slow work does not belong into the transaction: use the outbox, or a smaller "
					 "batch_max"));
}

/* The message's timestamp stands in for an event time only where the plugin had the properties decoded anyway. */
static int64_t event_ms(const struct item *item)
{
	const struct properties *properties = item->d->message.decoded;
	if (item->event_ms)
		return item->event_ms;
	return properties && properties->has_timestamp ? properties->timestamp_s * 1000 : 0;
}

void observe_commit(struct exact *x, size_t n)
{
	counters_observe(x->params.counters, DISTRIBUTION_TRANSACTION, clock_mono_us() - x->begun_us);
	counters_observe(x->params.counters, DISTRIBUTION_BATCH_SIZE, (int64_t)n);
	if (x->outbox_rows > 0)
		counter_add(&x->params.counters->outbox_rows, x->outbox_rows);
	const int64_t now_ms = clock_real_us() / 1000;
	for (size_t i = 0; i < n; i++) {
		const int64_t at_ms = event_ms(x->set[i]);
		if (at_ms && x->set[i]->outcome == OUTCOME_APPLIED)
			counters_observe(x->params.counters, DISTRIBUTION_EVENT_AGE, now_ms - at_ms);
	}
}

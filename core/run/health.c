#include "run/health.h"
#include "base/clock.h"
#include "run/outbox_metrics.h"
#include "run/worker.h"
#include <inttypes.h>

static bool is_stuck(const struct view *view, const struct vitals *v)
{
	return atomic_load((_Atomic int64_t *)&v->silent_ms) > view->config->process.watchdog_ms;
}

bool health_is_live(const struct view *view, struct buffer *out)
{
	const size_t before = out->len;
	const int64_t unwatched_ms = clock_mono_ms() - atomic_load((_Atomic int64_t *)&view->looked_ms);
	if (unwatched_ms > view->config->process.watchdog_ms)
		buffer_printf(out, "stuck: the main thread did nothing for %" PRId64 " s\n", unwatched_ms / 1000);
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		for (size_t number = 0; number < consumer_vitals_count(c); number++)
			if (is_stuck(view, &c->vitals[number]))
				buffer_printf(out,
					      "stuck: consumer %s, worker %zu: its loop did not turn for longer than "
					      "the watchdog allows\n",
					      c->config->name, number);
	}
	outbox_stuck(view, out);
	return out->len == before;
}

/* Why one worker does not do its work. */

static bool stuck(const struct view *view, const struct consumer *c, size_t number)
{
	return is_stuck(view, &c->vitals[number]);
}

static bool schema(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return atomic_load((_Atomic bool *)&c->vitals[number].schema_wrong);
}

static bool days(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return atomic_load((_Atomic bool *)&c->vitals[number].day_missing);
}

static bool reloading(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	(void)number;
	return atomic_load((_Atomic int *)&c->stop.order) != STOP_NO;
}

static bool broken(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	(void)number;
	return atomic_load((_Atomic bool *)&c->broken);
}

static bool closed(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return vitals_state(&c->vitals[number]) == WORKER_CLOSED;
}

static bool database(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return vitals_state(&c->vitals[number]) != WORKER_PROBATION &&
	       !vitals_connected(&c->vitals[number], PEER_DATABASE);
}

static bool trying(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return vitals_state(&c->vitals[number]) == WORKER_TRYING;
}

static bool holding(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return vitals_state(&c->vitals[number]) == WORKER_HOLDING;
}

static bool stalled(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return atomic_load((_Atomic bool *)&c->vitals[number].stalled);
}

static bool broker(const struct view *view, const struct consumer *c, size_t number)
{
	(void)view;
	return number != WORKER_RETRY && vitals_state(&c->vitals[number]) != WORKER_PROBATION &&
	       !vitals_connected(&c->vitals[number], PEER_BROKER);
}

/* One line to add one. The first that holds for a worker is its reason; words are stable. */
static const struct {
	const char *word;
	bool (*holds)(const struct view *view, const struct consumer *c, size_t number);
	const char *sentence;
} reasons[] = {
	{ "stuck", stuck, "its loop did not turn for longer than the watchdog allows" },
	{ "reloading", reloading, "a reload stops it or starts it anew" },
	{ "schema", schema, "effectd's tables are not what it needs: `effectd migrate status` tells" },
	{ "days", days,
	  "days of claims are missing, its work waits: `effectd retention --once` makes them or tells why" },
	{ "broken", broken, "the plugin broke the rules: mend it, then reload; the log tells what" },
	{ "closed", closed, "a fault of the program stopped it, it tries again now and then; the log tells what" },
	{ "trying", trying,
	  "PostgreSQL refuses the work, its deliveries went back, a copy of one is tried; the log tells why" },
	{ "database", database, "no session with PostgreSQL" },
	{ "holding", holding, "PostgreSQL refuses the work, its deliveries are held; the log tells why" },
	{ "stalled", stalled, "messages are ready in its queue, RabbitMQ delivers none; it connected again for that" },
	{ "broker", broker, "it does not consume from RabbitMQ" },
};

static void count_reasons(const struct view *view, const struct consumer *c, size_t counts[ARRAY_LEN(reasons)])
{
	for (size_t number = 0; number < consumer_vitals_count(c); number++) {
		size_t i = 0;
		while (i < ARRAY_LEN(reasons) && !reasons[i].holds(view, c, number))
			i++;
		if (i < ARRAY_LEN(reasons))
			counts[i]++;
	}
}

static void add_reasons(const struct view *view, const struct consumer *c, struct buffer *out)
{
	size_t counts[ARRAY_LEN(reasons)] = { 0 };
	count_reasons(view, c, counts);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (counts[i] > 0)
			buffer_printf(out, "%s: consumer %s, %zu of %zu workers: %s\n", reasons[i].word,
				      c->config->name, counts[i], consumer_vitals_count(c), reasons[i].sentence);
}

const char *health_consumer_word(const struct view *view, const struct consumer *c)
{
	size_t counts[ARRAY_LEN(reasons)] = { 0 };
	count_reasons(view, c, counts);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (counts[i] > 0)
			return reasons[i].word;
	for (size_t number = 0; number < consumer_vitals_count(c); number++)
		if (vitals_state(&c->vitals[number]) == WORKER_PROBATION)
			return "waiting";
	return "running";
}

bool health_is_ready(const struct view *view, struct buffer *out)
{
	const size_t before = out->len;
	if (atomic_load((_Atomic int *)&view->stop->order) != STOP_NO) {
		buffer_puts(out, "draining: effectd was told to stop\n");
		return false;
	}
	if (!view->started)
		buffer_puts(out, "starting: not all consumers are there yet\n");
	for (size_t i = 0; i < view->consumer_count; i++)
		add_reasons(view, view->consumers[i], out);
	outbox_reasons(view, out);
	return out->len == before;
}

#include "run/outbox_metrics.h"
#include "config/config.h"
#include "run/relays.h"
#include <inttypes.h>

struct each {
	const struct relay *relay;
	const struct relay_lane *lane;
	const struct relay_kind *kind;
};

/* The next kind of all lanes of all relays; begins with zeros. */
struct place {
	size_t relay, lane, kind;
};

static bool next_lane(const struct view *view, struct place *at, struct each *ret)
{
	for (; at->relay < view->relays->count; at->relay++, at->lane = 0) {
		const struct relay *relay = view->relays->list[at->relay].relay;
		if (at->lane < relay_lane_count(relay)) {
			*ret = (struct each){ relay, relay_lane(relay, at->lane++), NULL };
			return true;
		}
	}
	return false;
}

static bool next_kind(const struct view *view, struct place *at, struct each *ret)
{
	while (!ret->lane || at->kind == ret->lane->kind_count) {
		if (!next_lane(view, at, ret))
			return false;
		at->kind = 0;
	}
	ret->kind = &ret->lane->kinds[at->kind++];
	return true;
}

#define EACH_KIND(view, each)                                              \
	for (struct place at_ = { 0 }, *once_ = &at_; once_; once_ = NULL) \
		for (struct each each = { 0 }; next_kind(view, &at_, &each);)

#define EACH_LANE(view, each)                                              \
	for (struct place at_ = { 0 }, *once_ = &at_; once_; once_ = NULL) \
		for (struct each each = { 0 }; next_lane(view, &at_, &each);)

#define KIND_LABELS(each)                              \
	{ "relay", relay_config((each).relay)->name }, \
	{                                              \
		"kind", (each).kind->name              \
	}

void outbox_gauges(struct exposition *e, const struct view *view, int which)
{
	EACH_KIND(view, each)
	{
		const struct relay_kind *k = each.kind;
		const uint64_t values[] = {
			[OUTBOX_PENDING] = (uint64_t)atomic_load((_Atomic int64_t *)&k->pending),
			[OUTBOX_DEAD] = (uint64_t)atomic_load((_Atomic int64_t *)&k->dead),
			[OUTBOX_OLDEST] = (uint64_t)atomic_load((_Atomic int64_t *)&k->oldest_s),
			[OUTBOX_FENCED] = counter_get(&k->fenced),
		};
		exposition_sample(e, (const struct label[]){ KIND_LABELS(each) }, 2, values[which]);
	}
}

void outbox_calls(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	EACH_KIND(view, each)
	{
		for (size_t i = 0; i < RELAY_RESULT_COUNT; i++) {
			const struct label labels[] = { KIND_LABELS(each), { "outcome", relay_result_names[i] } };
			exposition_sample(e, labels, ARRAY_LEN(labels), counter_get(&each.kind->results[i]));
		}
	}
}

void outbox_seconds(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	EACH_KIND(view, each)
	{
		exposition_histogram(e, (const struct label[]){ KIND_LABELS(each) }, 2, &each.kind->seconds,
				     &relay_call_scale);
	}
}

void outbox_under_way(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	EACH_LANE(view, each)
	{
		const struct label labels[] = { { "relay", relay_config(each.relay)->name },
						{ "target", each.lane->target->name } };
		exposition_sample(e, labels, ARRAY_LEN(labels), counter_get(&each.lane->under_way));
	}
}

static enum relay_lane_state state_of(const struct relay_lane *lane)
{
	return (enum relay_lane_state)atomic_load((_Atomic int *)&lane->state);
}

static bool is_stuck(const struct view *view, const struct relay_lane *lane)
{
	return atomic_load((_Atomic int64_t *)&lane->silent_ms) > view->config->process.watchdog_ms;
}

void outbox_stuck(const struct view *view, struct buffer *out)
{
	EACH_LANE(view, each)
	{
		if (is_stuck(view, each.lane))
			buffer_printf(out,
				      "stuck: relay %s, target %s: its loop did not turn for longer than the watchdog "
				      "allows\n",
				      relay_config(each.relay)->name, each.lane->target->name);
	}
}

void outbox_reasons(const struct view *view, struct buffer *out)
{
	outbox_stuck(view, out);
	EACH_LANE(view, each)
	{
		if (!is_stuck(view, each.lane) && state_of(each.lane) == RELAY_NO_DATABASE)
			buffer_printf(out, "database: relay %s, target %s: no session with PostgreSQL\n",
				      relay_config(each.relay)->name, each.lane->target->name);
	}
}

void outbox_notes(const struct view *view, struct buffer *out)
{
	EACH_LANE(view, each)
	{
		if (state_of(each.lane) == RELAY_TARGET_AWAY)
			buffer_printf(
				out,
				"note: relay %s: rows wait for target %s, there is no session with its broker; the "
				"log (broker_lost) tells why\n",
				relay_config(each.relay)->name, each.lane->target->name);
		if (state_of(each.lane) == RELAY_TARGET_FAILS)
			buffer_printf(
				out, "note: relay %s: target %s fails, it gets one call at a time until one succeeds\n",
				relay_config(each.relay)->name, each.lane->target->name);
	}
	EACH_KIND(view, each)
	{
		const int64_t dead = atomic_load((_Atomic int64_t *)&each.kind->dead);
		if (dead > 0)
			buffer_printf(out,
				      "note: relay %s: %" PRId64 " dead outbox rows of kind %s: `effectd outbox list "
				      "--status dead` shows them\n",
				      relay_config(each.relay)->name, dead, each.kind->name);
	}
}

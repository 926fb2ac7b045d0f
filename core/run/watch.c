#include "run/watch.h"
#include "base/clock.h"
#include "plugin/instance.h"
#include "run/worker.h"

enum { LOOK_MS = 1000 };

/* What one worker looked like the last time. */
struct watched {
	uint64_t ticks, doing;
	int64_t inside_ms; /* the plugin, in this very call */
};

struct watch {
	struct view *view;
	int64_t watchdog_ms, interval_ms;
	int64_t looked_ms;
	struct watched *workers; /* of all consumers, one after another */
};

static const char *const function_names[] = {
	[PLUGIN_OUTSIDE] = "none",
	[PLUGIN_KEY] = "key",
	[PLUGIN_APPLY] = "apply",
	[PLUGIN_APPLY_BATCH] = "apply_batch",
};

enum status watch_create(struct watch **ret, struct view *view, int64_t watchdog_ms, struct error *err)
{
	size_t n = 0;
	for (size_t i = 0; i < view->consumer_count; i++)
		n += consumer_vitals_count(&view->consumers[i]);
	struct watch *w = calloc(1, sizeof(*w));
	if (!w)
		return error_oom(err);
	w->view = view;
	w->watchdog_ms = watchdog_ms;
	w->interval_ms = watchdog_ms / 4 < LOOK_MS ? watchdog_ms / 4 : LOOK_MS;
	w->looked_ms = clock_mono_ms();
	atomic_store(&view->looked_ms, w->looked_ms);
	w->workers = calloc(n + 1, sizeof(*w->workers));
	if (!w->workers) {
		watch_destroy(w);
		return error_oom(err);
	}
	*ret = w;
	return ST_OK;
}

void watch_destroy(struct watch *w)
{
	if (!w)
		return;
	free(w->workers);
	free(w);
}

int64_t watch_interval_ms(const struct watch *w)
{
	return w->interval_ms;
}

/* True: inside the plugin for too long. */
static bool look_at(const struct watch *w, struct vitals *v, struct watched *before, int64_t passed_ms)
{
	const uint64_t ticks = counter_get(&v->ticks), doing = counter_get(&v->doing);
	const bool silent = ticks == before->ticks && doing == before->doing && vitals_state(v) != WORKER_ENDED;
	const int64_t silent_ms = silent ? atomic_load(&v->silent_ms) + passed_ms : 0;
	atomic_store(&v->silent_ms, silent_ms);
	const bool inside = doing & ((1 << PLUGIN_FUNCTION_BITS) - 1);
	before->inside_ms = inside && doing == before->doing ? before->inside_ms + passed_ms : 0;
	before->ticks = ticks;
	before->doing = doing;
	return before->inside_ms >= w->watchdog_ms;
}

bool watch_look(struct watch *w, struct hang *ret)
{
	const int64_t now = clock_mono_ms();
	/* More than two intervals between two looks: this thread did not run, so neither did the others. */
	int64_t passed_ms = now - w->looked_ms;
	if (passed_ms > 2 * w->interval_ms)
		passed_ms = 2 * w->interval_ms;
	w->looked_ms = now;
	bool hangs = false;
	struct watched *watched = w->workers;
	for (size_t i = 0; i < w->view->consumer_count; i++) {
		const struct consumer *c = &w->view->consumers[i];
		for (size_t number = 0; number < consumer_vitals_count(c); number++, watched++) {
			if (!look_at(w, &c->vitals[number], watched, passed_ms))
				continue;
			hangs = true;
			*ret = (struct hang){
				.consumer = c->config->name,
				.function = function_names[watched->doing & ((1 << PLUGIN_FUNCTION_BITS) - 1)],
				.worker = (int)number,
				.ms = watched->inside_ms,
			};
		}
	}
	atomic_store(&w->view->looked_ms, now);
	return hangs;
}

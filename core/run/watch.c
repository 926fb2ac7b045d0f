#include "run/watch.h"
#include "base/clock.h"
#include "config/config.h"
#include "plugin/instance.h"
#include "run/relays.h"
#include "run/worker.h"

enum { LOOK_MS = 1000 };

struct watch {
	struct view *view;
	int64_t looked_ms;
};

static const char *const function_names[] = {
	[PLUGIN_OUTSIDE] = "none",
	[PLUGIN_KEY] = "key",
	[PLUGIN_APPLY] = "apply",
	[PLUGIN_APPLY_BATCH] = "apply_batch",
};

enum status watch_create(struct watch **ret, struct view *view, struct error *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	if (!w)
		return error_oom(err);
	w->view = view;
	w->looked_ms = clock_mono_ms();
	atomic_store(&view->looked_ms, w->looked_ms);
	*ret = w;
	return ST_OK;
}

void watch_destroy(struct watch *w)
{
	free(w);
}

int64_t watch_interval_ms(const struct watch *w)
{
	const int64_t quarter = w->view->config->process.watchdog_ms / 4;
	return quarter < LOOK_MS ? quarter : LOOK_MS;
}

/* True: inside the plugin for too long. */
static bool look_at(const struct watch *w, struct vitals *v, int64_t passed_ms)
{
	const uint64_t ticks = counter_get(&v->ticks), doing = counter_get(&v->doing);
	const bool silent = ticks == v->watched.ticks && doing == v->watched.doing && vitals_state(v) != WORKER_ENDED;
	const int64_t silent_ms = silent ? atomic_load(&v->silent_ms) + passed_ms : 0;
	atomic_store(&v->silent_ms, silent_ms);
	const bool inside = doing & ((1 << PLUGIN_FUNCTION_BITS) - 1);
	v->watched.inside_ms = inside && doing == v->watched.doing ? v->watched.inside_ms + passed_ms : 0;
	v->watched.ticks = ticks;
	v->watched.doing = doing;
	return v->watched.inside_ms >= w->view->config->process.watchdog_ms;
}

bool watch_look(struct watch *w, struct hang *ret)
{
	const int64_t now = clock_mono_ms();
	/* More than two intervals between two looks: this thread did not run, so neither did the others. */
	int64_t passed_ms = now - w->looked_ms;
	if (passed_ms > 2 * watch_interval_ms(w))
		passed_ms = 2 * watch_interval_ms(w);
	w->looked_ms = now;
	bool hangs = false;
	for (size_t i = 0; i < w->view->consumer_count; i++) {
		const struct consumer *c = w->view->consumers[i];
		for (size_t number = 0; number < consumer_vitals_count(c); number++) {
			if (!look_at(w, &c->vitals[number], passed_ms))
				continue;
			hangs = true;
			*ret = (struct hang){
				.consumer = c->config->name,
				.function = function_names[c->vitals[number].watched.doing &
							   ((1 << PLUGIN_FUNCTION_BITS) - 1)],
				.worker = (int)number,
				.ms = c->vitals[number].watched.inside_ms,
			};
		}
	}
	relays_watch(w->view->relays, passed_ms);
	atomic_store(&w->view->looked_ms, now);
	return hangs;
}

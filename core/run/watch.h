/* The watchdog: does the loop of every worker and of every lane turn, and is a worker inside plugin code for too long?
 *
 * It looks at vitals from the main thread and counts time by its own looks: workers read no clock for it, and time in
 * which the whole process was stopped (SIGSTOP, a suspended machine) counts for nobody. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "base/error.h"
#include "run/vitals.h"

struct watch;

enum status watch_create(struct watch **ret, struct view *view, struct error *err) MUST_USE;
void watch_destroy(struct watch *w); /* NULL is fine */

int64_t watch_interval_ms(const struct watch *w); /* look that often; a reload may change it */

/* A worker that is inside plugin code for longer than the key watchdog. */
struct hang {
	const char *consumer, *function;
	int worker;
	int64_t ms;
};

/* One look; true: *ret says who hangs. */
bool watch_look(struct watch *w, struct hang *ret);

#endif

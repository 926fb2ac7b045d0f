/* A consumer that the process hosts, with its workers as one: started, told to end, joined, freed. Main thread only; it
 * keeps the configuration alive that it came from. */
#ifndef RUN_CREW_H
#define RUN_CREW_H

#include "run/worker.h"

/* Not loaded and not started. */
enum status crew_create(struct consumer **ret, struct config *config, const struct config_consumer *section,
			struct error *err) MUST_USE;
void crew_destroy(struct consumer *c); /* after the join of all; NULL is fine */

/* All its workers and the one for retries. An error leaves some running: stop and join them. */
enum status crew_start(struct consumer *c, struct worker_context *context, struct error *err) MUST_USE;

/* Drain: half of timeout_ms for what was delivered already, nothing waits after deadline_ms. */
void crew_stop(struct consumer *c, enum stop order, int64_t fetch_until_ms, int64_t deadline_ms);

/* Waits until deadline_ms; returns how many did not end. */
size_t crew_join(struct consumer *c, int64_t deadline_ms) MUST_USE;

#endif

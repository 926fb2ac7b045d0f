/* The keeper of one database: a thread that runs a pass of retention now and then, on connections of its own that are
 * closed in between. Several processes may have keepers of one database: locks see to it that they take turns. */
#ifndef RUN_KEEPER_H
#define RUN_KEEPER_H

#include "config/config.h"

struct keeper;

/* Starts the thread, and keeps config alive, which has the database. */
enum status keeper_start(struct keeper **ret, struct config *config, const struct config_database *database,
			 struct error *err) MUST_USE;

/* Something to write a number to when a day of claims is missing: the keeper then looks at once. */
int keeper_fd(const struct keeper *k);

void keeper_stop(struct keeper *k); /* the pass that runs is given up between two batches */

/* Waits for the thread until deadline_ms. False: it is not there yet. */
bool keeper_join(struct keeper *k, int64_t deadline_ms) MUST_USE;
void keeper_destroy(struct keeper *k); /* after its thread and all who look at it */

/* What others see of it. */
struct keeper_figures {
	uint64_t dropped_days;  /* since the start of the process */
	uint64_t failures;      /* passes in a row */
	int64_t last_success_s; /* since 1970; 0: none yet */
};

struct keeper_consumer {
	const char *name;
	uint64_t deleted; /* since the start of the process */
	int64_t oldest_s; /* when its oldest claim in the table was made, since 1970; 0: it has none */
	int64_t window_s; /* -1: for good */
};

const struct config *keeper_config(const struct keeper *k); /* the one that has the database */
const char *keeper_database(const struct keeper *k);
struct keeper_figures keeper_figures(struct keeper *k);

/* Calls each for every consumer that is registered on the database. */
void keeper_each(struct keeper *k, void (*each)(void *arg, const struct keeper_consumer *c), void *arg);

#endif

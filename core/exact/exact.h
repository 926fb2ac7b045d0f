/* The heart: applies deliveries of one consumer exactly once.
 *
 * collect -> key -> claim -> apply -> commit -> settle. It knows sessions, plugins and sources, no broker and no
 * configuration. It never acknowledges: it settles with the source, and only what is durable. It never waits except
 * for PostgreSQL, and holds no transaction when it returns. */
#ifndef EXACT_EXACT_H
#define EXACT_EXACT_H

#include "base/arena.h"
#include "base/counters.h"
#include "exact/source.h"
#include "plugin/instance.h"

struct exact_params {
	const char *consumer;
	size_t batch_max;
	size_t batch_bytes;
	struct consumer_counters *counters;
};

struct exact;

enum status exact_create(struct exact **ret, const struct exact_params *params, struct plugin_instance *instance,
			 struct source *source, struct error *err) MUST_USE;
void exact_destroy(struct exact *x); /* NULL is fine; gives back what it still holds */

/* Gives the heart a fresh session: prepares the core's and the plugin's statements, and asks what became of a COMMIT in
 * doubt. ST_OK: work can go on. */
enum status exact_attach(struct exact *x, struct pg_session *s, struct error *err) MUST_USE;

enum exact_result {
	EXACT_IDLE,        /* nothing to do */
	EXACT_WORKED,      /* a batch was settled: call again */
	EXACT_ENVIRONMENT, /* err says what; deliveries are held: back off, call again (exact_attach first if the
			      session died) */
	EXACT_PROGRAM,     /* err says what: give back, stop the consumer, probe later */
	EXACT_BROKEN,      /* the plugin is: give back, stop the consumer until reload */
	EXACT_STOPPED,     /* the waiter wants to stop; the session must be destroyed */
};

/* Collects what the source has (or takes up what it held) and takes one batch as far as it goes. */
enum exact_result exact_turn(struct exact *x, struct error *err) MUST_USE;

size_t exact_held(const struct exact *x); /* deliveries it holds */
void exact_give_back(struct exact *x);    /* all of them, to the source */
bool exact_in_doubt(const struct exact *x);

#endif

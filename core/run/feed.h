/* Feeding: the lines of a file go through one consumer's plugin, with the same claims and batches as deliveries, and no
 * broker. It can be broken off anywhere and fed again: the claims tell what is applied. */
#ifndef RUN_FEED_H
#define RUN_FEED_H

#include "run/consumer.h"
#include <stdio.h>

struct feed_params {
	const struct config_process *process;
	struct consumer *consumer; /* loaded; its counters count */
	const char *file;          /* NULL: stdin */
	const char *rejects_file;
	bool envelope;
	bool beyond_window; /* also what is older than the window */
	int workers;
};

struct feed;

/* Opens the file and the rejects' file, starts the workers. */
enum status feed_start(struct feed **ret, const struct feed_params *params, struct error *err) MUST_USE;

/* Nothing more is begun; what is in a transaction ends. */
void feed_stop(struct feed *f);

/* Waits for the end at most that long; true: it is over. */
bool feed_wait(struct feed *f, int64_t ms);

struct feed_progress {
	int64_t lines;              /* read */
	int64_t bytes, bytes_total; /* of the file as it lies there; total 0: not known */
	char waiting[256];          /* what for; "": for nothing */
};
void feed_progress(struct feed *f, struct feed_progress *ret);

/* How it ended; ST_STOPPED: before the end of the file. ST_UNAVAILABLE: the database was away for hold_max. */
enum status feed_finish(struct feed *f, struct error *err) MUST_USE;

/* After feed_finish(); NULL is fine. */
void feed_destroy(struct feed *f);

#endif

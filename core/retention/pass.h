/* One pass of retention over one database, for all consumers that are registered there, hosted here or not. */
#ifndef RETENTION_PASS_H
#define RETENTION_PASS_H

#include "pg/session.h"
#include "retention/days.h"

enum { PASS_NAME_BYTES = 64 };

/* A row of effectd.consumers, and what the pass did for it. */
struct pass_consumer {
	char name[PASS_NAME_BYTES];
	char claims[8];   /* table, daily, both */
	int64_t window_s; /* -1: for good */
	int64_t rows;     /* deleted; or, looking, what would be */
	int64_t oldest_s; /* when its oldest claim in the table was made, since 1970; 0: it has none */
	bool busy;        /* another process is at it */
	bool failed;
};

struct pass {
	const char *database;        /* for logs */
	struct pg_params app, owner; /* how to connect; owner: only where there are days to keep */
	struct waiter *waiter;
	int64_t batch_rows, pause_ms;
	void (*progress)(void *arg, const char *consumer, int64_t rows); /* after each batch; may be NULL */
	void *arg;

	/* The result, also after a failure as far as it went. */
	struct pass_consumer *consumers;
	size_t consumer_count;
	struct days days;
};

/* Deletes and drops; a consumer that fails does not keep the others from their turn. err is the first failure. */
enum status pass_run(struct pass *p, struct error *err) MUST_USE;

/* Counts what pass_run() would do, and changes nothing. */
enum status pass_look(struct pass *p, struct error *err) MUST_USE;

void pass_finish(struct pass *p); /* frees the result */

#endif

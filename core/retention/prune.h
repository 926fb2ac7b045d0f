/* Deleting claims that are older than their consumer's window from effectd.processed_messages, in small transactions.
 *
 * The database's clock decides, the window is read from effectd.consumers by each batch, and a claim whose key is
 * parked stays. A kill at any moment loses at most the batch under way; only a claim for a key of that batch waits. */
#ifndef RETENTION_PRUNE_H
#define RETENTION_PRUNE_H

#include "pg/session.h"

struct prune {
	struct pg_session *session; /* read committed, and nobody else's for the time of a run */
	const char *consumer;
	bool all;           /* whatever their age, daily ones too: the consumer is forgotten */
	int64_t batch_rows; /* at most; a batch that runs into statement_timeout is halved */
	int64_t pause_ms;   /* between batches, and never shorter than twice the time that the batch took */
	struct waiter *waiter;
	/* After each batch; may be NULL. */
	void (*progress)(void *arg, const char *consumer, int64_t rows);
	void *arg;
};

/* Deletes until nothing is left; *ret_rows also counts what was deleted before a failure. One runner for each consumer:
 * where another session is at it, *ret_busy is set and nothing is done. ST_STOPPED: the waiter wants to end. */
enum status prune_run(const struct prune *p, int64_t *ret_rows, bool *ret_busy, struct error *err) MUST_USE;

/* What a run would delete now. */
enum status prune_count(struct pg_session *s, const char *consumer, int64_t *ret, struct error *err) MUST_USE;

/* When the oldest claim was made that no parked message keeps, in seconds since 1970; 0: there is none. */
enum status prune_oldest(struct pg_session *s, const char *consumer, int64_t *ret_s, struct error *err) MUST_USE;

#endif

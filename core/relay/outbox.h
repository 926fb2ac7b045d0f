/* The outbox as a lane sees it: leases, marks, counts, pruning. Everything that is said to PostgreSQL is said here.
 *
 * Order: rows of one ordering key go one after another, by id among those that are committed. A row behind a pending
 * one is never leased; it is put off until the row before it can be over, so that a long row of waiting ones is not
 * looked at over and over. Whatever ends a row makes the next one of its key due. */
#ifndef RELAY_OUTBOX_H
#define RELAY_OUTBOX_H

#include "base/arena.h"
#include "relay/row.h"

/* Prepares a fresh session, and listens for notifications. ST_REFUSED: a statement is wrong. */
enum status outbox_attach(struct pg_session *s, struct error *err) MUST_USE;

struct outbox_lease {
	struct relay_kind *kind;
	size_t most;  /* rows; 0: do not ask */
	size_t taken; /* that we have now */
	size_t late;  /* that wait for one before them */
};

struct outbox_exchange {
	const struct rows *marks; /* each with its fate; they stay the caller's */
	struct outbox_lease *leases;
	size_t lease_count;
	int64_t lease_ms;
	int32_t key_most; /* bytes: of a longer key the digest is wanted */
	bool envelope;

	struct rows leased; /* what came, the caller's; initialised by its owner */
	size_t fenced;      /* marks that met a row which is not ours any more */
	bool released;      /* a mark let the next row of an ordering key go */
};

/* One flight, one transaction: marks first, then leases. Anything but ST_OK: nothing happened, or nobody knows whether
 * it did; marks may be repeated. */
enum status outbox_exchange(struct pg_session *s, struct arena *arena, struct outbox_exchange *x,
			    struct error *err) MUST_USE;

/* Counts what is pending and dead into kind. */
enum status outbox_count(struct pg_session *s, struct relay_kind *kind, struct error *err) MUST_USE;

/* Deletes some of the rows that were sent longer than retention_ms ago; *ret_more: there may be others. */
enum status outbox_prune(struct pg_session *s, const struct relay_kind *kind, int64_t retention_ms, bool *ret_more,
			 struct error *err) MUST_USE;

#endif

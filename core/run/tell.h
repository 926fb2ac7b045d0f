/* Tells relays in other processes that rows for them were committed.
 *
 * NOTIFY is never part of an effect's transaction, where it would make commits wait for each other. It goes out in a
 * transaction of its own, at most once in 100 ms for each database of the process. One that is lost costs a relay its
 * slow poll. */
#ifndef RUN_TELL_H
#define RUN_TELL_H

#include "base/counters.h"
#include "exact/exact.h"

/* Of one thread with a session. */
struct tell {
	const struct consumer_counters *counters; /* of its consumer, whoever's turn it was */
	_Atomic int64_t *notified_ms;             /* when the process last sent NOTIFY to this database */
	uint64_t rows;                            /* of the consumer, as they were when last looked at */
	int64_t rows_ms;                          /* when that was */
	int64_t notify_ms;                        /* tell_notify() by then; WAIT_FOREVER: they know */
};

/* Both pointers must live as long as it. */
void tell_init(struct tell *t, const struct consumer_counters *counters, _Atomic int64_t *notified_ms);

/* After a turn; true: rows were committed since the last look. */
bool tell_look(struct tell *t);

/* Sends NOTIFY if there is something to tell, and it is time. With a session that the heart has, not inside a turn. */
void tell_notify(struct tell *t, struct pg_session *s, struct exact *exact);

/* At the end: nobody comes back for the last rows. Waits until it is time, which is a moment. */
void tell_rest(struct tell *t, struct pg_session *s, struct exact *exact);

#endif

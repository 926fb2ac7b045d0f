/* Fault points: named places where a test makes the daemon fail.
 *
 *   if (FAULT_POINT("after_claim"))
 *           return error_set(err, ST_UNAVAILABLE, "fault point after_claim");
 *
 * EFFECTD_FAULT="after_claim=exit@3,before_ack=delay:250" says what happens where: NAME=ACTION[:ARG][@N], at the Nth
 * time the place is passed (counted over all threads) or, without @N, every time.
 *
 *   exit[:CODE]  the process ends at once as if it were killed: nothing is flushed or closed (CODE: 86)
 *   delay:MS     the thread sleeps
 *   error        the macro is true, for places where the caller can fail
 *
 * Compiled in only by the build option fault_points; else the macro is a plain false that costs nothing. A name that
 * is not in the table does not compile, in either build. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include "base/error.h"
#include <stdbool.h>

/* One line to add one. What a delivery passes, in this order. */
#define FAULT_POINTS_OF_DELIVERIES(X, arg) \
	X(after_collect, arg)              \
	X(crash_counted, arg)              \
	X(after_key, arg)                  \
	X(before_claim, arg)               \
	X(after_claim, arg)                \
	X(effects_sent, arg)               \
	X(before_park, arg)                \
	X(before_commit, arg)              \
	X(commit_sent, arg)                \
	X(after_commit, arg)               \
	X(before_ack, arg)                 \
	X(after_ack, arg)

/* What a parked row that is due passes before all that a delivery passes. */
#define FAULT_POINTS_OF_RETRIES(X, arg) X(retry_leased, arg)

/* What a worker passes that is told to end, in this order. */
#define FAULT_POINTS_OF_DRAINS(X, arg) \
	X(drain_begun, arg)            \
	X(drain_done, arg)

/* What `effectd migrate up` passes with each file, in this order. */
#define FAULT_POINTS_OF_MIGRATIONS(X, arg) \
	X(migration_ran, arg)              \
	X(migration_remembered, arg)       \
	X(migration_committed, arg)

/* What a pass of retention passes. */
#define FAULT_POINTS_OF_RETENTION(X, arg) \
	X(retention_batch, arg)           \
	X(retention_floor, arg)           \
	X(retention_create, arg)          \
	X(retention_detached, arg)

/* What an outbox row passes in a relay, in this order. */
#define FAULT_POINTS_OF_RELAYS(X, arg) \
	X(outbox_leased, arg)          \
	X(outbox_called, arg)          \
	X(outbox_answered, arg)        \
	X(outbox_before_mark, arg)     \
	X(outbox_after_mark, arg)

#define FAULT_POINTS(X, arg)               \
	FAULT_POINTS_OF_DELIVERIES(X, arg) \
	FAULT_POINTS_OF_RETRIES(X, arg)    \
	FAULT_POINTS_OF_DRAINS(X, arg)     \
	FAULT_POINTS_OF_MIGRATIONS(X, arg) \
	FAULT_POINTS_OF_RETENTION(X, arg)  \
	FAULT_POINTS_OF_RELAYS(X, arg)

#define FAULT_OR_IS_(point, name) || __builtin_strcmp(#point, name) == 0
#define FAULT_POINT(name)                                                                               \
	({                                                                                              \
		_Static_assert(0 FAULT_POINTS(FAULT_OR_IS_, name), "not in the table of base/fault.h"); \
		fault_pass(name);                                                                       \
	})

#ifdef EFFECTD_FAULT_POINTS

#define FAULT_EXIT_CODE 86

/* Does what was asked for at this place; true for error. */
bool fault_pass(const char *name);

/* Replaces what is armed by spec, in the form of EFFECTD_FAULT ("": nothing); on failure nothing is armed. Not while
 * other threads run. EFFECTD_FAULT itself is read before main, and a wrong one ends the process: a test whose fault
 * never happens would prove nothing. */
enum status fault_arm(const char *spec, struct error *err);

#else

static inline bool fault_pass(const char *name)
{
	(void)name;
	return false;
}

#endif

#endif

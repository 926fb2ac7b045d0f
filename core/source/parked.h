/* Parked rows that are due, as a source: leased one at a time, applied by the same heart as a delivery. The row removes
 * itself in the transaction that applies its message; another failure moves its next attempt, or declares it dead.
 *
 * A lease keeps other processes away; every mark is fenced by it, so one that ran out overwrites nobody. */
#ifndef SOURCE_PARKED_H
#define SOURCE_PARKED_H

#include "exact/source.h"

struct parked_params {
	const char *consumer;
	int64_t max_attempts;
	int64_t retry_min_ms, retry_max_ms; /* backoff between attempts: doubles, with jitter */
	int64_t lease_ms;                   /* longer than one attempt can take */
};

struct parked_source;

enum status parked_source_create(struct parked_source **ret, const struct parked_params *params,
				 struct error *err) MUST_USE;
void parked_source_destroy(struct parked_source *p); /* NULL is fine */

struct source *parked_source_base(struct parked_source *p);

/* Leases the next row that is due, for next() to hand out; nothing when none is, or one is out already. */
enum status parked_source_fetch(struct parked_source *p, struct pg_session *s, struct error *err) MUST_USE;

#endif

/* Parked rows that are due, as a source: leased one at a time, applied by the same heart as a delivery. The row removes
 * itself in the transaction that applies its message; another failure moves its next attempt, or declares it dead.
 *
 * A lease keeps other processes away; every mark is fenced by it, so one that ran out overwrites nobody. */
#ifndef SOURCE_PARKED_H
#define SOURCE_PARKED_H

#include "exact/source.h"

/* Of a row p of effectd.parked_messages: is it older than its consumer's window, so that the claim of an earlier copy
 * may be gone? A consumer that never registered has no window that anybody could have pruned by: false. */
#define PARKED_IS_BEYOND_WINDOW_SQL                                                                    \
	"EXISTS (SELECT FROM effectd.consumers AS c WHERE c.consumer = p.consumer"                     \
	" AND (p.first_seen_at < now() - c.\"window\""                                                 \
	"  OR (c.claims <> 'table' AND (p.event_day < (now() AT TIME ZONE 'UTC' - c.\"window\")::date" \
	"   OR p.event_day < (SELECT floor_day FROM effectd.claim_days)))))"

struct parked_params {
	const char *consumer;
	int64_t lease_ms; /* longer than one attempt can take */
};

struct parked_source;

enum status parked_source_create(struct parked_source **ret, const struct parked_params *params,
				 struct error *err) MUST_USE;
void parked_source_destroy(struct parked_source *p); /* NULL is fine */

struct source *parked_source_base(struct parked_source *p);

/* Leases the next row that is due, for next() to hand out; nothing when none is, or one is out already. */
enum status parked_source_fetch(struct parked_source *p, struct pg_session *s, struct error *err) MUST_USE;

#endif

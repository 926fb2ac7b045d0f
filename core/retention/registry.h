/* effectd.consumers: what each consumer that ran on this database promised to keep, and who hosts it now.
 *
 * Every session that claims for a consumer holds a shared advisory lock as its host, taken before it looks at how the
 * consumer keeps its claims and held until the session ends. Whoever changes that takes the lock alone. Retention
 * prunes by the rows of this table and by nothing else, whatever its own process was configured with. */
#ifndef RETENTION_REGISTRY_H
#define RETENTION_REGISTRY_H

#include "base/buffer.h"
#include "pg/session.h"

struct registration {
	const char *consumer;
	bool daily;        /* claims = daily */
	int64_t window_ms; /* -1: for good */
	bool first;        /* of this process: sets the window; later ones only look whether the row still fits */
};

/* What the row was before. */
struct registered {
	bool known;            /* there was one */
	int64_t old_window_ms; /* -1: for good */
};

/* Does this window forget claims that the one before keeps? */
static inline bool registry_shrinks(const struct registered *before, int64_t window_ms)
{
	return window_ms >= 0 && (before->old_window_ms < 0 || window_ms < before->old_window_ms);
}

/* Makes this session a host of the consumer, until it ends, and writes or confirms its row.
 * ST_INVALID: the row says that claims are kept otherwise; err tells what to do. ST_UNAVAILABLE: the consumer is being
 * changed at this moment. */
enum status registry_host(struct pg_session *s, const struct registration *r, struct registered *ret,
			  struct error *err) MUST_USE;

/* The same question without a row written or a lock taken: would it be refused? */
enum status registry_would_host(struct pg_session *s, const struct registration *r, struct registered *ret,
				struct error *err) MUST_USE;

/* Adds the names of registered consumers that no session hosts, separated by commas, but for one. */
enum status registry_idle(struct pg_session *s, const char *but, struct buffer *out, struct error *err) MUST_USE;

/* Notes that consumers which are hosted now were seen now. */
enum status registry_touch(struct pg_session *s, struct error *err) MUST_USE;

/* Takes the consumer for this session alone, until it ends. ST_REFUSED: it is hosted; err names by whom. */
enum status registry_take(struct pg_session *s, const char *consumer, struct error *err) MUST_USE;

#endif

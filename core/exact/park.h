/* Parking: a message that cannot be applied moves into effectd.parked_messages, byte for byte, in a transaction; only
 * then may its source settle it. Here are the reasons and the one statement that writes the row. */
#ifndef EXACT_PARK_H
#define EXACT_PARK_H

#include "base/arena.h"
#include "base/text.h"
#include "pg/session.h"

/* Stored in parked_messages.reason; stable. */
#define PARK_REASONS(X)                           \
	X(BAD_KEY, "bad_key")                     \
	X(BAD_BODY, "bad_body")                   \
	X(TOO_BIG, "too_big")                     \
	X(REJECTED, "rejected")                   \
	X(SQL, "sql")                             \
	X(ROW_COUNT, "row_count")                 \
	X(ENVIRONMENT, "environment")             \
	X(EXPIRED, "expired")                     \
	X(FUTURE, "future")                       \
	X(RETRIES_EXHAUSTED, "retries_exhausted") \
	X(CRASH, "crash")

enum park_reason {
#define X(id, name) PARK_##id,
	PARK_REASONS(X)
#undef X
		PARK_REASON_COUNT
};

extern const char *const park_reason_names[PARK_REASON_COUNT];

struct park {
	enum park_reason reason;
	bool retry;         /* status retry: the runner tries again; else dead: a person decides */
	int64_t delay_ms;   /* retry: until the next attempt */
	bool plain;         /* only body, properties, fingerprint and reason: the full row failed as a message fault */
	char sqlstate[6];   /* "" without one */
	const char *detail; /* one sentence; whatever its bytes */
	struct str key;     /* absent when there is none */
	bool has_day;
	int64_t day; /* of its event, since 1970, UTC */
};

struct message;

/* What identifies the message besides its body, in the arena; data is NULL without memory. The fingerprint of a message
 * is sha256(sha256(body) || identity), which PostgreSQL computes wherever it is needed. */
struct str park_identity(const struct message *m, struct arena *arena);

/* What a person may read of text of any bytes: escaped, cut, in the arena. Absent stays absent. */
struct str park_shown(struct arena *arena, struct str s);

/* parked_messages.properties: the exchange and the routing key, each behind a byte with its length, then the encoded
 * properties as they came. False: these bytes are no such thing. */
bool park_unpack(struct str packed, struct str *ret_exchange, struct str *ret_routing_key, struct str *ret_properties);

/* The statement behind park_send(); exact_attach() prepares it as "park" on every session. Its one row is the id of the
 * transaction that writes it. */
extern const char park_sql[];

/* Sends the row. A row of the same (consumer, key, fingerprint) only counts one more delivery. */
enum status park_send(struct pg_session *s, const char *consumer, const struct message *m, const struct park *why,
		      struct arena *arena, struct error *err) MUST_USE;

#endif

/* Where deliveries come from, as the heart sees it. A queue, parked rows and lines of a file all look like this, so one
 * code applies them all.
 *
 * A delivery belongs to the source; between next() and settle() or give_back() the heart may read it. */
#ifndef EXACT_SOURCE_H
#define EXACT_SOURCE_H

#include "base/counters.h"
#include "pg/session.h"
#include "plugin/message.h"

struct delivery {
	struct message message;
	bool oversized;    /* the body is above max_body: parked alone, never shown to the plugin */
	unsigned suspect;  /* how often an environment fault struck in this message's own statement; kept across runs */
	bool held;         /* set aside: runs alone */
	uint64_t lost_xid; /* it had won its claim in this transaction, whose COMMIT is in doubt; 0: none */
};

/* Why a message is parked: a stable code, and a sentence. */
enum park_reason {
	PARK_BAD_KEY,
	PARK_BAD_BODY,
	PARK_TOO_BIG,
	PARK_REJECTED,
	PARK_SQL,
	PARK_ROW_COUNT,
	PARK_ENVIRONMENT,
	PARK_EXPIRED,
	PARK_FUTURE,
	PARK_RETRIES_EXHAUSTED,
	PARK_CRASH
};
extern const char *const park_reason_names[]; /* as stored */

struct park {
	enum park_reason reason;
	bool retry;           /* status retry, else dead */
	const char *sqlstate; /* "" or NULL: none */
	const char *detail;   /* one sentence, UTF-8 */
	struct str key;       /* absent when there is none */
};

struct source;

struct source_ops {
	/* A delivery that is here already, or NULL. Never waits. */
	struct delivery *(*next)(struct source *src);

	/* Sends statements of the source's own into the open transaction, before COMMIT, for deliveries that were
	 * applied or found done (a parked row removes itself here); *ret_sent is how many. NULL: the source has none.
	 */
	enum status (*enlist)(struct source *src, struct pg_session *s, struct delivery *d, int *ret_sent,
			      struct error *err);

	/* Sends the statements that park d into the open transaction; *ret_sent is how many. plain: only body,
	 * properties, fingerprint and reason, since the full row failed as a message fault. */
	enum status (*park)(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
			    bool plain, int *ret_sent, struct error *err);

	/* The outcome is durable: the delivery is over (a queue acknowledges, at the latest in flush) and its memory
	 * dies. */
	void (*settle)(struct source *src, struct delivery *d, enum outcome outcome);

	/* Nothing happened to it and nothing will here: it goes back to where it came from. Its memory dies. */
	void (*give_back)(struct source *src, struct delivery *d);

	/* After a batch's settles: send what was held together. A failure to send is the source's to notice later. */
	void (*flush)(struct source *src);
};

struct source {
	const struct source_ops *ops;
};

#endif

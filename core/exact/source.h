/* Where deliveries come from, as the heart sees it. A queue, parked rows and lines of a file all look like this, so one
 * code applies them all.
 *
 * A delivery belongs to its source; between next() and settle() or give_back() the heart holds it. */
#ifndef EXACT_SOURCE_H
#define EXACT_SOURCE_H

#include "base/counters.h"
#include "exact/park.h"
#include "pg/session.h"
#include "plugin/message.h"

struct delivery {
	struct message message;
	bool oversized; /* the body is above max_body: parked alone, never shown to the plugin */

	/* The heart's memory of this delivery over runs, zeroed by the source: how to run it, never what was done. */
	bool held;                /* set aside: it runs alone, its deciding statement in a flight of its own */
	bool again;               /* it met a conflict alone once (23505, 23P01); the second time it is parked */
	bool lost;                /* it had won its claim in a transaction whose COMMIT was in doubt and came true */
	unsigned suspect;         /* how often the environment failed in this message's own statement */
	char suspect_sqlstate[6]; /* the last time */
	unsigned blocked;         /* how often another transaction sat on its claim until lock_timeout */
	int64_t not_before_ms;    /* when it is worth another try, on clock_mono_ms() */
	bool entered;             /* counted as inside plugin code, in careful mode */
	bool journalled;          /* its source keeps a row about it that goes when it settles */
	bool beyond_window;       /* a person said that it may be older than the window */
	bool gone;                /* it was taken away from its source while we worked: forget it */
};

/* May this delivery go into plugin code? */
enum entry {
	ENTRY_GO,      /* it is counted as inside now */
	ENTRY_SUSPECT, /* not now: it was inside when a process died, and only a caller who allows suspects gets it in
			*/
	ENTRY_CULPRIT, /* never: that happened too often; park it unseen */
	ENTRY_EXPIRED, /* never: whether it was applied can no longer be told; park it unseen */
	ENTRY_GONE,    /* it is not ours any more */
};

struct source;

struct source_ops {
	/* A delivery that is here already, or NULL. Never waits. */
	struct delivery *(*next)(struct source *src);

	/* Careful mode: counts, and commits, that d goes into plugin code now, in case the process dies there. */
	enum status (*enter)(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
			     bool suspects, enum entry *ret, struct error *err);

	/* It came out alive and is not settled: takes the count back, and commits that. */
	enum status (*leave)(struct source *src, struct pg_session *s, struct delivery *d, struct error *err);

	/* Sends statements of the source's own into the open transaction, before COMMIT, for a delivery that leaves no
	 * parked row (a parked row removes itself here); *ret_sent is how many. */
	enum status (*enlist)(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
			      int *ret_sent, struct error *err);

	/* Sends the statements that park d into the open transaction; *ret_sent is how many. */
	enum status (*park)(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
			    struct arena *arena, int *ret_sent, struct error *err);

	/* The outcome is durable: the delivery is over (a queue acknowledges, at the latest in flush), its memory dies.
	 */
	void (*settle)(struct source *src, struct delivery *d, enum outcome outcome);

	/* Nothing happened to it and nothing will here: it goes back to where it came from. Its memory dies. */
	void (*give_back)(struct source *src, struct delivery *d);

	/* After a batch's settles: send what was held together. A failure to send is the source's to notice later. */
	void (*flush)(struct source *src);
};

struct source {
	const struct source_ops *ops;
	/* What its functions send; exact_attach() prepares them. */
	const struct pg_statement *statements;
	size_t statement_count;
	/* Its statements must touch a row each: one that touches none says that the delivery is not ours any more. */
	bool fenced;
};

#endif

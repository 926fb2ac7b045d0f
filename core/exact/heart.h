/* Inside the heart: what its files share. Nothing outside core/exact includes this.
 *
 * A *turn* builds an item for every delivery in hand, from nothing: keys, claims, twins and outcomes are worked out
 * anew each time. What must be remembered over turns lies in struct delivery, and is only about how to run, never about
 * what was done. */
#ifndef EXACT_HEART_H
#define EXACT_HEART_H

#include "exact/exact.h"
#include "pg/sqlstate.h"

/* Where claims are kept. Both: an effect is applied only if it won its claim in each. */
enum { CLAIM_IN_TABLE = 1, CLAIM_IN_DAYS = 2 };

/* How the consumer's claims are kept, as the database says; days.c. */
struct claim_days {
	unsigned in;       /* CLAIM_IN_... */
	int64_t window_us; /* with days */
	int64_t floor;     /* the first day that is kept, since 1970 */
	int64_t ahead_us;  /* the database's clock, since 1970, before clock_mono_us() */
};

struct item {
	struct delivery *d; /* NULL: settled, the source has it back */

	/* from key(), once a turn */
	struct str key; /* absent: it has none and is parked */
	int64_t lock_order;
	int64_t event_ms; /* when its event happened, since 1970; 0: not known */

	bool has_day;
	int64_t day;        /* of its event, since 1970, UTC */
	bool beyond_window; /* a person wants it applied although it may be older than the window */

	/* for the rest of the turn */
	unsigned claims_in; /* where */
	bool parks;         /* to be parked for `why`: it claims nothing, the plugin is not called */
	bool plain;         /* its parked row could not be written with all that people read */
	bool ignored;       /* the plugin wants nothing of it, but its source has something to write */
	bool skipped;       /* not again in this turn */
	bool twin;          /* an unsettled copy of its key came before it */
	struct park why;

	/* what one run of it in a transaction came to */
	bool claims;          /* takes part in the claim flight */
	unsigned won_in;      /* where its claim is new */
	bool won;             /* its claim is new: the effect is ours to apply */
	bool unclaims;        /* won, but its verdict leaves no claim */
	bool judged;          /* parks by this run's verdict */
	enum outcome outcome; /* when this run commits */
};

/* One result that the server owes us, in the order of sending. */
struct owed {
	struct item *item;                         /* whose statement; NULL: the core's, or apply_batch's */
	const struct effectd_statement *statement; /* the plugin's; NULL: an outbox row or the core's */
	enum { OWED_PLUGIN, OWED_PARK, OWED_SOURCE, OWED_CORE } by;
	bool more; /* the same message queued something behind this one */
};

/* What a run of a set in one transaction came to. Everything but COMMITTED left nothing behind. */
enum run {
	RUN_COMMITTED, /* every item's outcome is durable */
	RUN_AGAIN,     /* items were set aside or changed their fate: choose again */
	RUN_SPLIT,     /* a fault that names nobody: smaller sets */
	RUN_CONTENDED, /* as in enum exact_result, from here on */
	RUN_ENVIRONMENT,
	RUN_PROGRAM,
	RUN_BROKEN,
	RUN_DEAD,
	RUN_STOPPED,
	RUN_TRIED, /* a trial: it could have been committed */
};

struct exact {
	struct exact_params params;
	struct plugin_instance *instance;
	struct source *source;
	struct pg_session *session; /* NULL: lost */
	enum care care;
	int64_t oldest_event_ms;
	bool trial; /* nothing is committed */

	struct delivery **hand; /* collected and not settled */
	size_t hand_count;
	const struct delivery *failed; /* whose statement did, the last time; it may be gone since */
	struct arena arena;            /* of one turn */
	struct item *items;            /* one for each delivery in hand */
	size_t item_count;
	struct item **sorted; /* scratch: all by key, then by arrival */
	size_t sorted_count;
	struct item **set;         /* those that share the next transaction, by key */
	unsigned set_claims_in;    /* where they claim */
	bool asked_elsewhere;      /* whether a redelivery is claimed on another day */
	const struct item *torn;   /* one that is; NULL: none */
	struct item **order;       /* those of them that won, in the order of applying */
	struct message **messages; /* scratch for apply_batch */
	struct owed *owed;
	size_t owed_count, owed_capacity;

	int64_t begun_us;   /* the transaction that runs, on clock_mono_us() */
	size_t outbox_rows; /* it queued */
	int64_t asked_us;   /* how long it waited for PostgreSQL between calls into the plugin */

	unsigned aside;           /* set aside in this turn: after three, the sets get smaller */
	size_t limit;             /* of a set: halved by faults that name nobody, doubled by every commit */
	unsigned contention;      /* in a row */
	bool fresh_session_tried; /* for faults that a new session may cure */

	struct claim_days days;
	bool days_stale; /* a claim found no partition */
	bool misses_day; /* one that should be there is not */

	uint64_t xid;              /* of the transaction that runs: what won a claim or parks, 0 when nothing does */
	uint64_t left_xid;         /* of the transaction that a lost session left open, as far as is known; 0: none */
	bool doubt;                /* its COMMIT was sent */
	uint64_t doubt_given_back; /* what it applied, if it committed, that is not in hand any more */

	bool applied;    /* something was, in this turn */
	unsigned streak; /* parked in a row for one reason, with nothing applied between */
	enum park_reason streak_reason;
	char streak_sqlstate[6];
};

/* claim.c: one INSERT for all keys of the set. Sends its part of the first flight; reads it and marks who won, and in
 * x->torn a redelivery that won although its key is claimed on another day. */
enum status claim_send(struct exact *x, size_t n, struct error *err) MUST_USE;
enum status claim_read(struct exact *x, size_t n, struct error *err) MUST_USE;
/* Takes claims away again, in the same transaction, of items whose verdict leaves none; *ret_sent statements. */
enum status claim_undo_send(struct exact *x, size_t n, int *ret_sent, struct error *err) MUST_USE;

/* days.c: reads how claims are kept; ST_UNAVAILABLE and misses_day: days are missing. Judges one item by it, parking
 * what is expired or of the future; after a claim found no partition, all of the turn again. */
enum status days_read(struct exact *x, struct pg_session *s, struct error *err) MUST_USE;
void days_set(struct item *item, int64_t event_us);
void days_judge(struct exact *x, struct item *item);

/* Why it is parked or rejected as expired, and what a person can do: `parked retry` and `feed` have the option. */
#define CLAIM_MAY_BE_GONE "an earlier copy's claim may be gone; --beyond-window applies it all the same"
#define OLDER_THAN_WINDOW "older than the consumer's window: " CLAIM_MAY_BE_GONE
bool days_storable(const struct item *item); /* its day fits into parked_messages */
enum status days_look_again(struct exact *x, bool *ret_changed, struct error *err) MUST_USE;

/* stop_on_dead: is anything parked? In the first flight, so that it is asked after the set's deliveries came. */
enum status parked_before_send(struct exact *x, struct error *err) MUST_USE;
enum status parked_before_read(struct exact *x, bool *ret, struct error *err) MUST_USE;

int item_compare_keys(const struct item *a, const struct item *b); /* by bytes */

/* apply.c: calls the plugin for those that won, sends their statements, parks and undone claims, reads every result.
 * RUN_COMMITTED here means: all is well, COMMIT may go. */
enum run apply_set(struct exact *x, size_t n, struct error *err) MUST_USE;

/* batch.c: takes all items of the turn as far as they go. */
enum exact_result batch_run(struct exact *x, struct error *err) MUST_USE;

/* observe.c: durations and sizes, for metrics. */
void observe_begin(struct exact *x);
void observe_claims(struct exact *x);
void observe_plugin(struct exact *x, size_t messages, int64_t took_us);
void observe_commit(struct exact *x, size_t n); /* before anything of the set is settled */

/* Tells whoever looks. */
#define TELL(x, what, ...)                                               \
	do {                                                             \
		struct exact_observer *observer_ = (x)->params.observer; \
		if (observer_)                                           \
			observer_->what(observer_, __VA_ARGS__);         \
	} while (0)

/* fault.c: what a failed statement means for the run. n is the size of the set; item NULL: it names nobody. */
enum run fault_in_plugin_statement(struct exact *x, size_t n, struct item *item,
				   const struct effectd_statement *statement, struct error *err);
enum run fault_in_row_count(struct exact *x, size_t n, struct item *item, const struct effectd_statement *statement,
			    int64_t rows);
enum run fault_in_park(struct exact *x, size_t n, struct item *item, struct error *err);
enum run fault_in_core_statement(struct exact *x, size_t n, const char *what, struct error *err);
enum run fault_in_session(struct exact *x, enum status st, struct item *item, struct error *err);
enum run fault_in_flight(struct exact *x, size_t n, enum status st, const struct owed *owed, struct error *err);
enum run fault_in_claim(struct exact *x, size_t n, struct error *err);
enum run fault_in_commit(struct exact *x, size_t n, struct error *err);
/* From now on in this turn the item is one to be parked. */
void fault_park(struct exact *x, struct item *item, enum park_reason reason, bool retry, const char *sqlstate,
		const char *detail);

enum { SUSPECT_PARK = 7 }; /* that many environment faults in its own statement, five of them alone, park a message */

enum { EXACT_STATEMENT_COUNT = 8 };
extern const struct pg_statement exact_statements[EXACT_STATEMENT_COUNT];

#endif

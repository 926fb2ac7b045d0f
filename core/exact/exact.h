/* The heart: applies deliveries of one consumer exactly once.
 *
 * collect -> key -> claim -> apply -> commit -> settle. It knows sessions, plugins and sources, no broker and no
 * configuration. It settles with the source only what is durable, waits only for PostgreSQL, and has no transaction
 * open when a function of it returns. */
#ifndef EXACT_EXACT_H
#define EXACT_EXACT_H

#include "base/counters.h"
#include "exact/source.h"
#include "plugin/instance.h"

/* Told what happens while it happens, for a rehearsal. What is handed over lives until the call returns; a delivery may
 * be run several times, and the last run counts. */
struct exact_observer {
	void (*begun)(struct exact_observer *o, const struct delivery *d, struct str key, int64_t event_ms,
		      int64_t lock_order); /* a run that is to apply it; event_ms 0: not known */
	void (*claimed)(struct exact_observer *o, const struct delivery *d, bool won);
	void (*judged)(struct exact_observer *o, const struct delivery *d, effectd_verdict verdict, const char *text);
	void (*queued)(struct exact_observer *o, const struct delivery *d, const struct plugin_op *op);
	/* of what was queued, in that order; err NULL: it touched so many rows */
	void (*answered)(struct exact_observer *o, const struct delivery *d, int64_t rows, const struct error *err);
	/* why NULL: it would not be parked */
	void (*settled)(struct exact_observer *o, const struct delivery *d, enum outcome outcome,
			const struct park *why);
};

struct exact_params {
	const char *consumer;
	size_t batch_max;                   /* deliveries that share a transaction */
	size_t batch_bytes;                 /* of their bodies; a batch stops growing there */
	int64_t retry_min_ms, retry_max_ms; /* delays of retries: they double */
	int64_t max_attempts;
	bool in_order;        /* arrival order is kept: a message that is to be retried holds up those behind it */
	bool stop_on_dead;    /* ... and so does one that is parked for a person */
	unsigned streak_most; /* parked in a row for one reason, nothing applied between: a fault of the program; 0: go
				 on */
	bool beyond_window;   /* claims = daily: also what is older than the window */
	struct consumer_counters *counters;
	struct exact_observer *observer; /* NULL: nobody looks */
};

struct exact;

enum status exact_create(struct exact **ret, const struct exact_params *params, struct plugin_instance *instance,
			 struct source *source, struct error *err) MUST_USE;
void exact_destroy(struct exact *x); /* gives back what it still holds; NULL is fine */

/* Hands over a fresh session, which stays the caller's: prepares the core's and the plugin's statements on it and asks
 * what became of a COMMIT in doubt. ST_REFUSED with a program class, ST_INVALID: a statement is wrong, err names it. */
enum status exact_attach(struct exact *x, struct pg_session *s, struct error *err) MUST_USE;

/* The session is not to be used any more; its owner noticed before the heart did. */
void exact_detach(struct exact *x);

/* Careful: one delivery a turn, and the source counts durably that it goes into plugin code before it does, so that
 * a message that kills the process is found. One that was inside when a process died, a suspect, waits until it is let
 * in: then nobody else of the process should be inside. */
enum care { CARE_NONE, CARE_NO_SUSPECTS, CARE_ALL };
void exact_set_care(struct exact *x, enum care care);

/* A message whose event is older than that, in ms since 1970, or of unknown age, is parked as expired where a claim
 * decides: the claim of an earlier copy may be gone. 0: none is. */
void exact_set_oldest_event(struct exact *x, int64_t ms);

enum exact_result {
	EXACT_IDLE,        /* nothing to do */
	EXACT_WORKED,      /* a batch was settled: call again */
	EXACT_CONTENDED,   /* serialization failure or deadlock: call again after a moment, the deliveries are held */
	EXACT_ENVIRONMENT, /* err says what; the deliveries are held: back off, then call again */
	EXACT_PROGRAM,     /* err says what: give back, stop the consumer, try again much later */
	EXACT_BROKEN,      /* the plugin is: give back, stop the consumer until a person changed something */
	EXACT_DEAD,        /* stop_on_dead: nothing behind the parked message may be applied while it is parked */
	EXACT_SUSPECT,     /* the delivery in hand is one: call again when it may be let in */
	EXACT_STOPPED,     /* a wait was abandoned: the owner wants to end */
};

/* Collects what the source has, beside what is held, and takes one batch as far as it goes. After anything but IDLE,
 * WORKED and CONTENDED ask exact_session_lost(): if so, destroy the session and attach another before the next turn. */
enum exact_result exact_turn(struct exact *x, struct error *err) MUST_USE;

/* With claims = daily: a day that should be there is not, which is what an EXACT_ENVIRONMENT or a refused session is
 * about. Whoever keeps the days should look. */
bool exact_misses_day(const struct exact *x);

bool exact_session_lost(const struct exact *x); /* also true before the first attach */
int64_t exact_wake_ms(const struct exact *x);   /* when a held delivery is worth another turn; WAIT_FOREVER */
size_t exact_held(const struct exact *x);       /* deliveries in hand */
void exact_give_back(struct exact *x);          /* all of them, to the source */

#endif

/* Inside a relay: what its files share. Nothing outside core/relay includes this.
 *
 * Who holds a row: ready (leased, not called) -> the driver (under way) -> done (its fate is known) -> freed when the
 * mark is committed. */
#ifndef RELAY_LANE_H
#define RELAY_LANE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/wait.h"
#include "relay/outbox.h"
#include "relay/target.h"
#include <pthread.h>

/* What a call came to. */
struct verdict {
	enum { VERDICT_RETRY, VERDICT_SENT, VERDICT_DEAD } kind; /* what was not judged was not sent */
	int64_t wait_ms;                                         /* RETRY: what the target asked for; 0: nothing */
	char text[768];                                          /* one line, may hold secrets still; "" with SENT */
};

struct driver;
struct lane;

/* How one type of target is called. Everything happens in the lane's thread; nothing waits but begin() of a broker that
 * is slow to read. */
struct driver_ops {
	/* A key of more bytes than this goes out as its digest. */
	int32_t key_most;
	enum status (*create)(struct driver **ret, struct lane *lane, struct error *err);
	void (*destroy)(struct driver *d);
	/* May a call begin now? It may connect for that. */
	bool (*ready)(struct driver *d);
	/* Begins the call; its row comes back by lane_finish(), from here or from pump(). */
	void (*begin)(struct driver *d, struct row *row, int64_t timeout_ms);
	void (*pump)(struct driver *d);             /* whatever the sockets have */
	void (*abandon)(struct driver *d);          /* every call under way ends here and now */
	int (*fd)(const struct driver *d);          /* -1: none */
	int64_t (*wake_ms)(const struct driver *d); /* pump by then */
	bool (*away)(const struct driver *d);       /* it could not connect; NULL: each call connects by itself */
};

struct driver {
	const struct driver_ops *ops;
	struct lane *lane;
};

extern const struct driver_ops http_driver, smtp_driver, amqp_driver;

/* The relay's order to its lanes. */
struct relay_order {
	_Atomic bool stop;
	_Atomic int64_t deadline_ms;
};

struct lane {
	struct waiter waiter; /* must be first */
	const struct config_relay *config;
	struct target target;
	struct relay_lane shown;
	const struct relay_order *order;
	struct pg_params database;
	int64_t tick_ms; /* no wait is longer: whoever watches wants to see the loop turn */
	char name[160];  /* effectd/relay:RELAY/TARGET: what the servers show */
	pthread_t thread;
	bool started, joined;
	int wake_fd;

	struct pg_session *pg;
	struct backoff pg_backoff;
	struct driver *driver;
	struct arena arena;
	struct outbox_lease *leases; /* one for each kind */

	struct rows ready, done;
	struct row **calls; /* under way: in_flight of them at most */
	size_t under_way;
	size_t largest; /* bytes, of the rows that came last: how many may be asked for */

	bool draining;         /* it knows that it shall end */
	bool prunes;           /* there is more to prune than one bite */
	bool look;             /* there may be rows that are due */
	int64_t next_poll_ms;  /* the slow poll */
	int64_t next_due_ms;   /* when a row is due that this lane put off */
	int64_t next_count_ms; /* counting takes time where much is pending */
	int64_t next_prune_ms;

	/* Calls that failed in a row, of whatever row: a target that is down gets one call at a time, with pauses. */
	unsigned failures;
	struct backoff pauses;
	int64_t pause_until_ms;

	double allowance; /* calls that max_per_second allows now */
	int64_t allowed_us;
};

/* lane.c */
enum status lane_start(struct lane *l, struct error *err) MUST_USE;

/* A call is over; takes the row. Counts it and decides its fate. */
void lane_finish(struct lane *l, struct row *row, const struct verdict *verdict);

/* verdict.c: from what a call came to, to what becomes of the row. */
void verdict_apply(const struct verdict *v, const struct config_relay *config, const struct target *target,
		   struct row *row);
void verdict_set(struct verdict *v, int kind, const char *fmt, ...) PRINTF(3, 4);

/* headers.c: the members of the row's headers, one after another, as text. ST_INVALID: they are no flat object, err
 * says why. */
enum status headers_each(struct str json, void (*each)(void *arg, const char *name, const char *value), void *arg,
			 struct error *err) MUST_USE;

#define LANE_FIELDS(l) LOG_STR("relay", (l)->config->name), LOG_STR("target", (l)->target.config->name)

#endif

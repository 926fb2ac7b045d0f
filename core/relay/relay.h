/* Performs the effects outside the database that plugins wrote into effectd.outbox.
 *
 * A relay has one *lane* for each of its targets: one thread, one PostgreSQL session, at most in_flight calls under
 * way; a slow target is in nobody's way. A lane leases due rows, calls with no transaction open, then marks, fenced by
 * the lease. Whatever dies in between is called again with the same idempotency key: at least once, never without its
 * commit. What lanes show is read by anyone without a lock. */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "base/buffer.h"
#include "base/histogram.h"
#include "config/config.h"
#include "pg/session.h"
#include <stdatomic.h>

/* What became of a call. */
#define RELAY_RESULTS(X)      \
	X(SENT, "sent")       \
	X(RETRIED, "retried") \
	X(DEAD, "dead")

enum relay_result {
#define X(id, name) RELAY_##id,
	RELAY_RESULTS(X)
#undef X
		RELAY_RESULT_COUNT
};

extern const char *const relay_result_names[RELAY_RESULT_COUNT];
extern const struct histogram_scale relay_call_scale; /* us */

/* One kind.NAME of the relay. */
struct relay_kind {
	const char *name;
	/* As the lane last counted them, at its slow poll. */
	_Atomic int64_t pending, dead;
	_Atomic int64_t oldest_s; /* created_at of the oldest pending row, since 1970; 0: there is none */
	_Atomic uint64_t results[RELAY_RESULT_COUNT];
	_Atomic uint64_t fenced; /* marks that came too late: another relay has the row */
	struct histogram seconds;
};

enum relay_lane_state {
	RELAY_RUNNING,
	RELAY_NO_DATABASE,
	RELAY_TARGET_FAILS, /* calls to it do, in a row */
	RELAY_TARGET_AWAY,  /* rows wait, and there is no connection to call on */
	RELAY_ENDED,
};

struct relay_lane {
	const struct config_target *target;
	struct relay_kind *kinds;
	size_t kind_count;
	_Atomic int state; /* enum relay_lane_state */
	_Atomic uint64_t under_way;
	_Atomic uint64_t ticks;    /* turns of its loop and of its waits */
	_Atomic int64_t silent_ms; /* by relay_watch(): since ticks changed */
	uint64_t watched_ticks;    /* relay_watch()'s own */
};

struct relay;

/* Its lanes, not running yet. database: for every session, but for the name that servers show; its strings must outlive
 * the relay, as config must. */
enum status relay_create(struct relay **ret, const struct config *config, const struct config_relay *relay,
			 const struct pg_params *database, struct error *err) MUST_USE;
enum status relay_start(struct relay *r, struct error *err) MUST_USE;

const struct config_relay *relay_config(const struct relay *r);
size_t relay_lane_count(const struct relay *r);
const struct relay_lane *relay_lane(const struct relay *r, size_t index);

void relay_wake(struct relay *r); /* rows were committed */

/* No new calls; those under way may end until deadline_ms on clock_mono_ms(), then they are given up. Again with an
 * earlier one: sooner. */
void relay_stop(struct relay *r, int64_t deadline_ms);

/* passed_ms went by since the last look: works out silent_ms of each lane. Always the same thread. */
void relay_watch(struct relay *r, int64_t passed_ms);

/* Waits for all threads until deadline_ms. */
bool relay_join(struct relay *r, int64_t deadline_ms) MUST_USE;
void relay_destroy(struct relay *r); /* after the join; NULL is fine */

/* Connects to a target as a lane does, up to where a call would begin (TCP, TLS, login; an exchange or a queue is
 * looked for), and sends nothing that has an effect. fact: what it found, in words. ST_UNAVAILABLE: not reachable;
 * ST_REFUSED: it does not want us, or we do not trust it, code is its reply code; ST_INVALID: what the section says
 * cannot be used.
 */
enum status relay_probe(const struct config_target *config, struct buffer *fact, struct error *err) MUST_USE;

/* What wakes the relays of other processes: the channel of NOTIFY, in a transaction of its own. */
#define RELAY_CHANNEL "effectd_outbox"

#endif

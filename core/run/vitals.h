/* What a worker lets other threads see of it, and what they look at together: metrics, health, the watchdog.
 *
 * A worker writes its own vitals, relaxed and without a lock, and never reads another's. Nobody waits for anybody. */
#ifndef RUN_VITALS_H
#define RUN_VITALS_H

#include "base/counters.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WORKER_STATES(X)                                                      \
	X(RUNNING, "running")   /* or connecting, as `connected` tells */     \
	X(PROBATION, "waiting") /* another worker meets the first messages */ \
	X(HOLDING, "holding")   /* deliveries, because PostgreSQL fails */    \
	X(TRYING, "trying")     /* a copy of what it gave back for that */    \
	X(CLOSED, "closed")     /* a fault of the program; tries again */     \
	X(BROKEN, "broken")     /* the plugin is; does not try again */       \
	X(DRAINING, "draining")                                               \
	X(ENDED, "ended")

enum worker_state {
#define X(id, name) WORKER_##id,
	WORKER_STATES(X)
#undef X
		WORKER_STATE_COUNT
};

extern const char *const worker_state_names[WORKER_STATE_COUNT];

struct vitals {
	_Atomic int state; /* enum worker_state */
	_Atomic bool connected[PEER_COUNT];
	_Atomic bool schema_wrong;
	_Atomic bool day_missing;
	_Atomic bool stalled;
	_Atomic uint64_t inflight; /* deliveries in hand */
	_Atomic uint64_t ticks;    /* turns of its loop and of its waits */
	_Atomic uint64_t doing;    /* inside the plugin: see struct plugin_instance */
	_Atomic int64_t silent_ms; /* written by the watch: since ticks or doing changed */
	struct {                   /* the watch's own: what it saw at its last look */
		uint64_t ticks, doing;
		int64_t inside_ms; /* the plugin, in this very call */
	} watched;
} __attribute__((aligned(64))); /* neighbours do not slow each other down */

struct config;
struct consumer;
struct keeper;
struct relays;
struct stop_order;

struct reloads {
	uint64_t applied, refused;
	bool last_refused;
	int64_t loaded_s; /* when the configuration in force was loaded, since 1970 */
};

/* The whole process as it is looked at. A reload changes it while others look: they hold the lock, and so does the main
 * thread when it changes anything; it alone reads without. */
struct view {
	pthread_mutex_t lock;
	const struct config *config; /* the one in force; what a reload left alone has an older one */
	struct consumer **consumers;
	size_t consumer_count;
	struct keeper **keepers;
	size_t keeper_count;
	struct reloads reloads;
	bool started; /* everything of the configuration it began with */
	struct relays *relays;
	const struct stop_order *stop;
	_Atomic int64_t looked_ms; /* when the main thread's watch last looked, on clock_mono_ms() */
};

/* All zero, which is a worker that runs and is not connected yet. free() it. */
struct vitals *vitals_create(size_t n);

static inline void vitals_tick(struct vitals *v)
{
	/* One writer: no locked addition is needed. */
	const uint64_t ticks = atomic_load_explicit(&v->ticks, memory_order_relaxed);
	atomic_store_explicit(&v->ticks, ticks + 1, memory_order_relaxed);
}

static inline void vitals_set_state(struct vitals *v, enum worker_state state)
{
	atomic_store_explicit(&v->state, (int)state, memory_order_relaxed);
}

static inline void vitals_set_connected(struct vitals *v, enum peer peer, bool connected)
{
	atomic_store_explicit(&v->connected[peer], connected, memory_order_relaxed);
}

static inline enum worker_state vitals_state(const struct vitals *v)
{
	return (enum worker_state)atomic_load_explicit((_Atomic int *)&v->state, memory_order_relaxed);
}

static inline bool vitals_connected(const struct vitals *v, enum peer peer)
{
	return atomic_load_explicit((_Atomic bool *)&v->connected[peer], memory_order_relaxed);
}

#endif

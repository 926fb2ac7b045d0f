/* What a consumer did, counted by its workers without a lock and read by anyone. */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

#include "base/histogram.h"
#include <stdatomic.h>
#include <stdint.h>

/* What became of a delivery, in the words of logs, metrics and docs. */
#define OUTCOMES(X)           \
	X(APPLIED, "applied") \
	X(DUPLICATE, "duplicate") X(STALE, "stale") X(IGNORED, "ignored") X(RETRIED, "retried") X(PARKED, "parked")

enum outcome {
#define X(id, name) OUTCOME_##id,
	OUTCOMES(X)
#undef X
		OUTCOME_COUNT
};

extern const char *const outcome_names[OUTCOME_COUNT];

enum peer { PEER_BROKER, PEER_DATABASE, PEER_COUNT };

/* The distributions; counters.c has their scales. */
enum distribution {
	DISTRIBUTION_BATCH_SIZE,  /* messages that committed together */
	DISTRIBUTION_TRANSACTION, /* us, from BEGIN on its way to the answer of COMMIT */
	DISTRIBUTION_CLAIM_WAIT,  /* us, until the claims were answered: long ones wait for a twin elsewhere */
	DISTRIBUTION_PLUGIN,      /* us, of a transaction in the plugin's apply, sending what it queued included */
	DISTRIBUTION_EVENT_AGE,   /* ms, from the event to its effect */
	DISTRIBUTION_COUNT
};

extern const struct histogram_scale distribution_scales[DISTRIBUTION_COUNT];

struct consumer_counters {
	_Atomic uint64_t deliveries[2]; /* [0] first deliveries, [1] those that the broker marked redelivered */
	_Atomic uint64_t outcomes[OUTCOME_COUNT];
	_Atomic uint64_t batches;
	_Atomic uint64_t rollbacks;              /* batches run again, whatever the reason */
	_Atomic uint64_t in_doubt[2];            /* lost commit answers, resolved: [0] not committed, [1] committed */
	_Atomic uint64_t outbox_rows;            /* that committed */
	_Atomic uint64_t reconnects[PEER_COUNT]; /* sessions made anew after one was lost */
	struct histogram distributions[DISTRIBUTION_COUNT];
};

static inline void counter_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *c)
{
	return atomic_load_explicit((_Atomic uint64_t *)c, memory_order_relaxed);
}

static inline void counters_observe(struct consumer_counters *c, enum distribution which, int64_t value)
{
	histogram_observe(&c->distributions[which], &distribution_scales[which], value);
}

#endif

/* What a consumer did, counted by its workers without a lock and read by anyone. */
#ifndef BASE_COUNTERS_H
#define BASE_COUNTERS_H

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

struct consumer_counters {
	_Atomic uint64_t deliveries[2]; /* [0] first deliveries, [1] those that the broker marked redelivered */
	_Atomic uint64_t outcomes[OUTCOME_COUNT];
	_Atomic uint64_t batches;
	_Atomic uint64_t rollbacks;     /* batches run again, whatever the reason */
	_Atomic uint64_t in_doubt[2];   /* lost commit answers, resolved: [0] not committed, [1] committed */
	_Atomic uint64_t reconnects[2]; /* [0] broker, [1] database */
};

static inline void counter_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *c)
{
	return atomic_load_explicit((_Atomic uint64_t *)c, memory_order_relaxed);
}

#endif

/* Distributions: how many observations fell up to each of a few fixed bounds, counted without a lock.
 *
 * An observation costs two relaxed additions. A reader may see one of the two before the other, never a torn number;
 * the count is the sum of the buckets, so it always agrees with them. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS_MOST = 16 };

/* What is observed: whole numbers of 1/per_unit (1000000: microseconds, shown as seconds). */
struct histogram_scale {
	uint64_t per_unit;                      /* a power of ten */
	size_t count;                           /* of bounds */
	uint64_t bounds[HISTOGRAM_BOUNDS_MOST]; /* ascending, the last bucket has none */
};

struct histogram {
	_Atomic uint64_t buckets[HISTOGRAM_BOUNDS_MOST + 1];
	_Atomic uint64_t sum;
};

/* A value below zero (a clock that was set back, an event from the future) counts as zero. */
void histogram_observe(struct histogram *h, const struct histogram_scale *scale, int64_t value);

#endif

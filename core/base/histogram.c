#include "base/histogram.h"

void histogram_observe(struct histogram *h, const struct histogram_scale *scale, int64_t value)
{
	const uint64_t n = value > 0 ? (uint64_t)value : 0;
	size_t i = 0;
	while (i < scale->count && n > scale->bounds[i])
		i++;
	atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, n, memory_order_relaxed);
}

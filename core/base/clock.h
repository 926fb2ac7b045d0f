/* Time and backoff. Everything that waits counts on the monotonic clock, in milliseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_real_us(void); /* since 1970, UTC */

static inline int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Exponential backoff with full jitter in its upper half: delays lie in [d/2, d], d doubling from min to max. */
struct backoff {
	int64_t min_ms, max_ms;
	unsigned failures; /* in a row */
	uint64_t seed;     /* 0: seeded at the first use */
};

void backoff_init(struct backoff *b, int64_t min_ms, int64_t max_ms);
int64_t backoff_next_ms(struct backoff *b); /* counts one more failure, returns how long to wait */
void backoff_reset(struct backoff *b);      /* after a success */

#endif

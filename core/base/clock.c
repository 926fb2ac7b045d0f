/* Time and backoff.
 *
 * Waiting counts on the monotonic clock: a wall clock that is set back must never make a wait longer. Backoff jitter
 * keeps many workers that lost the same server from coming back in the same millisecond; it is no secret and needs no
 * good random numbers. */
#include "base/clock.h"

#include <sys/random.h>
#include <time.h>

static int64_t now_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t); /* cannot fail for these clocks */
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
	return now_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_mono_us(void)
{
	return now_us(CLOCK_MONOTONIC);
}

int64_t clock_real_us(void)
{
	return now_us(CLOCK_REALTIME);
}

/* Never 0, which stands for "not seeded". */
static uint64_t seed_new(const void *salt)
{
	uint64_t seed;

	/* Early in a boot there may be no random bytes yet; then time and address tell workers apart well enough. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uint64_t)now_us(CLOCK_MONOTONIC) ^ (uint64_t)(uintptr_t)salt;
	return seed | 1;
}

/* A linear congruential step; only the high bits are any good. */
static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	if (*seed == 0)
		*seed = 1;
	return (*seed >> 16) % limit;
}

void backoff_init(struct backoff *b, int64_t min_ms, int64_t max_ms)
{
	*b = (struct backoff){ .min_ms = min_ms < 1 ? 1 : min_ms, .max_ms = max_ms < 1 ? 1 : max_ms };
	if (b->min_ms > b->max_ms)
		b->min_ms = b->max_ms;
}

int64_t backoff_next_ms(struct backoff *b)
{
	int64_t delay = b->min_ms;

	for (unsigned i = 0; i < b->failures && delay < b->max_ms; i++)
		delay = delay > b->max_ms / 2 ? b->max_ms : delay * 2;
	if (b->failures < UINT32_MAX)
		b->failures++;
	if (b->seed == 0)
		b->seed = seed_new(b);

	const int64_t half = delay / 2;
	return delay - half + (int64_t)random_below(&b->seed, (uint64_t)half + 1);
}

void backoff_reset(struct backoff *b)
{
	b->failures = 0;
}

#include "base/thread.h"
#include "base/clock.h"
#include <time.h>

bool thread_join(pthread_t thread, int64_t deadline_ms)
{
	const int64_t rest_ms = deadline_ms - clock_mono_ms();
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	const int64_t ns = until.tv_nsec + (rest_ms > 0 ? rest_ms : 0) % 1000 * 1000000;
	until.tv_sec += (rest_ms > 0 ? rest_ms : 0) / 1000 + ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

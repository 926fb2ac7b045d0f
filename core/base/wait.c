/* The waiter of commands: they own one socket and nobody else needs serving meanwhile.
 *
 * A signal that a command did not die of is no reason to stop: the wait goes on to its deadline. */
#include "base/wait.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>

static int poll_timeout_ms(int64_t deadline_ms)
{
	if (deadline_ms == WAIT_FOREVER)
		return -1;

	const int64_t left = deadline_ms - clock_mono_ms();
	return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static int wait_poll(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	(void)self;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events }; /* poll ignores a negative fd */
		const int timeout_ms = poll_timeout_ms(deadline_ms);
		const int ready = poll(&p, 1, timeout_ms);

		if (ready > 0)
			return p.revents;
		if (ready < 0 && errno != EINTR)
			return -1;
		if (clock_mono_ms() >= deadline_ms)
			return 0;
	}
}

struct waiter wait_alone = { .wait = wait_poll };

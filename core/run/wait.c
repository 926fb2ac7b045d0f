/* Waiting, in one place: whoever is waited for, the broker is served. Heartbeats go out and deliveries come in while
 * PostgreSQL works, and an order to stop is seen at once. */
#include "run/loop.h"
#include <errno.h>
#include <unistd.h>

enum stop worker_ordered(const struct worker *w)
{
	return atomic_load(&w->stop->order);
}

/* A full stop: nothing is waited for any longer. */
bool worker_must_end(const struct worker *w)
{
	const enum stop order = worker_ordered(w);
	return order == STOP_NOW || (order == STOP_DRAIN && clock_mono_ms() >= atomic_load(&w->stop->deadline_ms));
}

void worker_serve_broker(struct worker *w)
{
	if (w->amqp && !w->broker_lost && amqp_session_pump(w->amqp, &w->broker_error) != ST_OK)
		w->broker_lost = true;
}

static bool broker_has_news(const struct worker *w)
{
	return w->broker_lost || worker_should_leave(w) ||
	       (w->amqp && (amqp_session_peek(w->amqp) || (w->cancelled && amqp_session_cancelled(w->amqp))));
}

/* Waits for fd, for time, or (fd -1, for_work) for anything that the loop must look at. */
int worker_poll(struct worker *w, int fd, short events, int64_t deadline_ms, bool for_work)
{
	for (;;) {
		const enum stop order = worker_ordered(w);
		worker_show(w);
		if (worker_must_end(w))
			return -1;
		if (for_work && (broker_has_news(w) || (order != STOP_NO && !w->draining)))
			return 0;
		const bool broker = w->amqp && !w->broker_lost;
		int64_t until = deadline_ms;
		if (broker)
			until = earlier(until, amqp_session_wake_ms(w->amqp));
		if (order == STOP_DRAIN)
			until = earlier(until, atomic_load(&w->stop->deadline_ms));
		const int64_t now = clock_mono_ms();
		until = earlier(until, now + w->tick_ms);
		const int64_t rest = until <= now ? 0 : until - now;
		struct pollfd fds[] = {
			{ .fd = w->wake_fd, .events = POLLIN },
			{ .fd = broker ? amqp_session_fd(w->amqp) : -1,
			  .events = broker && amqp_session_reading(w->amqp) ? POLLIN : 0 },
			{ .fd = fd, .events = events },
		};
		const int ready = poll(fds, ARRAY_LEN(fds), (int)rest);
		if (ready < 0 && errno != EINTR)
			return -1;
		if (ready > 0 && fds[0].revents) {
			uint64_t drop;
			if (read(w->wake_fd, &drop, sizeof(drop)) < 0 && errno != EAGAIN)
				return -1;
		}
		if (ready > 0 && fds[2].revents)
			return fds[2].revents;
		worker_serve_broker(w);
		if (clock_mono_ms() >= deadline_ms)
			return 0;
	}
}

int worker_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	return worker_poll((struct worker *)self, fd, events, deadline_ms, false);
}

/* Time passes, the broker is served. */
void worker_pause(struct worker *w, int64_t ms)
{
	const int64_t deadline = clock_mono_ms() + ms;
	while (clock_mono_ms() < deadline && worker_ordered(w) == STOP_NO)
		if (worker_poll(w, -1, 0, deadline, false) < 0)
			return;
}

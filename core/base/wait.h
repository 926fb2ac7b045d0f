/* How a session waits for its socket without knowing who else must be served meanwhile.
 *
 * A worker owns two sockets. While PostgreSQL works, RabbitMQ must still get heartbeats and its deliveries must be
 * read; so a session never calls poll() itself, it asks its waiter. */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <poll.h>
#include <stdint.h>

#define WAIT_FOREVER INT64_MAX

struct waiter {
	/* Waits until fd is ready for one of events (POLLIN, POLLOUT; fd -1: only time passes), or until deadline_ms on
	 * clock_mono_ms(). Returns the events that are ready (> 0; POLLERR and POLLHUP count), 0 at the deadline, -1
	 * when the owner wants the wait abandoned: the caller then fails with ST_STOPPED. */
	int (*wait)(struct waiter *self, int fd, short events, int64_t deadline_ms);
};

/* A waiter that only polls fd: for commands, which own nothing else. */
extern struct waiter wait_alone;

#endif

#ifndef RUN_INTERLOCK_H
#define RUN_INTERLOCK_H

#include "config/config.h"

/* What the broker says of a queue; all zero: it was not asked. */
struct interlock_queue {
	int64_t ttl_ms;              /* 0: not known, or none */
	int64_t consumer_timeout_ms; /* 0: not known */
};

/* Is the window shorter than the time after which a copy of a message can still come, as far as it is known? Calls warn
 * for each way that it finds; key is the one of the section that says so. queue NULL: nothing is known of it. */
void interlock_check(const struct config_consumer *c, const struct interlock_queue *queue,
		     void (*warn)(void *arg, const char *key, const char *text), void *arg);

#endif

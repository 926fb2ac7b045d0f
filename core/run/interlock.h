#ifndef RUN_INTERLOCK_H
#define RUN_INTERLOCK_H

#include "config/config.h"

/* Is the window shorter than the time after which a copy of a message can still come, as far as the configuration
 * tells? Calls warn for each way that it finds; key is the one of the section that says so. */
void interlock_check(const struct config_consumer *c, void (*warn)(void *arg, const char *key, const char *text),
		     void *arg);

#endif

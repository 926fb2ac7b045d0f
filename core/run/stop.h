/* How threads are told to end. */
#ifndef RUN_STOP_H
#define RUN_STOP_H

#include <stdatomic.h>
#include <stdint.h>

enum stop { STOP_NO, STOP_DRAIN, STOP_NOW };

/* Wake every worker after a change. */
struct stop_order {
	_Atomic int order;              /* enum stop */
	_Atomic int64_t fetch_until_ms; /* draining: what was delivered already is still applied until then */
	_Atomic int64_t deadline_ms;    /* and this is the end of all waiting */
};

#endif

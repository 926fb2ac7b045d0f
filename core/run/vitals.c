#include "run/vitals.h"
#include <stdlib.h>
#include <string.h>

const char *const worker_state_names[WORKER_STATE_COUNT] = {
#define X(id, name) [WORKER_##id] = (name),
	WORKER_STATES(X)
#undef X
};

struct vitals *vitals_create(size_t n)
{
	struct vitals *v = aligned_alloc(_Alignof(struct vitals), n * sizeof(*v));
	if (v)
		memset(v, 0, n * sizeof(*v));
	return v;
}

/* The words for outcomes, from the one table in the header. */
#include "base/counters.h"

const char *const outcome_names[OUTCOME_COUNT] = {
#define X(id, name) [OUTCOME_##id] = (name),
	OUTCOMES(X)
#undef X
};

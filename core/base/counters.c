/* The words for outcomes and the scales of distributions. Bounds are part of what operators see: add none between. */
#include "base/counters.h"

const char *const outcome_names[OUTCOME_COUNT] = {
#define X(id, name) [OUTCOME_##id] = (name),
	OUTCOMES(X)
#undef X
};

/* From half a millisecond, a round trip on one machine, to half a minute, the usual statement_timeout. */
#define SHORT_TIMES_US                                                                                           \
	500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, \
		30000000
#define SHORT_TIMES                                                            \
	{                                                                      \
		.per_unit = 1000000, .count = 15, .bounds = { SHORT_TIMES_US } \
	}

const struct histogram_scale distribution_scales[DISTRIBUTION_COUNT] = {
	[DISTRIBUTION_BATCH_SIZE] = { .per_unit = 1,
				      .count = 11,
				      .bounds = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000 } },
	[DISTRIBUTION_TRANSACTION] = SHORT_TIMES,
	[DISTRIBUTION_CLAIM_WAIT] = SHORT_TIMES,
	[DISTRIBUTION_PLUGIN] = SHORT_TIMES,
	/* From milliseconds, a consumer that keeps up, to a month, the usual window. */
	[DISTRIBUTION_EVENT_AGE] = { .per_unit = 1000,
				     .count = 14,
				     .bounds = { 10, 25, 50, 100, 250, 500, 1000, 5000, 30000, 300000, 3600000,
						 21600000, 86400000, 2592000000 } },
};

#include "run/summary.h"
#include "base/log.h"
#include "base/macros.h"

/* To a hundredth: it is read by people. */
static double ratio(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)((200 * part + whole) / (2 * whole)) / 100 : 0;
}

static double percent(uint64_t part, uint64_t whole)
{
	return ratio(100 * part, whole);
}

void summary_log(const char *consumer, const struct consumer_counters *counters)
{
	enum { BEFORE = 4, AFTER = 5 };
	const uint64_t first = counter_get(&counters->deliveries[0]), again = counter_get(&counters->deliveries[1]);
	const uint64_t duplicates = counter_get(&counters->outcomes[OUTCOME_DUPLICATE]);
	const uint64_t batches = counter_get(&counters->batches);
	uint64_t settled = 0;
	struct log_field fields[BEFORE + OUTCOME_COUNT + AFTER] = {
		LOG_STR("consumer", consumer),
		LOG_INT("deliveries", first + again),
		LOG_INT("redelivered", again),
		LOG_REAL("redelivered_percent", percent(again, first + again)),
	};
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		const uint64_t n = counter_get(&counters->outcomes[i]);
		settled += n;
		fields[BEFORE + i] = (struct log_field)LOG_INT(outcome_names[i], n);
	}
	const struct log_field after[AFTER] = {
		LOG_REAL("duplicate_percent", percent(duplicates, settled)),
		LOG_INT("batches", batches),
		LOG_REAL("batch_size", ratio(settled, batches)),
		LOG_INT("rollbacks", counter_get(&counters->rollbacks)),
		LOG_INT("in_doubt", counter_get(&counters->in_doubt[0]) + counter_get(&counters->in_doubt[1])),
	};
	for (int i = 0; i < AFTER; i++)
		fields[BEFORE + OUTCOME_COUNT + i] = after[i];
	log_write(LOG_INFO, "summary", fields, ARRAY_LEN(fields));
}

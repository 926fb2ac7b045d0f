#include "run/interlock.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

enum {
	MINUTE_MS = 60 * 1000,
	/* RabbitMQ's default: a delivery that is not acknowledged for so long goes back to its queue. */
	CONSUMER_TIMEOUT_MS = 30 * MINUTE_MS,
};

/* Rounded up, so that it is what the window must be. */
struct span {
	char text[32];
};

static struct span span(int64_t ms)
{
	static const struct {
		int64_t ms;
		const char *unit;
	} units[] = {
		{ INT64_C(24) * 60 * MINUTE_MS, "d" }, { 60 * MINUTE_MS, "h" }, { MINUTE_MS, "min" }, { 1000, "s" }
	};
	struct span s;
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(units) && ms < units[i].ms)
		i++;
	snprintf(s.text, sizeof(s.text), "%lld%s", (long long)((ms + units[i].ms - 1) / units[i].ms), units[i].unit);
	return s;
}

/* How long the queue keeps a message: as the broker says, or if it is we who make the queue; 0: not known. */
static int64_t queue_ms(const struct config_consumer *c, const struct interlock_queue *queue)
{
	int64_t ms = queue->ttl_ms;
	for (size_t i = 0; ms == 0 && i < c->queue_args.count; i++)
		if (strcmp(c->queue_args.list[i].name, "x-message-ttl") == 0 &&
		    !text_parse_int(c->queue_args.list[i].value, &ms))
			ms = 0;
	return ms;
}

/* From the first attempt to the last one. */
static int64_t retry_ms(const struct config_consumer *c, const struct interlock_queue *queue)
{
	int64_t sum = 0, delay = c->retry_min_ms;
	(void)queue;
	for (int64_t i = 1; i < c->max_attempts; i++) {
		sum += delay;
		delay = delay > c->retry_max_ms / 2 ? c->retry_max_ms : 2 * delay;
	}
	return sum;
}

static int64_t hold_ms(const struct config_consumer *c, const struct interlock_queue *queue)
{
	return (queue->consumer_timeout_ms ? queue->consumer_timeout_ms : CONSUMER_TIMEOUT_MS) + c->hold_max_ms;
}

/* One row a way. */
static const struct {
	const char *key;
	int64_t (*ms)(const struct config_consumer *c, const struct interlock_queue *queue);
	const char *what;
} ways[] = {
	{ "queue_arg.x-message-ttl", queue_ms, "a message may wait in its queue for" },
	{ "max_attempts", retry_ms,
	  "retries go on for up to (and those beyond the window are not applied but parked as expired)" },
	{ "hold_max", hold_ms,
	  "with the broker's consumer_timeout (30 min unless it is set), a delivery can come again after" },
};

void interlock_check(const struct config_consumer *c, const struct interlock_queue *queue,
		     void (*warn)(void *arg, const char *key, const char *text), void *arg)
{
	static const struct interlock_queue unknown;
	if (!queue)
		queue = &unknown;
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const int64_t ms = ways[i].ms(c, queue);
		const char *key = ways[i].ms == queue_ms && queue->ttl_ms ? "queue" : ways[i].key;
		char text[320];
		if (c->retention_ms < 0 || ms <= c->retention_ms)
			continue;
		snprintf(text, sizeof(text), "%s %s, but retention = %s: a copy after that is applied again",
			 ways[i].what, span(ms).text, span(c->retention_ms).text);
		warn(arg, key, text);
	}
}

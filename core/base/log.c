/* The log: one line an event on stderr, in one write(2).
 *
 * Nothing is buffered, so the last line before a crash is there. Nothing here allocates, fails, or changes errno. A
 * flood of one event (a full disk, a flapping server) is cut to a few lines a second by a small fixed table: the log
 * must never become a second problem. The lock around that table is taken only for lines that pass the level. */
#include "base/log.h"

#include "base/clock.h"
#include "base/log_line.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Atomic(enum log_level) log_least = LOG_INFO;
static _Atomic(enum log_format) log_format = LOG_LOGFMT;

static _Thread_local struct {
	const char *consumer;
	int worker;
} context;

/* How many lines a second one event of one context may write. Failures repeat as fast as they are tried again;
 * information comes in bursts at start, one a worker, and must be whole. */
static const struct {
	const char *name;
	unsigned per_second;
} levels[] = {
	[LOG_DEBUG] = { "debug", 200 },
	[LOG_INFO] = { "info", 100 },
	[LOG_WARNING] = { "warning", 5 },
	[LOG_ERROR] = { "error", 5 },
};

/* One event of one context, in the second that began at start_ms. */
struct repeat {
	uint64_t hash; /* 0: free */
	int64_t start_ms;
	unsigned written, dropped;
};

#define REPEATS 128
static struct repeat repeats[REPEATS];
static pthread_mutex_t repeats_lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a, the NUL included so that ("ab", "c") and ("a", "bc") differ. */
static uint64_t hash_text(uint64_t hash, const char *s)
{
	do {
		hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	} while (*s++);
	return hash;
}

static uint64_t hash_event(const char *event)
{
	uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), event);

	if (context.consumer)
		hash = hash_text(hash, context.consumer) ^ ((uint64_t)(unsigned)context.worker << 32);
	return hash ? hash : 1;
}

/* The entry of hash, or the one that was quiet for the longest time, taken over. */
static struct repeat *repeat_find(uint64_t hash)
{
	struct repeat *oldest = &repeats[0];

	for (size_t i = 0; i < REPEATS; i++) {
		if (repeats[i].hash == hash)
			return &repeats[i];
		if (repeats[i].start_ms < oldest->start_ms)
			oldest = &repeats[i];
	}
	*oldest = (struct repeat){ .hash = hash };
	return oldest;
}

/* Whether the line is written, and how many like it were not since the last one. */
static bool repeat_admit(enum log_level level, const char *event, unsigned *ret_dropped)
{
	const uint64_t hash = hash_event(event);
	const int64_t now_ms = clock_mono_ms();
	bool admitted = false;

	pthread_mutex_lock(&repeats_lock);
	struct repeat *r = repeat_find(hash);
	if (r->written == 0 || now_ms - r->start_ms >= 1000) {
		r->start_ms = now_ms;
		r->written = 0;
	}
	if (r->written < levels[level].per_second) {
		r->written++;
		*ret_dropped = r->dropped;
		r->dropped = 0;
		admitted = true;
	} else {
		r->dropped++;
	}
	pthread_mutex_unlock(&repeats_lock);
	return admitted;
}

/* RFC 3339, UTC, milliseconds. */
static void format_time(char *dst, size_t dst_size)
{
	const int64_t now_us = clock_real_us();
	const time_t seconds = (time_t)(now_us / 1000000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	const size_t len = strftime(dst, dst_size, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(dst + len, dst_size - len, ".%03dZ", (int)(now_us % 1000000 / 1000));
}

static void write_line(const char *data, size_t len)
{
	while (len > 0) {
		const ssize_t n = write(STDERR_FILENO, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* nobody to tell */
		data += n;
		len -= (size_t)n;
	}
}

void log_setup(enum log_level least, enum log_format format)
{
	log_least = least;
	log_format = format;
}

void log_context(const char *consumer, int worker)
{
	context.consumer = consumer;
	context.worker = worker;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	const int saved_errno = errno;
	unsigned dropped;

	if (level < log_least || !repeat_admit(level, event, &dropped))
		return;

	char now[40];
	format_time(now, sizeof(now));

	const struct log_field head[] = {
		LOG_STR("time", now),
		LOG_STR("level", levels[level].name),
		LOG_STR("event", event),
	};
	const struct log_field speaker[] = { LOG_STR("consumer", context.consumer), LOG_INT("worker", context.worker) };
	const struct log_field repeated = LOG_INT("repeated", dropped);
	struct log_line line;

	log_line_begin(&line, log_format);
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		log_line_add(&line, &head[i]);
	for (size_t i = 0; context.consumer && i < ARRAY_LEN(speaker); i++)
		log_line_add(&line, &speaker[i]);
	if (dropped) /* before the event's own fields: a long one must not push it out */
		log_line_add(&line, &repeated);
	for (size_t i = 0; i < n; i++)
		log_line_add(&line, &fields[i]);
	log_line_end(&line);

	write_line(line.data, line.len);
	errno = saved_errno;
}

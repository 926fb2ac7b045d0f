/* One line an event on stderr, logfmt or JSON, written with one write(2) so that the last line before a crash is there.
 *
 *   log_info("worker_started", LOG_STR("queue", queue), LOG_INT("prefetch", prefetch));
 *
 * Event names are stable (operators alert on them). Bodies and secrets are never logged; control bytes and what is not
 * UTF-8 are escaped. The same event of the same context more than a few times a second is dropped and counted: the
 * next line that gets through carries repeated=N. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_field {
	const char *name;
	enum { LOG_FIELD_STR, LOG_FIELD_BYTES, LOG_FIELD_INT, LOG_FIELD_REAL } kind;
	const char *text; /* STR: NUL-terminated; BYTES: number bytes; NULL leaves the field out */
	int64_t number;
	double real;
};

#define LOG_STR(name, s)                         \
	{                                        \
		(name), LOG_FIELD_STR, (s), 0, 0 \
	}
#define LOG_BYTES(name, p, len)                                 \
	{                                                       \
		(name), LOG_FIELD_BYTES, (p), (int64_t)(len), 0 \
	}
#define LOG_INT(name, n)                                     \
	{                                                    \
		(name), LOG_FIELD_INT, NULL, (int64_t)(n), 0 \
	}
#define LOG_REAL(name, x)                            \
	{                                            \
		(name), LOG_FIELD_REAL, NULL, 0, (x) \
	}

void log_setup(enum log_level least, enum log_format format);
extern _Atomic(enum log_level) log_least; /* changed by a reload while workers look at it */

/* Who speaks: put into every line of this thread. The strings stay the caller's and must outlive the thread; NULL:
 * none. */
void log_context(const char *consumer, int worker);

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

#define LOG_AT(level, event, ...)                                                                                 \
	do {                                                                                                      \
		if ((level) >= log_least) {                                                                       \
			const struct log_field log_fields_[] = { __VA_ARGS__ };                                   \
			log_write((level), (event), log_fields_, sizeof(log_fields_) / sizeof(struct log_field)); \
		}                                                                                                 \
	} while (0)

#define log_debug(...) LOG_AT(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  LOG_AT(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  LOG_AT(LOG_WARNING, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_ERROR, __VA_ARGS__)

/* The fields of an error: its text, and SQLSTATE and code where it has them. */
#define LOG_ERR(e) LOG_STR("error", (e)->text), LOG_STR("sqlstate", (e)->sqlstate[0] ? (e)->sqlstate : NULL)

#endif

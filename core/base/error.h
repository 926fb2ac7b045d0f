/* One status type and one error record for the whole program.
 *
 * A function that can fail returns `enum status` and fills a `struct error` at the place that knows the cause; callers
 * wrap it with what they were doing, and the layer that decides logs it once. Nothing below main ever exits. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/macros.h"
#include <stdarg.h>
#include <stdbool.h>

enum status {
	ST_OK = 0,
	ST_INVALID,     /* what a person wrote is wrong: configuration, arguments, a plugin file */
	ST_UNAVAILABLE, /* the peer is gone or does not answer: connect again */
	ST_REFUSED,     /* the peer answered with an error: sqlstate or code tells which */
	ST_IN_DOUBT,    /* COMMIT was sent and its answer was lost: it may or may not have happened */
	ST_STOPPED,     /* a wait was abandoned because its owner wants to stop */
	ST_INTERNAL,    /* out of memory, or a defect of ours */
};

struct error {
	enum status status;
	char sqlstate[6]; /* five characters, or "" when PostgreSQL did not speak */
	bool fatal;       /* PostgreSQL severity FATAL or PANIC: the session is gone */
	int code;         /* AMQP reply code or errno, 0 if neither */
	char text[1024];  /* one sentence, no newline; never a message body, never a secret */
};

/* Fills err (which may be NULL) and returns status, so that a failure is one line: return error_set(...). */
enum status error_set(struct error *err, enum status status, const char *fmt, ...) PRINTF(3, 4);

/* The same with errno's text behind it, and errno in code. */
enum status error_errno(struct error *err, enum status status, int errnum, const char *fmt, ...) PRINTF(4, 5);

/* Puts "what: " before the text and returns the status that err has (ST_INTERNAL without err). */
enum status error_wrap(struct error *err, const char *fmt, ...) PRINTF(2, 3);

/* No memory: the one text for it. */
enum status error_oom(struct error *err);

void error_clear(struct error *err);

#endif

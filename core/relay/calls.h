/* Calls through libcurl, as many at a time as a lane wants, in its thread: one multi handle over one epoll descriptor.
 * What HTTP and SMTP share; what they do not is in their struct protocol. */
#ifndef RELAY_CALLS_H
#define RELAY_CALLS_H

#include "relay/lane.h"
#include <curl/curl.h>

enum { ANSWER_SHOWN = 400 /* bytes of an answer that are kept, for last_error */ };

/* One handle, used again and again. */
struct call {
	CURL *easy;
	struct call *next; /* in the free list */
	struct calls *calls;
	struct row *row;
	struct curl_slist *list; /* HTTP: headers; SMTP: recipients */
	struct buffer body;      /* SMTP: the mail */
	size_t body_sent;
	bool cut; /* its answer is longer than anybody wants: the rest was not read */
	size_t answer_bytes;
	size_t answer_len;
	char answer[ANSWER_SHOWN];
	char error[CURL_ERROR_SIZE];
};

struct protocol {
	/* Options that stay, of a new handle. */
	bool (*set_up)(struct call *c, const struct target *t);
	/* Options of this row. False: verdict says why it can never be called. */
	bool (*prepare)(struct call *c, const struct target *t, struct verdict *verdict);
	void (*judge)(const struct call *c, const struct target *t, CURLcode code, struct verdict *verdict);
};

extern const struct protocol http_protocol, smtp_protocol;

/* A handle with all options that stay. False: libcurl refuses one; call_destroy() it all the same. */
bool call_create(struct call *c, const struct target *t, const struct protocol *protocol) MUST_USE;
void call_destroy(struct call *c); /* zeroes are fine */

enum status calls_create(struct driver **ret, struct lane *lane, const struct driver_ops *ops,
			 const struct protocol *protocol, struct error *err) MUST_USE;
void calls_destroy(struct driver *d);
bool calls_ready(struct driver *d);
void calls_begin(struct driver *d, struct row *row, int64_t timeout_ms);
void calls_pump(struct driver *d);
void calls_abandon(struct driver *d);
int calls_fd(const struct driver *d);
int64_t calls_wake_ms(const struct driver *d);

#define CALLS_OPS(create_fn, bytes)                                                                         \
	{                                                                                                   \
		.key_most = (bytes), .create = (create_fn), .destroy = calls_destroy, .ready = calls_ready, \
		.begin = calls_begin, .pump = calls_pump, .abandon = calls_abandon, .fd = calls_fd,         \
		.wake_ms = calls_wake_ms,                                                                   \
	}

/* Keeps the beginning of an answer; for CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION. */
void call_keep_answer(struct call *c, const char *data, size_t len);

#endif

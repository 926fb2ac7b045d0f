/* A small HTTP server for people and machines that look at the daemon: GET and HEAD of a few fixed paths.
 *
 * It runs in threads of its own and knows nothing of what it shows: an answer is a function of its owner, which must
 * not wait. Connections, their memory and their patience are bounded, so that no client can harm the daemon. There is
 * no password and no TLS: whoever reaches the address may read. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/buffer.h"
#include "base/error.h"

struct http_reply {
	unsigned status;          /* 200 unless set */
	const char *content_type; /* a constant; plain text unless set */
	struct buffer body;
};

struct http_route {
	const char *path;
	/* Called in a thread of the server, maybe in two at a time. accept: the client's Accept header, or NULL. */
	void (*answer)(void *arg, const char *accept, struct http_reply *reply);
};

struct http_server;

/* Listens on address, ADDRESS:PORT or [IPV6]:PORT, and answers from now on. The routes end with a path of NULL; they
 * and arg must outlive the server. ST_INVALID: there is no such address here; ST_UNAVAILABLE: it is taken, or there
 * are no more sockets. */
enum status http_server_start(struct http_server **ret, const char *address, const struct http_route *routes, void *arg,
			      struct error *err) MUST_USE;

/* No answer runs any more when it returns. NULL is fine. */
void http_server_stop(struct http_server *s);

#endif

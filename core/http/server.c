/* libmicrohttpd around a listening socket of our own: the library would say no more than that it could not start. */
#include "http/server.h"
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	THREADS = 2,           /* one slow client does not hold back the next */
	CONNECTIONS_MOST = 32, /* a scraper or two, probes, a person: never thousands */
	IDLE_S = 15,           /* above the usual scrape interval nothing is gained by staying */
	CONNECTION_BYTES = 16 << 10,
	STACK_BYTES = 256 << 10,
	BACKLOG = 16,
};

struct http_server {
	struct MHD_Daemon *daemon;
	const struct http_route *routes;
	void *arg;
};

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct http_reply *reply, const char *allow)
{
	if (reply->body.failed) {
		buffer_finish(&reply->body);
		reply->status = MHD_HTTP_SERVICE_UNAVAILABLE;
	}
	/* The library frees the body; an empty one may be NULL. */
	struct MHD_Response *response =
		MHD_create_response_from_buffer(reply->body.len, reply->body.data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		buffer_finish(&reply->body);
		return MHD_NO;
	}
	enum MHD_Result ok =
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
					reply->content_type ? reply->content_type : "text/plain; charset=utf-8");
	if (ok == MHD_YES)
		ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (ok == MHD_YES && allow)
		ok = MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	if (ok == MHD_YES)
		ok = MHD_queue_response(connection, reply->status ? reply->status : MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return ok;
}

static void not_found(const struct http_server *s, struct http_reply *reply)
{
	reply->status = MHD_HTTP_NOT_FOUND;
	buffer_puts(&reply->body, "there is:");
	for (const struct http_route *r = s->routes; r->path; r++)
		buffer_printf(&reply->body, " %s", r->path);
	buffer_puts(&reply->body, "\n");
}

/* Called with the header first, then for each piece of a body, then at its end, where the answer is due. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *upload, size_t *upload_len, void **state)
{
	static char seen;
	struct http_server *s = arg;
	struct http_reply reply = { 0 };
	(void)version;
	(void)upload;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		reply.status = MHD_HTTP_METHOD_NOT_ALLOWED;
		buffer_puts(&reply.body, "only GET and HEAD\n");
		return send_reply(connection, &reply, "GET, HEAD");
	}
	if (!*state || *upload_len > 0) {
		*state = &seen;
		*upload_len = 0;
		return MHD_YES;
	}
	const struct http_route *route = s->routes;
	while (route->path && strcmp(route->path, url) != 0)
		route++;
	if (route->path)
		route->answer(s->arg, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT),
			      &reply);
	else
		not_found(s, &reply);
	return send_reply(connection, &reply, NULL);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* The socket of one resolved address; -1 with errno. */
static int listen_on(const struct addrinfo *a)
{
	const int on = 1;
	CLEANUP(close_fd) int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	/* A restart must not wait for the old connections' TIME_WAIT; a second daemon is refused all the same. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -1;
	const int ret = fd;
	fd = -1;
	return ret;
}

static enum status open_socket(const char *address, int *ret, struct error *err)
{
	char host[256];
	const char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t)(colon - address) : 0;
	const bool bracketed = len >= 2 && address[0] == '[' && address[len - 1] == ']';
	if (bracketed)
		len -= 2;
	if (len == 0 || len >= sizeof(host))
		return error_set(err, ST_INVALID, "%s is no address to listen on: write it like 127.0.0.1:9464",
				 address);
	memcpy(host, address + bracketed, len);
	host[len] = '\0';
	struct addrinfo *found, hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	const int failed = getaddrinfo(host, colon + 1, &hints, &found);
	if (failed)
		return error_set(err, ST_INVALID, "cannot listen on %s: %s", address, gai_strerror(failed));
	const int fd = listen_on(found), errnum = errno;
	freeaddrinfo(found);
	if (fd < 0)
		return error_errno(err, errnum == EADDRNOTAVAIL ? ST_INVALID : ST_UNAVAILABLE, errnum,
				   "cannot listen on %s", address);
	*ret = fd;
	return ST_OK;
}

enum status http_server_start(struct http_server **ret, const char *address, const struct http_route *routes, void *arg,
			      struct error *err)
{
	CLEANUP(close_fd) int fd = -1;
	const enum status st = open_socket(address, &fd, err);
	if (st != ST_OK)
		return st;
	struct http_server *s = calloc(1, sizeof(*s));
	if (!s)
		return error_oom(err);
	s->routes = routes;
	s->arg = arg;
	s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET,
				     fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT,
				     (unsigned)CONNECTIONS_MOST, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
				     MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
	if (!s->daemon) {
		free(s);
		return error_set(err, ST_INTERNAL, "cannot start the HTTP server on %s", address);
	}
	fd = -1; /* the library's now, which closes it at the end */
	*ret = s;
	return ST_OK;
}

void http_server_stop(struct http_server *s)
{
	if (!s)
		return;
	MHD_stop_daemon(s->daemon);
	free(s);
}

/* provider: an HTTP server for the relay's bench; answers every POST with 200 and two bytes, and prints its port. It
 * does nothing else, so that it is not what is measured. Ends with its standard input. */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
			      const char *version, const char *data, size_t *size, void **state)
{
	static int seen;
	(void)url;
	(void)method;
	(void)version;
	(void)data;
	if (!*state) { /* the head came */
		*state = &seen;
		return MHD_YES;
	}
	if (*size > 0) {
		*size = 0;
		return MHD_YES;
	}
	return MHD_queue_response(connection, MHD_HTTP_OK, arg);
}

int main(void)
{
	static char ok[] = "ok";
	struct MHD_Response *response = MHD_create_response_from_buffer(2, ok, MHD_RESPMEM_PERSISTENT);
	struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, response,
						     MHD_OPTION_CONNECTION_LIMIT, 2000u, MHD_OPTION_END);
	if (!response || !daemon)
		return 1;
	printf("%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
	fflush(stdout);
	char drop[64];
	while (read(STDIN_FILENO, drop, sizeof(drop)) > 0)
		;
	MHD_stop_daemon(daemon);
	MHD_destroy_response(response);
	return 0;
}

/* What the C programs of this folder share: the broker named by AMQP_URL, and the clock. They end at the first error:
 * a run with one counts for nothing. */
#ifndef PEERS_BROKER_H
#define PEERS_BROKER_H

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "failed: %s\n", what);
	exit(1);
}

static inline void require_reply(amqp_rpc_reply_t reply, const char *what)
{
	require(reply.reply_type == AMQP_RESPONSE_NORMAL, what);
}

static inline amqp_connection_state_t broker_open(void)
{
	struct amqp_connection_info info;
	char *url = strdup(getenv("AMQP_URL") ? getenv("AMQP_URL") : "amqp://guest:guest@127.0.0.1:5672/%2f");
	require(amqp_parse_url(url, &info) == AMQP_STATUS_OK, "AMQP_URL is a URL");
	amqp_connection_state_t conn = amqp_new_connection();
	amqp_socket_t *sock = amqp_tcp_socket_new(conn);
	require(amqp_socket_open(sock, info.host, info.port) == AMQP_STATUS_OK, "connect to the broker");
	require_reply(amqp_login(conn, info.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password),
		      "log in to the broker");
	amqp_channel_open(conn, 1);
	require_reply(amqp_get_rpc_reply(conn), "open a channel");
	free(url);
	return conn;
}

static inline void broker_consume(amqp_connection_state_t conn, const char *queue, int prefetch)
{
	amqp_basic_qos(conn, 1, 0, (uint16_t)(prefetch < 65000 ? prefetch : 65000), 0);
	require_reply(amqp_get_rpc_reply(conn), "set the prefetch");
	amqp_basic_consume(conn, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
	require_reply(amqp_get_rpc_reply(conn), "consume");
}

static inline double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif

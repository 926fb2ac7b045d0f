/* Opens and ends one connection: socket, TLS, login.
 *
 * Opening is the only part that may block its thread, each step bounded (name resolution by the resolver's own limits).
 * After that the socket never waits for input. A send waits only while the kernel's buffer is full, which ends with
 * TCP_USER_TIMEOUT or two heartbeats of silence at the latest. SIGPIPE is ignored by the process. */
#include "amqp/link.h"
#include "base/clock.h"
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	CONNECT_S = 5,    /* TCP and TLS handshake: a peer that accepts and then says nothing must not hold us */
	HANDSHAKE_S = 10, /* login: the broker delays refusals of a wrong password */
	RPC_S = 10,       /* declare, consume, close: quorum queues may first elect a leader */

	CHANNELS = 2,
	/* RabbitMQ's default, also the largest header frame that a publisher may send. The broker adds headers of its
	 * own (x-delivery-count, x-death) without looking at the limit, so reading accepts some more: otherwise a
	 * message whose headers fill a frame would break every connection that meets it. */
	FRAME_MAX = 131072, /* reading accepts FRAME_SLACK more */
	NO_HEARTBEAT_TIMEOUT_MS = 60000,
};

/* Where distributions keep the authorities that they trust; rabbitmq-c has no default. */
static const char *const system_ca_files[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch, Alpine */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
};

static const char *find_ca_file(const struct amqp_params *params)
{
	if (params->tls_ca_file)
		return params->tls_ca_file;
	for (size_t i = 0; i < ARRAY_LEN(system_ca_files); i++)
		if (access(system_ca_files[i], R_OK) == 0)
			return system_ca_files[i];
	return NULL;
}

static amqp_socket_t *make_tls_socket(struct amqp_session *s, const struct amqp_params *params, struct error *err)
{
	amqp_socket_t *socket = amqp_ssl_socket_new(s->conn);
	if (!socket) {
		error_set(err, ST_INTERNAL, "TLS cannot be initialized");
		return NULL;
	}
	amqp_ssl_socket_set_verify_peer(socket, params->tls_verify);
	amqp_ssl_socket_set_verify_hostname(socket, params->tls_verify);
	if (amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST) != AMQP_STATUS_OK) {
		error_set(err, ST_INTERNAL, "TLS 1.2 cannot be required");
		return NULL;
	}
	if (params->tls_verify) {
		const char *ca = find_ca_file(params);
		if (!ca) {
			error_set(err, ST_INVALID, "no file of trusted authorities was found: set tls_ca_file");
			return NULL;
		}
		if (amqp_ssl_socket_set_cacert(socket, ca) != AMQP_STATUS_OK) {
			error_set(err, ST_INVALID, "tls_ca_file %s cannot be read as certificates in PEM format", ca);
			return NULL;
		}
	}
	if (!params->tls_cert_file != !params->tls_key_file) {
		error_set(err, ST_INVALID, "tls_cert_file and tls_key_file go together: set both or none");
		return NULL;
	}
	if (params->tls_cert_file &&
	    amqp_ssl_socket_set_key(socket, params->tls_cert_file, params->tls_key_file) != AMQP_STATUS_OK) {
		error_set(err, ST_INVALID,
			  "tls_cert_file %s and tls_key_file %s cannot be read as a certificate and its key",
			  params->tls_cert_file, params->tls_key_file);
		return NULL;
	}
	return socket;
}

/* A peer that vanished must not look alive: heartbeats find it when we read, these find it when we only send. */
static void set_socket_options(struct amqp_session *s)
{
	const int on = 1;
	const unsigned timeout_ms = s->heartbeat_ms ? (unsigned)(2 * s->heartbeat_ms) : NO_HEARTBEAT_TIMEOUT_MS;
	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	(void)fcntl(s->fd, F_SETFD, FD_CLOEXEC);
}

static enum status connect_socket(struct amqp_session *s, const struct amqp_params *params,
				  const struct amqp_address *url, struct error *err)
{
	amqp_socket_t *socket = url->tls ? make_tls_socket(s, params, err) : amqp_tcp_socket_new(s->conn);
	if (!socket)
		return url->tls ? err->status : error_oom(err);
	const struct timeval limit = { .tv_sec = CONNECT_S };
	int rc = amqp_socket_open_noblock(socket, url->host, url->port, &limit);
	if (rc != AMQP_STATUS_OK)
		return error_set(err, ST_UNAVAILABLE, "connecting to %s port %d: %s", url->host, url->port,
				 rc == AMQP_STATUS_SOCKET_ERROR ? "refused or not reachable" : amqp_error_string2(rc));
	s->fd = amqp_get_sockfd(s->conn);
	return ST_OK;
}

static amqp_table_entry_t text_entry(const char *key, const char *value)
{
	amqp_table_entry_t e = { .key = amqp_cstring_bytes(key) };
	e.value.kind = AMQP_FIELD_KIND_UTF8;
	e.value.value.bytes = amqp_cstring_bytes(value);
	return e;
}

static amqp_table_entry_t true_entry(const char *key)
{
	amqp_table_entry_t e = { .key = amqp_cstring_bytes(key) };
	e.value.kind = AMQP_FIELD_KIND_BOOLEAN;
	e.value.value.boolean = 1;
	return e;
}

static enum status login(struct amqp_session *s, const struct amqp_params *params, const struct amqp_address *url,
			 struct error *err)
{
	/* Without the first the broker is silent when a consumed queue is deleted, without the last a wrong password
	 * looks like a network fault. */
	amqp_table_entry_t capabilities[] = {
		true_entry("consumer_cancel_notify"),
		true_entry("connection.blocked"),
		true_entry("basic.nack"),
		true_entry("authentication_failure_close"),
	};
	amqp_table_entry_t properties[] = {
		text_entry("connection_name", params->connection_name ? params->connection_name : "effectd"),
		text_entry("product", "effectd"),
		text_entry("version", EFFECTD_VERSION),
		{ .key = amqp_cstring_bytes("capabilities") },
	};
	amqp_field_value_t *capability = &properties[ARRAY_LEN(properties) - 1].value;
	capability->kind = AMQP_FIELD_KIND_TABLE;
	capability->value.table.num_entries = ARRAY_LEN(capabilities);
	capability->value.table.entries = capabilities;
	const amqp_table_t table = { ARRAY_LEN(properties), properties };

	const struct timeval handshake = { .tv_sec = HANDSHAKE_S }, rpc = { .tv_sec = RPC_S };
	if (amqp_set_handshake_timeout(s->conn, &handshake) != AMQP_STATUS_OK ||
	    amqp_set_rpc_timeout(s->conn, &rpc) != AMQP_STATUS_OK)
		return error_oom(err);

	amqp_rpc_reply_t reply = amqp_login_with_properties(
		s->conn, url->vhost, CHANNELS, FRAME_MAX, params->heartbeat_s, &table, AMQP_SASL_METHOD_PLAIN,
		url->user, params->password ? params->password : url->password);
	enum status st = link_check_reply(s, 0, reply, "login", err);
	if (st != ST_OK) {
		/* Here the broker's closing of the connection is an answer, not a broken line. */
		if (st == ST_UNAVAILABLE && err->code != 0)
			err->status = st = ST_REFUSED;
		return st;
	}
	s->heartbeat_ms = (int64_t)amqp_get_heartbeat(s->conn) * 1000;
	int rc = amqp_tune_connection(s->conn, amqp_get_channel_max(s->conn), amqp_get_frame_max(s->conn) + FRAME_SLACK,
				      amqp_get_heartbeat(s->conn));
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "login", err);
	s->pumped_ms = clock_mono_ms();
	return ST_OK;
}

/* Somebody who wants to stop does not wait for the next step. */
static bool stopping(struct waiter *waiter)
{
	return waiter->wait(waiter, -1, 0, 0) < 0;
}

static enum status open_steps(struct amqp_session *s, const struct amqp_params *params, struct waiter *waiter,
			      struct error *err)
{
	CLEANUP(amqp_address_finish) struct amqp_address url = { 0 };
	s->conn = amqp_new_connection();
	if (!s->conn)
		return error_oom(err);
	enum status st = amqp_address_parse(&url, params->url, err);
	if (st != ST_OK)
		return st;
	if (stopping(waiter))
		return error_set(err, ST_STOPPED, "stopped while connecting to the broker");
	st = connect_socket(s, params, &url, err);
	if (st != ST_OK)
		return st;
	if (stopping(waiter))
		return error_set(err, ST_STOPPED, "stopped while connecting to the broker");
	st = login(s, params, &url, err);
	if (st != ST_OK)
		return error_wrap(err, "%s port %d", url.host, url.port);
	set_socket_options(s);
	return ST_OK;
}

enum status amqp_session_open(struct amqp_session **ret, const struct amqp_params *params, struct waiter *waiter,
			      struct error *err)
{
	struct error unheard;
	if (!err)
		err = &unheard;
	struct amqp_session *s = calloc(1, sizeof(*s));
	if (!s)
		return error_oom(err);
	s->fd = -1;
	s->pending_end = &s->pending;
	enum status st = open_steps(s, params, waiter, err);
	if (st != ST_OK) {
		amqp_session_destroy(s);
		return st;
	}
	*ret = s;
	return ST_OK;
}

/* Says goodbye only if that cannot wait; else the broker learns it from the closed socket. */
static void say_goodbye(struct amqp_session *s)
{
	if (s->fd < 0 || s->dead.status != ST_OK)
		return;
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	if (poll(&p, 1, 0) != 1 || p.revents != POLLOUT)
		return;
	amqp_connection_close_t m = { .reply_code = AMQP_REPLY_SUCCESS, .reply_text = amqp_cstring_bytes("bye") };
	(void)amqp_send_method(s->conn, 0, AMQP_CONNECTION_CLOSE_METHOD, &m);
}

void amqp_session_destroy(struct amqp_session *s)
{
	if (!s)
		return;
	if (s->conn) {
		say_goodbye(s);
		/* Closing TLS would try to talk to the peer; a shut socket cannot wait. */
		if (s->fd >= 0 && amqp_get_sockfd(s->conn) == s->fd)
			(void)shutdown(s->fd, SHUT_RDWR);
		amqp_destroy_connection(s->conn);
	}
	held_free_all(s);
	publishing_free(s);
	free(s);
}

int amqp_session_fd(const struct amqp_session *s)
{
	return s->dead.status == ST_OK ? s->fd : -1;
}

bool amqp_session_blocked(const struct amqp_session *s)
{
	return s->blocked;
}

uint32_t amqp_session_epoch(const struct amqp_session *s)
{
	return s->epoch;
}

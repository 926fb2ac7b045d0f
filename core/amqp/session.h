/* One AMQP connection with one channel, consuming one queue. The only folder that includes rabbitmq-c.
 *
 * Nothing waits inside the library: amqp_session_pump() takes what the socket has, assembles deliveries frame by frame
 * and keeps them in order of arrival until amqp_session_take(). Opening waits with the waiter, bounded. Each (re)opened
 * channel is a new *epoch*; an ack carries the epoch its delivery came from and is dropped when that is over.
 * The session never cancels or reopens anything by itself: it reports, its owner decides. */
#ifndef AMQP_SESSION_H
#define AMQP_SESSION_H

#include "base/error.h"
#include "base/text.h"
#include "base/wait.h"
#include <stddef.h>
#include <stdint.h>

struct amqp_params {
	const char *url;      /* amqp:// or amqps:// user@host:port/vhost */
	const char *password; /* NULL: the URL's, else "guest" */
	int heartbeat_s;
	const char *tls_ca_file, *tls_cert_file, *tls_key_file; /* NULL: system's CAs; none */
	bool tls_verify;
	const char *connection_name; /* shown by the broker: effectd/CONSUMER/WORKER */
};

/* What a URL says, with rabbitmq-c's defaults for what it does not. The texts are text's. */
struct amqp_address {
	const char *host, *user, *password, *vhost;
	int port;
	bool tls;
	char *text;
};

/* ST_INVALID: it is no URL of a broker. */
enum status amqp_address_parse(struct amqp_address *ret, const char *url, struct error *err) MUST_USE;
void amqp_address_finish(struct amqp_address *a);

enum amqp_declare { AMQP_DECLARE_NO, AMQP_DECLARE_PASSIVE, AMQP_DECLARE_YES };

struct amqp_argument {
	const char *name, *value; /* value: whole numbers are sent as int64, true/false as bool, else as text */
};

struct amqp_binding {
	const char *exchange, *routing_key;
};

struct amqp_consume {
	const char *queue;
	enum amqp_declare declare;
	const char *queue_type; /* with AMQP_DECLARE_YES: x-queue-type */
	const struct amqp_argument *arguments;
	size_t argument_count;
	const struct amqp_binding *bindings;
	size_t binding_count;
	uint16_t prefetch;
	size_t buffer_bytes; /* reading pauses while untaken and unreturned deliveries hold more than this */
	size_t max_body;     /* a larger body still comes, in memory of its own, flagged */
	const char *consumer_tag;
};

/* A delivery as it came. Lives until amqp_session_return(). */
struct amqp_delivery {
	uint64_t tag;
	uint32_t epoch;
	bool redelivered, oversized;
	struct str exchange, routing_key, properties /* encoded, as received */, body;
};

struct amqp_session;

/* Connects and logs in, announcing consumer_cancel_notify, connection.blocked, the connection name. ST_UNAVAILABLE: not
 * reachable, or TLS failed; ST_REFUSED: code is the broker's reply code (403 password, 530 virtual host); ST_INVALID:
 * the URL or a TLS file. A thread that pumps needs 8 MiB of stack: rabbitmq-c decodes nested headers by recursion. */
enum status amqp_session_open(struct amqp_session **ret, const struct amqp_params *params, struct waiter *waiter,
			      struct error *err) MUST_USE;

/* Never waits; NULL is fine; deliveries still held become invalid. Acks that were sent a moment ago may be lost (their
 * deliveries come again) unless the channel was closed first. */
void amqp_session_destroy(struct amqp_session *s);

/* Opens a channel, declares, binds, sets QoS, consumes: a new epoch. A channel that is still open is closed first.
 * ST_REFUSED: code is the broker's reply code (404 no queue, 406 other arguments); there is no channel then. */
enum status amqp_session_consume(struct amqp_session *s, const struct amqp_consume *c, struct error *err) MUST_USE;

/* Opening or consuming failed: only a person can mend that. Else it is worth another try soon. */
bool amqp_is_program_fault(enum status st, const struct error *err);

/* Closes the channel: the broker takes back all that is unacknowledged. Bounded wait; ends the epoch. Deliveries not
 * yet taken are dropped, taken ones stay readable. ST_OK also says that every ack sent before has been received. */
enum status amqp_session_close_channel(struct amqp_session *s, struct error *err) MUST_USE;

/* Stops deliveries, keeps the channel for acks: drain. Never waits; deliveries that are under way still come. */
enum status amqp_session_cancel(struct amqp_session *s, struct error *err) MUST_USE;
bool amqp_session_cancelled(const struct amqp_session *s); /* the broker agreed: what it sent is all that comes */

/* Reads what is there, sends heartbeats, never waits. ST_UNAVAILABLE: the connection is gone. ST_REFUSED: the channel
 * is closed by the broker (code: 406, ...), or the consumer was cancelled (code 0, text says so; acks still go out).
 * Either is said again by every pump until the owner closes the channel or consumes anew. */
enum status amqp_session_pump(struct amqp_session *s, struct error *err) MUST_USE;

int amqp_session_fd(const struct amqp_session *s);          /* -1: gone */
int64_t amqp_session_wake_ms(const struct amqp_session *s); /* on clock_mono_ms(): pump by then, socket silent or not */
bool amqp_session_reading(const struct amqp_session *s);    /* false: buffer_bytes reached, do not poll for input */
bool amqp_session_blocked(const struct amqp_session *s);    /* connection.blocked */
uint32_t amqp_session_epoch(const struct amqp_session *s);  /* 0: no open channel */

/* The oldest delivery not yet taken, or NULL. */
struct amqp_delivery *amqp_session_peek(struct amqp_session *s);
struct amqp_delivery *amqp_session_take(struct amqp_session *s);

/* Gives a delivery's memory back. It says nothing to the broker. */
void amqp_session_return(struct amqp_session *s, struct amqp_delivery *d);

/* Acknowledges tag, or with multiple all up to it. A stale epoch sends nothing and is ST_OK; tag 0 is refused. */
enum status amqp_session_ack(struct amqp_session *s, uint32_t epoch, uint64_t tag, bool multiple,
			     struct error *err) MUST_USE;

/* Messages ready in the queue, by a passive declare on a channel of its own (it may fail without harm to the consumer).
 */
enum status amqp_session_ready(struct amqp_session *s, const char *queue, uint32_t *ret_ready,
			       struct error *err) MUST_USE;

/* Is there an exchange of this name ("": always)? As amqp_session_ready(); ST_REFUSED, code 404: there is none. */
enum status amqp_session_find_exchange(struct amqp_session *s, const char *exchange, struct error *err) MUST_USE;

/* ---- publishing: a session does this or consumes, not both ---- */

/* Opens the channel in confirm mode. ST_REFUSED and ST_UNAVAILABLE as amqp_session_consume(). */
enum status amqp_session_publish_open(struct amqp_session *s, struct error *err) MUST_USE;

struct amqp_publication {
	const char *exchange, *routing_key, *content_type, *type;
	struct str message_id;               /* at most 255 bytes; unique among those that wait for their confirm */
	struct str idempotency_key;          /* goes into the header x-idempotency-key */
	const struct amqp_argument *headers; /* sent as text */
	size_t header_count;
	struct str body;
};

/* Publishes, persistent and mandatory. *ret_number is what its confirm will say. Waits while the socket is full: look
 * whether it is writable before. ST_UNAVAILABLE: nobody knows whether the broker has it. */
enum status amqp_session_publish(struct amqp_session *s, const struct amqp_publication *p, uint64_t *ret_number,
				 struct error *err) MUST_USE;
uint64_t amqp_session_next_number(const struct amqp_session *s); /* of the next publication; they count from 1 */

enum amqp_confirm_kind {
	AMQP_CONFIRM_ACKED,
	AMQP_CONFIRM_NACKED,
	AMQP_CONFIRM_RETURNED, /* it was routed nowhere */
};

struct amqp_confirm {
	uint64_t number;
	enum amqp_confirm_kind kind;
	uint16_t code; /* RETURNED: the broker's, and its words */
	char text[64];
};

/* What the pumps have read, in the order in which it came: one for each publication, however the broker grouped them.
 * False: nothing more. */
bool amqp_session_confirm(struct amqp_session *s, struct amqp_confirm *ret);

#endif

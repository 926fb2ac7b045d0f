/* What the files of this folder share: the session behind session.h. Nobody else includes this.
 *
 * Who holds a delivery: free list -> building (its frames are arriving) -> pending (complete, not taken) -> its taker,
 * and back by amqp_session_return(). Every delivery is also on the `all` chain, so that destroy finds the taken ones.
 */
#ifndef AMQP_LINK_H
#define AMQP_LINK_H

#include "amqp/session.h"
#include <amqp.h>

enum {
	/* Headers that the broker adds without looking at the limit for frames: reading accepts so much more. */
	FRAME_SLACK = 32768,

	AMQP_CHANNEL = 1,       /* consumes; numbers are reused: each new one would cost a pool that is never freed */
	AMQP_PROBE_CHANNEL = 2, /* asks for counts, so that a missing queue does not close the consumer's channel */
};

/* One contiguous block: exchange, routing key, properties, body. */
struct held {
	struct amqp_delivery pub; /* must be first: takers hold this */
	struct held *next;        /* in the free or pending list */
	struct held *all;
	char *data;
	size_t capacity;
	size_t body_got; /* of pub.body.len, while building */
};

struct amqp_session {
	amqp_connection_state_t conn;
	int fd;

	uint32_t epoch, last_epoch; /* epoch 0: no open channel */
	size_t buffer_bytes, max_body;
	char consumer_tag[128];
	bool cancelled; /* the broker said that it sends nothing more */

	struct held *building; /* its method frame came */
	bool has_header;       /* and its header frame */
	struct held *pending, **pending_end;
	struct held *free, *all;
	size_t held_bytes; /* memory of building, pending and taken deliveries */
	size_t free_bytes; /* memory of the free list */

	struct publishing *publishing; /* publish.c's; NULL: it consumes */

	bool blocked;
	int64_t heartbeat_ms; /* 0: neither side wants any */
	int64_t sent_ms, pumped_ms;

	/* Why there is no channel, or no connection any more; told by every pump until the owner acts. */
	struct error closed, dead;
	bool dead_told;
};

/* ---- held.c: memory of deliveries ---- */

struct held *held_get(struct amqp_session *s);                           /* NULL: no memory */
bool held_reserve(struct amqp_session *s, struct held *h, size_t bytes); /* keeps what is in data */
void held_put(struct amqp_session *s, struct held *h);
void held_drop_pending(struct amqp_session *s); /* and what is being built */
void held_free_all(struct amqp_session *s);

/* ---- reply.c: what the library and the broker say, as errors ---- */

/* The connection cannot be used any more; every later call answers with this error. */
enum status link_fail(struct amqp_session *s, struct error *err, const char *fmt, ...) PRINTF(3, 4);
enum status link_fail_library(struct amqp_session *s, int amqp_status, const char *what, struct error *err);

/* The broker closed the connection, or a channel: fills an error with its code and words. */
void link_describe_connection_close(const amqp_connection_close_t *m, struct error *err);
void link_describe_channel_close(const amqp_channel_close_t *m, struct error *err);

/* A call's reply: ST_OK, ST_REFUSED (the channel was closed; close-ok is sent) or ST_UNAVAILABLE (dead). */
enum status link_check_reply(struct amqp_session *s, amqp_channel_t channel, amqp_rpc_reply_t reply, const char *what,
			     struct error *err) MUST_USE;

/* Sends a method that has no answer worth waiting for. */
enum status link_send(struct amqp_session *s, amqp_channel_t channel, amqp_method_number_t id, void *method,
		      struct error *err) MUST_USE;

/* ---- publish.c: frames of a channel that publishes ---- */

enum status publishing_on_method(struct amqp_session *s, const amqp_method_t *m, struct error *err) MUST_USE;
void publishing_on_header(struct amqp_session *s, const amqp_frame_t *frame); /* of a message that came back */
void publishing_free(struct amqp_session *s);

/* ---- pump.c ---- */

/* Forgets frames that the library queued for a channel that is closed now. */
enum status link_discard_queued(struct amqp_session *s, struct error *err) MUST_USE;

#endif

/* Frames into deliveries, without ever waiting.
 *
 * A method frame starts a delivery, its header frame gives size and properties (copied as they are encoded: the only
 * copy that a replay reads), body frames are appended. Whatever the library lends dies at the next read, so everything
 * is copied at once and its buffers are released after every frame. */
#include "amqp/link.h"
#include "base/clock.h"
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

enum {
	PUMP_BYTES = 512 * 1024,        /* then the caller comes first: PostgreSQL waits for it */
	FRAME_COST = 64,                /* so that empty frames count as well */
	BODY_LIMIT = 512 * 1024 * 1024, /* RabbitMQ's own upper limit of a message */
};

static enum status out_of_memory(struct amqp_session *s, struct error *err)
{
	return link_fail(s, err, "no memory for a delivery");
}

static char *append(char *to, struct str *ret, amqp_bytes_t bytes)
{
	*ret = (struct str){ to, bytes.len };
	if (bytes.len)
		memcpy(to, bytes.bytes, bytes.len);
	return to + bytes.len;
}

static enum status on_deliver(struct amqp_session *s, const amqp_basic_deliver_t *m, struct error *err)
{
	if (s->building)
		return link_fail(s, err, "the broker began a delivery inside another");
	struct held *h = held_get(s);
	if (!h)
		return out_of_memory(s, err);
	s->building = h;
	s->has_header = false;
	if (!held_reserve(s, h, m->exchange.len + m->routing_key.len))
		return out_of_memory(s, err);
	h->pub = (struct amqp_delivery){ .tag = m->delivery_tag, .epoch = s->epoch, .redelivered = m->redelivered };
	append(append(h->data, &h->pub.exchange, m->exchange), &h->pub.routing_key, m->routing_key);
	return ST_OK;
}

static void complete(struct amqp_session *s)
{
	*s->pending_end = s->building;
	s->pending_end = &s->building->next;
	s->building = NULL;
}

static enum status on_header(struct amqp_session *s, const amqp_frame_t *frame, struct error *err)
{
	struct held *h = s->building;
	if (!h || s->has_header)
		return link_fail(s, err, "the broker sent a content header out of place");
	const uint64_t body = frame->payload.properties.body_size;
	if (body > BODY_LIMIT)
		return link_fail(s, err, "the broker announced a body of %llu bytes", (unsigned long long)body);
	const amqp_bytes_t raw = frame->payload.properties.raw;
	struct amqp_delivery *d = &h->pub;
	const size_t before = d->exchange.len + d->routing_key.len;
	if (!held_reserve(s, h, before + raw.len + (size_t)body))
		return out_of_memory(s, err);
	/* The block may have moved. */
	d->exchange.data = h->data;
	d->routing_key.data = h->data + d->exchange.len;
	char *at = append(h->data + before, &d->properties, raw);
	d->body = (struct str){ at, (size_t)body };
	d->oversized = d->body.len > s->max_body;
	s->has_header = true;
	if (d->body.len == 0)
		complete(s);
	return ST_OK;
}

static enum status on_body(struct amqp_session *s, const amqp_bytes_t *fragment, struct error *err)
{
	struct held *h = s->building;
	if (!h || !s->has_header || fragment->len > h->pub.body.len - h->body_got)
		return link_fail(s, err, "the broker sent more body than it announced");
	if (fragment->len)
		memcpy((char *)h->pub.body.data + h->body_got, fragment->bytes, fragment->len);
	h->body_got += fragment->len;
	if (h->body_got == h->pub.body.len)
		complete(s);
	return ST_OK;
}

static enum status on_channel_method(struct amqp_session *s, const amqp_method_t *m, struct error *err)
{
	switch (m->id) {
	case AMQP_BASIC_DELIVER_METHOD:
		return on_deliver(s, m->decoded, err);
	case AMQP_BASIC_CANCEL_METHOD:
		/* The channel stays open: what was delivered can still be acknowledged. */
		error_set(&s->closed, ST_REFUSED,
			  "the broker cancelled the consumer: its queue was deleted or moved to another node");
		return ST_OK;
	case AMQP_CHANNEL_CLOSE_METHOD: {
		link_describe_channel_close(m->decoded, &s->closed);
		s->epoch = 0;
		held_drop_pending(s);
		amqp_channel_close_ok_t ok = { 0 };
		return link_send(s, AMQP_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok, err);
	}
	case AMQP_BASIC_CANCEL_OK_METHOD:
		s->cancelled = true;
		return ST_OK;
	case AMQP_BASIC_ACK_METHOD:
	case AMQP_BASIC_NACK_METHOD:
	case AMQP_BASIC_RETURN_METHOD:
		return publishing_on_method(s, m, err);
	default: /* what later brokers may add */
		return ST_OK;
	}
}

static enum status on_connection_method(struct amqp_session *s, const amqp_method_t *m, struct error *err)
{
	switch (m->id) {
	case AMQP_CONNECTION_BLOCKED_METHOD:
		s->blocked = true;
		return ST_OK;
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		s->blocked = false;
		return ST_OK;
	case AMQP_CONNECTION_CLOSE_METHOD: {
		link_describe_connection_close(m->decoded, &s->dead);
		amqp_connection_close_ok_t ok = { 0 };
		(void)amqp_send_method(s->conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
		return link_fail(s, err, "%s", s->dead.text);
	}
	default:
		return ST_OK;
	}
}

static enum status on_frame(struct amqp_session *s, const amqp_frame_t *frame, struct error *err)
{
	if (frame->channel == 0)
		return frame->frame_type == AMQP_FRAME_METHOD ? on_connection_method(s, &frame->payload.method, err)
							      : ST_OK;
	/* Frames of a channel that is closed, or of the probe's, mean nothing any more. */
	if (frame->channel != AMQP_CHANNEL || s->epoch == 0)
		return ST_OK;
	if (s->publishing && frame->frame_type != AMQP_FRAME_METHOD) {
		/* A message that comes back: its body is known. */
		if (frame->frame_type == AMQP_FRAME_HEADER)
			publishing_on_header(s, frame);
		return ST_OK;
	}
	switch (frame->frame_type) {
	case AMQP_FRAME_METHOD:
		return on_channel_method(s, &frame->payload.method, err);
	case AMQP_FRAME_HEADER:
		return on_header(s, frame, err);
	case AMQP_FRAME_BODY:
		return on_body(s, &frame->payload.body_fragment, err);
	default:
		return ST_OK;
	}
}

static size_t frame_bytes(const amqp_frame_t *frame)
{
	switch (frame->frame_type) {
	case AMQP_FRAME_HEADER:
		return FRAME_COST + frame->payload.properties.raw.len;
	case AMQP_FRAME_BODY:
		return FRAME_COST + frame->payload.body_fragment.len;
	default:
		return FRAME_COST;
	}
}

static bool has_buffered(const struct amqp_session *s)
{
	return amqp_frames_enqueued(s->conn) || amqp_data_in_buffer(s->conn);
}

/* One frame, if it is here: *ret_bytes is 0 when it is not. */
static enum status read_frame(struct amqp_session *s, size_t *ret_bytes, struct error *err)
{
	static const struct timeval now = { 0, 0 };
	amqp_frame_t frame;
	*ret_bytes = 0;
	int rc = amqp_simple_wait_frame_noblock(s->conn, &frame, &now);
	if (rc == AMQP_STATUS_TIMEOUT)
		return ST_OK;
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "reading from the broker", err);
	*ret_bytes = frame_bytes(&frame);
	enum status st = on_frame(s, &frame, err);
	amqp_maybe_release_buffers(s->conn);
	return st;
}

/* Sent before the library would: it sends its own only while it reads, and reading may be paused. */
static enum status send_heartbeat(struct amqp_session *s, int64_t now_ms, struct error *err)
{
	if (s->heartbeat_ms == 0 || now_ms - s->sent_ms < s->heartbeat_ms / 4)
		return ST_OK;
	const amqp_frame_t heartbeat = { .frame_type = AMQP_FRAME_HEARTBEAT };
	int rc = amqp_send_frame(s->conn, &heartbeat);
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "sending a heartbeat to the broker", err);
	s->sent_ms = now_ms;
	return ST_OK;
}

/* A pause reads nothing, so it would not see that the connection broke, and poll() would not sleep any more. */
static enum status look_while_paused(struct amqp_session *s, struct error *err)
{
	struct pollfd p = { .fd = s->fd };
	if (poll(&p, 1, 0) > 0)
		return link_fail(s, err, "the connection to the broker broke while its deliveries were held");
	return ST_OK;
}

enum status amqp_session_pump(struct amqp_session *s, struct error *err)
{
	s->pumped_ms = clock_mono_ms();
	enum status st = s->dead.status == ST_OK ? send_heartbeat(s, s->pumped_ms, err) : s->dead.status;
	if (st == ST_OK && !amqp_session_reading(s))
		st = look_while_paused(s, err);

	/* One read takes all that fits the library's buffer; only what that left is read on, so that a quiet socket
	 * costs one call and poll() tells of the rest. */
	for (size_t total = 0, bytes; st == ST_OK && total < PUMP_BYTES && amqp_session_reading(s); total += bytes) {
		st = read_frame(s, &bytes, err);
		if (bytes == 0 || !has_buffered(s))
			break;
	}

	if (s->dead.status != ST_OK) {
		s->dead_told = true;
		if (err)
			*err = s->dead;
		return s->dead.status;
	}
	if (s->closed.status != ST_OK && err)
		*err = s->closed;
	return s->closed.status;
}

enum status link_discard_queued(struct amqp_session *s, struct error *err)
{
	enum status st = ST_OK;
	for (size_t bytes; st == ST_OK && amqp_frames_enqueued(s->conn);)
		st = read_frame(s, &bytes, err);
	return st;
}

/* Above the limit it still finishes the delivery that is under way while there is no other to take: a body larger than
 * the limit must come to an end. */
bool amqp_session_reading(const struct amqp_session *s)
{
	return s->held_bytes <= s->buffer_bytes || s->epoch == 0 || (s->building && !s->pending);
}

int64_t amqp_session_wake_ms(const struct amqp_session *s)
{
	if (s->dead.status != ST_OK)
		return s->dead_told ? WAIT_FOREVER : 0;
	if (amqp_session_reading(s) && has_buffered(s))
		return 0;
	return s->heartbeat_ms ? s->pumped_ms + s->heartbeat_ms / 2 : WAIT_FOREVER;
}

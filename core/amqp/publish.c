/* Publishing with confirms.
 *
 * The broker answers by number, for one publication or for all up to it, in any order; a message that is routed nowhere
 * comes back before its confirm, and is told from the others only by its message id. Each publication that waits has a
 * place in a ring. */
#include "amqp/link.h"
#include "base/clock.h"
#include <stdio.h>
#include <string.h>

struct waiting {
	uint64_t id;   /* hash of the message id */
	bool open;     /* no confirm yet */
	bool returned; /* it came back: code and text say why */
	uint16_t code;
	char text[sizeof(((struct amqp_confirm *)0)->text)];
};

struct publishing {
	uint64_t next;        /* number of the next publication */
	uint64_t oldest;      /* that has no confirm; next when all have */
	struct waiting *ring; /* place of a number: modulo capacity */
	size_t capacity;

	struct amqp_confirm *confirms; /* read and not taken: [taken, count) */
	size_t taken, count, confirm_capacity;

	bool returning; /* a basic.return came, its header is next */
	uint16_t return_code;
	char return_text[sizeof(((struct amqp_confirm *)0)->text)];
};

/* FNV-1a: among what waits at a time, a chance of one in 10^13. */
static uint64_t hash(const void *data, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (const unsigned char *p = data, *end = p + len; p < end; p++)
		h = (h ^ *p) * UINT64_C(0x100000001b3);
	return h;
}

void publishing_free(struct amqp_session *s)
{
	if (!s->publishing)
		return;
	free(s->publishing->ring);
	free(s->publishing->confirms);
	free(s->publishing);
	s->publishing = NULL;
}

enum status amqp_session_publish_open(struct amqp_session *s, struct error *err)
{
	struct error unheard;
	if (!err)
		err = &unheard;
	publishing_free(s);
	s->publishing = calloc(1, sizeof(*s->publishing));
	if (!s->publishing)
		return error_oom(err);
	s->publishing->next = s->publishing->oldest = 1;
	/* What is sent keeps to the limit that was agreed on. */
	const int rc = amqp_tune_connection(s->conn, amqp_get_channel_max(s->conn),
					    amqp_get_frame_max(s->conn) - FRAME_SLACK, amqp_get_heartbeat(s->conn));
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "publishing", err);
	amqp_channel_open(s->conn, AMQP_CHANNEL);
	enum status st = link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "channel.open", err);
	if (st != ST_OK)
		return st;
	s->epoch = ++s->last_epoch;
	amqp_confirm_select(s->conn, AMQP_CHANNEL);
	st = link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "confirm.select", err);
	amqp_maybe_release_buffers(s->conn);
	return st;
}

/* --- sending --- */

static struct waiting *place(const struct publishing *p, uint64_t number)
{
	return &p->ring[number % p->capacity];
}

static bool have_place(struct publishing *p)
{
	if (p->next - p->oldest < p->capacity)
		return true;
	const size_t capacity = p->capacity ? 2 * p->capacity : 256;
	struct publishing larger = { .ring = calloc(capacity, sizeof(struct waiting)), .capacity = capacity };
	if (!larger.ring)
		return false;
	for (uint64_t n = p->oldest; n < p->next; n++)
		*place(&larger, n) = *place(p, n);
	free(p->ring);
	p->ring = larger.ring;
	p->capacity = capacity;
	return true;
}

static amqp_bytes_t bytes_of(struct str s)
{
	return (amqp_bytes_t){ s.len, (void *)s.data };
}

static amqp_table_entry_t text_entry(const char *name, struct str value)
{
	amqp_table_entry_t e = { .key = amqp_cstring_bytes(name) };
	e.value.kind = AMQP_FIELD_KIND_UTF8;
	e.value.value.bytes = bytes_of(value);
	return e;
}

enum status amqp_session_publish(struct amqp_session *s, const struct amqp_publication *p, uint64_t *ret_number,
				 struct error *err)
{
	struct publishing *pub = s->publishing;
	if (s->dead.status != ST_OK || s->epoch == 0) {
		if (err)
			*err = s->dead.status != ST_OK ? s->dead : s->closed;
		return ST_UNAVAILABLE;
	}
	AUTOFREE amqp_table_entry_t *entries = calloc(p->header_count + 1, sizeof(*entries));
	if (!entries || !have_place(pub))
		return error_oom(err);
	entries[0] = text_entry("x-idempotency-key", p->idempotency_key);
	for (size_t i = 0; i < p->header_count; i++)
		entries[i + 1] = text_entry(p->headers[i].name,
					    (struct str){ p->headers[i].value, strlen(p->headers[i].value) });
	const amqp_basic_properties_t properties = {
		._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
			  AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_APP_ID_FLAG |
			  AMQP_BASIC_HEADERS_FLAG,
		.content_type = amqp_cstring_bytes(p->content_type),
		.delivery_mode = AMQP_DELIVERY_PERSISTENT,
		.message_id = bytes_of(p->message_id),
		.type = amqp_cstring_bytes(p->type),
		.timestamp = (uint64_t)(clock_real_us() / 1000000),
		.app_id = amqp_cstring_bytes("effectd"),
		.headers = { .num_entries = (int)p->header_count + 1, .entries = entries },
	};
	const int rc =
		amqp_basic_publish(s->conn, AMQP_CHANNEL, amqp_cstring_bytes(p->exchange),
				   amqp_cstring_bytes(p->routing_key), true, false, &properties, bytes_of(p->body));
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "publishing", err);
	s->sent_ms = clock_mono_ms();
	*ret_number = pub->next++;
	*place(pub, *ret_number) = (struct waiting){ .id = hash(p->message_id.data, p->message_id.len), .open = true };
	return ST_OK;
}

uint64_t amqp_session_next_number(const struct amqp_session *s)
{
	return s->publishing->next;
}

/* --- what comes back --- */

static bool add_confirm(struct publishing *p, const struct amqp_confirm *confirm)
{
	if (p->taken == p->count)
		p->taken = p->count = 0;
	if (p->count == p->confirm_capacity) {
		const size_t capacity = p->confirm_capacity ? 2 * p->confirm_capacity : 256;
		struct amqp_confirm *more = realloc(p->confirms, capacity * sizeof(*more));
		if (!more)
			return false;
		p->confirms = more;
		p->confirm_capacity = capacity;
	}
	p->confirms[p->count++] = *confirm;
	return true;
}

static enum status settle(struct amqp_session *s, uint64_t first, uint64_t last, bool acked, struct error *err)
{
	struct publishing *p = s->publishing;
	for (uint64_t n = first; n <= last; n++) {
		struct waiting *w = place(p, n);
		if (!w->open)
			continue;
		struct amqp_confirm confirm = { .number = n, .kind = acked ? AMQP_CONFIRM_ACKED : AMQP_CONFIRM_NACKED };
		if (w->returned) {
			confirm.kind = AMQP_CONFIRM_RETURNED;
			confirm.code = w->code;
			memcpy(confirm.text, w->text, sizeof(confirm.text));
		}
		w->open = false;
		if (!add_confirm(p, &confirm))
			return link_fail(s, err, "no memory for a confirm");
	}
	while (p->oldest < p->next && !place(p, p->oldest)->open)
		p->oldest++;
	return ST_OK;
}

enum status publishing_on_method(struct amqp_session *s, const amqp_method_t *m, struct error *err)
{
	struct publishing *p = s->publishing;
	if (!p)
		return ST_OK;
	if (m->id == AMQP_BASIC_RETURN_METHOD) {
		const amqp_basic_return_t *back = m->decoded;
		p->returning = true;
		p->return_code = back->reply_code;
		text_escape(p->return_text, sizeof(p->return_text), back->reply_text.bytes, back->reply_text.len);
		return ST_OK;
	}
	/* ack and nack begin with the same two fields, but are types of their own */
	const bool acked = m->id == AMQP_BASIC_ACK_METHOD;
	const amqp_basic_ack_t *ack = m->decoded;
	const amqp_basic_nack_t *nack = m->decoded;
	const uint64_t number = acked ? ack->delivery_tag : nack->delivery_tag;
	const bool multiple = acked ? ack->multiple : nack->multiple;
	if (number >= p->next)
		return link_fail(s, err, "the broker confirmed a message that was never published");
	if (number < p->oldest)
		return ST_OK;
	return settle(s, multiple ? p->oldest : number, number, acked, err);
}

void publishing_on_header(struct amqp_session *s, const amqp_frame_t *frame)
{
	struct publishing *p = s->publishing;
	const amqp_basic_properties_t *properties = frame->payload.properties.decoded;
	if (!p->returning)
		return;
	p->returning = false;
	const uint64_t id = hash(properties->message_id.bytes, properties->message_id.len);
	for (uint64_t n = p->oldest; n < p->next; n++) {
		struct waiting *w = place(p, n);
		if (!w->open || w->id != id)
			continue;
		w->returned = true;
		w->code = p->return_code;
		memcpy(w->text, p->return_text, sizeof(w->text));
	}
}

bool amqp_session_confirm(struct amqp_session *s, struct amqp_confirm *ret)
{
	struct publishing *p = s->publishing;
	if (!p || p->taken == p->count)
		return false;
	*ret = p->confirms[p->taken++];
	return true;
}

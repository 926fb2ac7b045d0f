/* What a message says about itself. Properties are decoded at the first question and once; nothing here keeps or
 * changes bytes of the delivery. */
#include "plugin/message.h"
#include "plugin/host.h"
#include <jansson.h>
#include <stddef.h>
#include <string.h>

static const struct properties no_properties;

/* Where a property lies: in the message itself, or in what its codec decodes. */
static const struct place {
	bool decoded;
	size_t offset;
} places[] = {
	[EFFECTD_BODY] = { false, offsetof(struct message, body) },
	[EFFECTD_ROUTING_KEY] = { false, offsetof(struct message, routing_key) },
	[EFFECTD_EXCHANGE] = { false, offsetof(struct message, exchange) },
	[EFFECTD_CONTENT_TYPE] = { true, offsetof(struct properties, content_type) },
	[EFFECTD_CONTENT_ENCODING] = { true, offsetof(struct properties, content_encoding) },
	[EFFECTD_MESSAGE_ID] = { true, offsetof(struct properties, message_id) },
	[EFFECTD_CORRELATION_ID] = { true, offsetof(struct properties, correlation_id) },
	[EFFECTD_MESSAGE_TYPE] = { true, offsetof(struct properties, type) },
	[EFFECTD_APP_ID] = { true, offsetof(struct properties, app_id) },
};

void message_prepare(struct message *m, struct arena *arena)
{
	m->pub.host = &plugin_host;
	m->arena = arena;
	m->decoded = NULL;
	m->json = NULL;
	m->json_tried = false;
	m->json_error = NULL;
}

void message_release(struct message *m)
{
	json_decref(m->json);
	m->json = NULL;
	m->json_tried = false;
	m->json_error = NULL;
	m->decoded = NULL;
}

const struct properties *message_properties(const struct message *m)
{
	if (m->decoded || !m->codec)
		return m->decoded ? m->decoded : &no_properties;
	struct properties *decoded = arena_alloc(m->arena, sizeof(*decoded));
	if (!decoded)
		return &no_properties;
	if (!m->codec->decode(m->properties, m->arena, decoded))
		*decoded = no_properties;
	((struct message *)m)->decoded = decoded; /* a cache: the message does not change by being read */
	return decoded;
}

static const struct message *message_of(const struct effectd_message *msg)
{
	return (const struct message *)msg;
}

struct effectd_str host_property(const struct effectd_message *msg, effectd_property which)
{
	if (which >= ARRAY_LEN(places))
		return (struct effectd_str){ NULL, 0 };
	const struct message *m = message_of(msg);
	const char *base = places[which].decoded ? (const char *)message_properties(m) : (const char *)m;
	const struct str *s = (const struct str *)(base + places[which].offset);
	if (!s->data && !places[which].decoded)
		return (struct effectd_str){ "", 0 }; /* every message has a body, a routing key and an exchange */
	return (struct effectd_str){ s->data, s->len };
}

static const struct header *find_header(const struct effectd_message *msg, const char *name)
{
	if (!name)
		return NULL;
	const struct properties *p = message_properties(message_of(msg));
	const size_t len = strlen(name);
	for (size_t i = 0; i < p->header_count; i++)
		if (p->headers[i].name.len == len && memcmp(p->headers[i].name.data, name, len) == 0)
			return &p->headers[i];
	return NULL;
}

struct effectd_str host_header(const struct effectd_message *msg, const char *name)
{
	const struct header *h = find_header(msg, name);
	if (!h || (h->kind != HEADER_TEXT && h->kind != HEADER_BYTES))
		return (struct effectd_str){ NULL, 0 };
	return (struct effectd_str){ h->text.data ? h->text.data : "", h->text.len };
}

bool host_header_int64(const struct effectd_message *msg, const char *name, int64_t *ret)
{
	const struct header *h = find_header(msg, name);
	if (!h || (h->kind != HEADER_INT && h->kind != HEADER_BOOL && h->kind != HEADER_TIME))
		return false;
	*ret = h->number;
	return true;
}

bool host_timestamp_us(const struct effectd_message *msg, int64_t *ret)
{
	const struct properties *p = message_properties(message_of(msg));
	int64_t us;
	if (!p->has_timestamp || __builtin_mul_overflow(p->timestamp_s, INT64_C(1000000), &us))
		return false;
	*ret = us;
	return true;
}

bool host_redelivered(const struct effectd_message *msg)
{
	return message_of(msg)->redelivered;
}

uint32_t host_attempt(const struct effectd_message *msg)
{
	return message_of(msg)->attempt;
}

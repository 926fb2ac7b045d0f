/* The one statement that writes effectd.parked_messages from a delivery. Columns for people are escaped and cut so that
 * they cannot fail; the row that a replay reads is body and properties, as they came. */
#include "exact/park.h"
#include "plugin/message.h"
#include <stdio.h>
#include <string.h>

const char *const park_reason_names[PARK_REASON_COUNT] = {
#define X(id, name) [PARK_##id] = name,
	PARK_REASONS(X)
#undef X
};

/* The fingerprint is computed here so that every writer of the table agrees: SHA-256 over the body's SHA-256 and what
 * else identifies the message. */
const char park_sql[] =
	"INSERT INTO effectd.parked_messages"
	" (consumer, message_key, fingerprint, body, properties, content_type, headers, exchange, routing_key,"
	"  status, reason, sqlstate, detail, attempts, next_attempt_at, event_day)"
	" VALUES ($1, $2, sha256(sha256($3::bytea) || $4::bytea), $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
	"  CASE WHEN $10::text = 'retry' THEN now() + $15::bigint * interval '1 millisecond' END,"
	"  date '1970-01-01' + $16::int)"
	" ON CONFLICT (consumer, coalesce(message_key, ''), fingerprint)"
	" DO UPDATE SET deliveries = parked_messages.deliveries + 1"
	" RETURNING pg_current_xact_id()";

enum { PARAM_COUNT = 16, SHOWN_BYTES = 1000, SHORT_MAX = 255 /* of a short string in AMQP */ };

struct row {
	const char *data[PARAM_COUNT];
	int lengths[PARAM_COUNT], formats[PARAM_COUNT];
	int count;
};

static void row_add(struct row *row, const char *data, size_t len, bool binary)
{
	row->data[row->count] = data;
	row->lengths[row->count] = (int)len;
	row->formats[row->count++] = binary;
}

static void row_add_str(struct row *row, struct str s)
{
	row_add(row, s.data, s.len, true);
}

struct str park_shown(struct arena *arena, struct str s)
{
	if (!s.data)
		return s;
	char *text = arena_alloc(arena, SHOWN_BYTES);
	if (!text)
		return (struct str){ 0 };
	return (struct str){ text, text_escape(text, SHOWN_BYTES, s.data, s.len) };
}

/* What identifies the message besides its body: the routing key behind its length, then what its properties say. */
struct str park_identity(const struct message *m, struct arena *arena)
{
	struct buffer b = { 0 };
	buffer_printf(&b, "%zu:", m->routing_key.len);
	buffer_add(&b, m->routing_key.data, m->routing_key.len);
	if (m->codec)
		m->codec->identity(m->properties, arena, &b);
	const char *copy = b.failed ? NULL : arena_copy(arena, b.data, b.len);
	const struct str s = { copy, copy ? b.len : 0 };
	buffer_finish(&b);
	return s;
}

static char *put_short(char *p, struct str s)
{
	*p++ = (char)s.len;
	return s.len ? mempcpy(p, s.data, s.len) : p;
}

/* The only copy that a replay reads: all that a plugin may ask for besides the body. */
static struct str pack(const struct message *m, struct arena *arena)
{
	const struct str exchange = { m->exchange.data, m->exchange.len <= SHORT_MAX ? m->exchange.len : 0 };
	const struct str routing_key = { m->routing_key.data,
					 m->routing_key.len <= SHORT_MAX ? m->routing_key.len : 0 };
	char *start = arena_alloc(arena, 2 + exchange.len + routing_key.len + m->properties.len);
	if (!start)
		return (struct str){ 0 };
	char *p = put_short(put_short(start, exchange), routing_key);
	if (m->properties.len > 0)
		p = mempcpy(p, m->properties.data, m->properties.len);
	return (struct str){ start, (size_t)(p - start) };
}

static bool take_short(struct str *from, struct str *ret)
{
	const size_t len = from->len > 0 ? (unsigned char)from->data[0] : SHORT_MAX;
	if (from->len < 1 + len)
		return false;
	*ret = (struct str){ from->data + 1, len };
	*from = (struct str){ from->data + 1 + len, from->len - 1 - len };
	return true;
}

bool park_unpack(struct str packed, struct str *ret_exchange, struct str *ret_routing_key, struct str *ret_properties)
{
	struct str exchange, routing_key;
	if (!take_short(&packed, &exchange) || !take_short(&packed, &routing_key))
		return false;
	*ret_exchange = exchange;
	*ret_routing_key = routing_key;
	*ret_properties = packed;
	return true;
}

static struct str headers(const struct message *m, struct arena *arena)
{
	struct str s = { 0 };
	struct buffer b = { 0 };
	if (m->codec && m->properties.len > 0)
		m->codec->headers_json(m->properties, arena, &b);
	if (!b.failed && b.len > 0 && (s.data = arena_copy(arena, b.data, b.len)))
		s.len = b.len;
	buffer_finish(&b);
	return s;
}

enum status park_send(struct pg_session *s, const char *consumer, const struct message *m, const struct park *why,
		      struct arena *arena, struct error *err)
{
	static const struct str absent = { 0 };
	const char *status = why->retry ? "retry" : "dead", *reason = park_reason_names[why->reason];
	const struct str same = park_identity(m, arena);
	const struct str packed = pack(m, arena);
	if (!same.data || !packed.data)
		return error_oom(err);
	const struct str detail = park_shown(arena, (struct str){ why->detail, why->detail ? strlen(why->detail) : 0 });
	const struct str type = why->plain ? absent : park_shown(arena, message_properties(m)->content_type);
	const struct str exchange = why->plain ? absent : park_shown(arena, m->exchange);
	const struct str routing_key = why->plain ? absent : park_shown(arena, m->routing_key);
	const struct str headers_text = why->plain ? absent : headers(m, arena);
	char delay[24], day[24];
	const int day_len = snprintf(day, sizeof(day), "%lld", (long long)why->day);
	const int delay_len = snprintf(delay, sizeof(delay), "%lld", (long long)why->delay_ms);

	struct row row = { .count = 0 };
	row_add(&row, consumer, strlen(consumer), true);
	row_add_str(&row, why->key);
	row_add(&row, m->body.data ? m->body.data : "", m->body.len, true);
	row_add_str(&row, same);
	row_add_str(&row, packed);
	row_add_str(&row, type);
	row_add(&row, headers_text.data, headers_text.len, false);
	row_add_str(&row, exchange);
	row_add_str(&row, routing_key);
	row_add(&row, status, strlen(status), true);
	row_add(&row, reason, strlen(reason), true);
	row_add(&row, why->sqlstate[0] ? why->sqlstate : NULL, strlen(why->sqlstate), true);
	row_add_str(&row, detail);
	row_add(&row, why->retry ? "1" : "0", 1, false);
	row_add(&row, delay, (size_t)delay_len, false);
	row_add(&row, why->has_day ? day : NULL, (size_t)day_len, false);
	const struct pg_values values = { row.count, row.data, row.lengths, row.formats };
	return pg_send(s, "park", &values, err);
}

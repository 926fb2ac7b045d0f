/* Reads basic properties for plugins. Headers come from anybody who may publish: whatever the bytes are, the answer is
 * "no properties" at worst, and nothing recurses deeper than a frame allows.
 *
 * Values keep their digits: what int64 cannot hold, and decimals, become text. */
#include "amqp/properties.h"
#include "amqp/encoded.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	/* Above any header frame that pump.c can meet. rabbitmq-c recurses once a nested table or array, which takes 5
	 * bytes of this: 4 MiB of stack at the most (measured). */
	ENCODED_MAX = 192 * 1024,
	POOL_PAGE = 2048,
};

amqp_basic_properties_t *encoded_decode(struct str encoded, amqp_pool_t *pool)
{
	init_amqp_pool(pool, POOL_PAGE);
	if (encoded.len == 0 || encoded.len > ENCODED_MAX)
		return NULL;
	void *decoded = NULL;
	const amqp_bytes_t bytes = { encoded.len, (void *)encoded.data };
	return amqp_decode_properties(AMQP_BASIC_CLASS, pool, bytes, &decoded) < 0 ? NULL : decoded;
}

amqp_table_t encoded_headers(const amqp_basic_properties_t *p)
{
	return p->_flags & AMQP_BASIC_HEADERS_FLAG ? p->headers : amqp_empty_table;
}

static void set_unsigned(struct header *h, enum header_kind kind, uint64_t number, struct arena *arena)
{
	if (number <= INT64_MAX) {
		h->kind = kind;
		h->number = (int64_t)number;
		return;
	}
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, number);
	h->kind = HEADER_TEXT;
	h->text = (struct str){ arena_copy(arena, digits, (size_t)len), (size_t)len };
}

static void set_decimal(struct header *h, amqp_decimal_t d, struct arena *arena)
{
	char digits[32];
	int len = snprintf(digits, sizeof(digits), "%" PRIu32 "e-%u", d.value, d.decimals);
	h->kind = HEADER_TEXT;
	h->text = (struct str){ arena_copy(arena, digits, (size_t)len), (size_t)len };
}

static void set_int(struct header *h, int64_t number)
{
	h->kind = HEADER_INT;
	h->number = number;
}

static void set_bytes(struct header *h, enum header_kind kind, amqp_bytes_t bytes)
{
	h->kind = kind;
	h->text = (struct str){ bytes.bytes, bytes.len };
}

static bool set_value(struct header *h, const amqp_field_value_t *v, struct arena *arena)
{
	switch (v->kind) {
	case AMQP_FIELD_KIND_BOOLEAN:
		h->kind = HEADER_BOOL;
		h->number = v->value.boolean ? 1 : 0;
		break;
	case AMQP_FIELD_KIND_I8:
		set_int(h, v->value.i8);
		break;
	case AMQP_FIELD_KIND_U8:
		set_int(h, v->value.u8);
		break;
	case AMQP_FIELD_KIND_I16:
		set_int(h, v->value.i16);
		break;
	case AMQP_FIELD_KIND_U16:
		set_int(h, v->value.u16);
		break;
	case AMQP_FIELD_KIND_I32:
		set_int(h, v->value.i32);
		break;
	case AMQP_FIELD_KIND_U32:
		set_int(h, v->value.u32);
		break;
	case AMQP_FIELD_KIND_I64:
		set_int(h, v->value.i64);
		break;
	case AMQP_FIELD_KIND_U64:
		set_unsigned(h, HEADER_INT, v->value.u64, arena);
		break;
	case AMQP_FIELD_KIND_TIMESTAMP:
		set_unsigned(h, HEADER_TIME, v->value.u64, arena);
		break;
	case AMQP_FIELD_KIND_F32:
		h->kind = HEADER_REAL;
		h->real = (double)v->value.f32;
		break;
	case AMQP_FIELD_KIND_F64:
		h->kind = HEADER_REAL;
		h->real = v->value.f64;
		break;
	case AMQP_FIELD_KIND_DECIMAL:
		set_decimal(h, v->value.decimal, arena);
		break;
	case AMQP_FIELD_KIND_UTF8:
		/* The kind promises UTF-8, nobody checks it. */
		set_bytes(h, text_is_utf8(v->value.bytes.bytes, v->value.bytes.len) ? HEADER_TEXT : HEADER_BYTES,
			  v->value.bytes);
		break;
	case AMQP_FIELD_KIND_BYTES:
		set_bytes(h, HEADER_BYTES, v->value.bytes);
		break;
	case AMQP_FIELD_KIND_VOID:
		h->kind = HEADER_NULL;
		break;
	default: /* tables and arrays; the decoder refuses kinds that it does not know */
		h->kind = HEADER_NESTED;
		break;
	}
	return h->kind != HEADER_TEXT || h->text.data;
}

static bool set_headers(struct properties *p, amqp_table_t table, struct arena *arena)
{
	if (table.num_entries == 0)
		return true;
	const size_t count = (size_t)table.num_entries;
	p->headers = arena_alloc(arena, count * sizeof(*p->headers));
	if (!p->headers)
		return false;
	memset(p->headers, 0, count * sizeof(*p->headers));
	p->header_count = count;
	for (size_t i = 0; i < count; i++) {
		struct header *h = &p->headers[i];
		h->name = (struct str){ table.entries[i].key.bytes, table.entries[i].key.len };
		if (!set_value(h, &table.entries[i].value, arena))
			return false;
	}
	return true;
}

static struct str property(const amqp_basic_properties_t *p, amqp_flags_t flag, amqp_bytes_t value)
{
	return p->_flags & flag ? (struct str){ value.bytes, value.len } : (struct str){ NULL, 0 };
}

static bool decode(struct str encoded, struct arena *arena, struct properties *ret)
{
	memset(ret, 0, sizeof(*ret));
	/* What is decoded points into the bytes: into a copy of the arena's. */
	const struct str copy = { arena_copy(arena, encoded.data, encoded.len), encoded.len };
	CLEANUP(empty_amqp_pool) amqp_pool_t pool;
	const amqp_basic_properties_t *p = encoded_decode(copy.data ? copy : (struct str){ NULL, 0 }, &pool);
	if (!p)
		return false;
	ret->content_type = property(p, AMQP_BASIC_CONTENT_TYPE_FLAG, p->content_type);
	ret->content_encoding = property(p, AMQP_BASIC_CONTENT_ENCODING_FLAG, p->content_encoding);
	ret->message_id = property(p, AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id);
	ret->correlation_id = property(p, AMQP_BASIC_CORRELATION_ID_FLAG, p->correlation_id);
	ret->type = property(p, AMQP_BASIC_TYPE_FLAG, p->type);
	ret->app_id = property(p, AMQP_BASIC_APP_ID_FLAG, p->app_id);
	ret->reply_to = property(p, AMQP_BASIC_REPLY_TO_FLAG, p->reply_to);
	ret->user_id = property(p, AMQP_BASIC_USER_ID_FLAG, p->user_id);
	if (p->_flags & AMQP_BASIC_TIMESTAMP_FLAG && p->timestamp <= INT64_MAX) {
		ret->has_timestamp = true;
		ret->timestamp_s = (int64_t)p->timestamp;
	}
	if (set_headers(ret, encoded_headers(p), arena))
		return true;
	memset(ret, 0, sizeof(*ret));
	return false;
}

const struct properties_codec amqp_properties = {
	.decode = decode,
	.headers_json = encoded_headers_json,
	.identity = encoded_identity,
};

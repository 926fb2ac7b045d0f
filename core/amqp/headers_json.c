/* Headers and other properties as JSON for people: for a row's column and a terminal, never read back.
 *
 * Always one valid value that jsonb can store: no NUL, only UTF-8, no NaN. What is not text is escaped as \xHH; what
 * is too deep, too long or too much is cut and says so. Numbers keep their digits. */
#include "amqp/encoded.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

enum { DEPTH_MAX = 16 };

const struct json_limits json_limits_row = { .text = 4096, .all = 128 * 1024 };
const struct json_limits json_limits_none = { .text = SIZE_MAX, .all = SIZE_MAX };

#define CUT "\"...\""

static void add_char(struct buffer *out, const char *at, size_t len)
{
	const unsigned char c = (unsigned char)*at;
	if (len > 1)
		buffer_add(out, at, len);
	else if (c == '"' || c == '\\')
		buffer_printf(out, "\\%c", c);
	else if (c == 0 || c >= 0x7f) /* NUL, DEL, not UTF-8: jsonb refuses the first and the last */
		buffer_printf(out, "\\\\x%02x", c);
	else if (c < 0x20)
		buffer_printf(out, "\\u%04x", c);
	else
		buffer_add(out, at, 1);
}

/* Bytes of the UTF-8 character at `at`, 1 when there is none. */
static size_t char_len(const char *at, size_t left)
{
	const unsigned char c = (unsigned char)*at;
	const size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
	return len <= left && text_is_utf8(at, len) ? len : 1;
}

void encoded_text_json(struct buffer *out, amqp_bytes_t bytes, const struct json_limits *limits)
{
	const char *at = bytes.bytes;
	const size_t end = bytes.len > limits->text ? text_utf8_cut(at, bytes.len, limits->text) : bytes.len;
	buffer_add(out, "\"", 1);
	for (size_t i = 0, len; i < end; i += len) {
		len = char_len(at + i, end - i);
		add_char(out, at + i, len);
	}
	buffer_puts(out, end < bytes.len ? "...\"" : "\"");
}

static void add_real(struct buffer *out, double real, int digits)
{
	if (isfinite(real))
		buffer_printf(out, "%.*g", digits, real);
	else
		buffer_puts(out, isnan(real) ? "\"NaN\"" : real > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

/* RFC 3339; a time that no calendar has stays a number. */
void encoded_time_json(struct buffer *out, uint64_t seconds)
{
	static const uint64_t year_10000 = 253402300800;
	const time_t t = (time_t)seconds;
	struct tm tm;
	char text[32];
	if (seconds < year_10000 && gmtime_r(&t, &tm) && strftime(text, sizeof(text), "\"%Y-%m-%dT%H:%M:%SZ\"", &tm))
		buffer_puts(out, text);
	else
		buffer_printf(out, "%" PRIu64, seconds);
}

static void add_table(struct buffer *out, amqp_table_t table, const struct json_limits *limits, int depth);
static void add_array(struct buffer *out, amqp_array_t array, const struct json_limits *limits, int depth);

static void add_value(struct buffer *out, const amqp_field_value_t *v, const struct json_limits *limits, int depth)
{
	switch (v->kind) {
	case AMQP_FIELD_KIND_BOOLEAN:
		buffer_puts(out, v->value.boolean ? "true" : "false");
		break;
	case AMQP_FIELD_KIND_I8:
		buffer_printf(out, "%d", v->value.i8);
		break;
	case AMQP_FIELD_KIND_U8:
		buffer_printf(out, "%u", v->value.u8);
		break;
	case AMQP_FIELD_KIND_I16:
		buffer_printf(out, "%d", v->value.i16);
		break;
	case AMQP_FIELD_KIND_U16:
		buffer_printf(out, "%u", v->value.u16);
		break;
	case AMQP_FIELD_KIND_I32:
		buffer_printf(out, "%" PRId32, v->value.i32);
		break;
	case AMQP_FIELD_KIND_U32:
		buffer_printf(out, "%" PRIu32, v->value.u32);
		break;
	case AMQP_FIELD_KIND_I64:
		buffer_printf(out, "%" PRId64, v->value.i64);
		break;
	case AMQP_FIELD_KIND_U64:
		buffer_printf(out, "%" PRIu64, v->value.u64);
		break;
	case AMQP_FIELD_KIND_F32:
		add_real(out, (double)v->value.f32, 9);
		break;
	case AMQP_FIELD_KIND_F64:
		add_real(out, v->value.f64, 17);
		break;
	case AMQP_FIELD_KIND_DECIMAL:
		buffer_printf(out, "%" PRIu32 "e-%u", v->value.decimal.value, v->value.decimal.decimals);
		break;
	case AMQP_FIELD_KIND_UTF8:
	case AMQP_FIELD_KIND_BYTES:
		encoded_text_json(out, v->value.bytes, limits);
		break;
	case AMQP_FIELD_KIND_TIMESTAMP:
		encoded_time_json(out, v->value.u64);
		break;
	case AMQP_FIELD_KIND_TABLE:
		add_table(out, v->value.table, limits, depth + 1);
		break;
	case AMQP_FIELD_KIND_ARRAY:
		add_array(out, v->value.array, limits, depth + 1);
		break;
	default:
		buffer_puts(out, "null");
		break;
	}
}

static void add_array(struct buffer *out, amqp_array_t array, const struct json_limits *limits, int depth)
{
	if (depth > DEPTH_MAX) {
		buffer_puts(out, CUT);
		return;
	}
	buffer_add(out, "[", 1);
	for (int i = 0; i < array.num_entries; i++) {
		buffer_puts(out, i ? "," : "");
		if (out->len > limits->all) {
			buffer_puts(out, CUT);
			break;
		}
		add_value(out, &array.entries[i], limits, depth);
	}
	buffer_add(out, "]", 1);
}

static void add_table(struct buffer *out, amqp_table_t table, const struct json_limits *limits, int depth)
{
	if (depth > DEPTH_MAX) {
		buffer_puts(out, CUT);
		return;
	}
	buffer_add(out, "{", 1);
	for (int i = 0; i < table.num_entries; i++) {
		buffer_puts(out, i ? "," : "");
		if (out->len > limits->all) {
			buffer_puts(out, CUT ":" CUT);
			break;
		}
		encoded_text_json(out, table.entries[i].key, limits);
		buffer_add(out, ":", 1);
		add_value(out, &table.entries[i].value, limits, depth);
	}
	buffer_add(out, "}", 1);
}

void encoded_value_json(struct buffer *out, const amqp_field_value_t *v, const struct json_limits *limits)
{
	add_value(out, v, limits, 0);
}

void encoded_headers_json(struct str encoded, struct arena *arena, struct buffer *out)
{
	(void)arena;
	CLEANUP(empty_amqp_pool) amqp_pool_t pool;
	const amqp_basic_properties_t *p = encoded_decode(encoded, &pool);
	add_table(out, p ? encoded_headers(p) : amqp_empty_table, &json_limits_row, 0);
}

/* Encoded properties, right, wrong and hostile. The bytes lie in blocks of exactly their size, so that the sanitizers
 * see every read beyond them. */
#include "amqp/properties.h"
#include <amqp.h>
#include <amqp_framing.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENCODED_MAX = 160 * 1024 };

static amqp_bytes_t text(const char *s)
{
	return amqp_cstring_bytes(s);
}

static amqp_table_entry_t entry(const char *name, uint8_t kind)
{
	amqp_table_entry_t e;
	memset(&e, 0, sizeof(e));
	e.key = text(name);
	e.value.kind = kind;
	return e;
}

static amqp_table_entry_t text_entry(const char *name, const char *value)
{
	amqp_table_entry_t e = entry(name, AMQP_FIELD_KIND_UTF8);
	e.value.value.bytes = text(value);
	return e;
}

static amqp_table_entry_t bytes_entry(const char *name, const char *value, size_t len)
{
	amqp_table_entry_t e = entry(name, AMQP_FIELD_KIND_UTF8);
	e.value.value.bytes = (amqp_bytes_t){ len, (void *)value };
	return e;
}

static amqp_table_entry_t int_entry(const char *name, int64_t value)
{
	amqp_table_entry_t e = entry(name, AMQP_FIELD_KIND_I64);
	e.value.value.i64 = value;
	return e;
}

/* A block of exactly the encoded size. */
static struct str encode(const amqp_basic_properties_t *p)
{
	static char room[ENCODED_MAX];
	const int len = amqp_encode_properties(AMQP_BASIC_CLASS, (void *)p, (amqp_bytes_t){ sizeof(room), room });
	assert_true(len > 0);
	char *copy = malloc((size_t)len);
	assert_non_null(copy);
	memcpy(copy, room, (size_t)len);
	return (struct str){ copy, (size_t)len };
}

static struct str encode_headers(amqp_table_entry_t *entries, int count)
{
	const amqp_basic_properties_t p = { ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { count, entries } };
	return encode(&p);
}

static void drop(struct str encoded)
{
	free((char *)encoded.data);
}

static void assert_text(struct str s, const char *expected)
{
	assert_non_null(s.data);
	assert_int_equal(s.len, strlen(expected));
	assert_memory_equal(s.data, expected, s.len);
}

static const struct header *find(const struct properties *p, const char *name)
{
	for (size_t i = 0; i < p->header_count; i++)
		if (p->headers[i].name.len == strlen(name) && memcmp(p->headers[i].name.data, name, strlen(name)) == 0)
			return &p->headers[i];
	fail_msg("no header %s", name);
	return NULL;
}

/* The headers as parsed JSON: that it parses at all is half of every test. */
static json_t *headers_json(struct str encoded)
{
	struct arena arena;
	struct buffer out = { 0 };
	arena_init(&arena);
	amqp_properties.headers_json(encoded, &arena, &out);
	assert_false(out.failed);
	json_error_t why;
	json_t *json = json_loadb(out.data, out.len, 0, &why);
	if (!json)
		fail_msg("%s in %.200s", why.text, buffer_text(&out));
	assert_true(json_is_object(json));
	buffer_finish(&out);
	arena_finish(&arena);
	return json;
}

static struct buffer identity(struct str encoded)
{
	struct arena arena;
	struct buffer out = { 0 };
	arena_init(&arena);
	amqp_properties.identity(encoded, &arena, &out);
	assert_false(out.failed);
	assert_true(out.len > 0);
	arena_finish(&arena);
	return out;
}

static bool same_identity(struct str a, struct str b)
{
	struct buffer x = identity(a), y = identity(b);
	const bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
	buffer_finish(&x);
	buffer_finish(&y);
	return same;
}

static void every_property_is_read(void **state)
{
	(void)state;
	const amqp_basic_properties_t p = {
		._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG |
			  AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG |
			  AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
			  AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_USER_ID_FLAG |
			  AMQP_BASIC_APP_ID_FLAG,
		.content_type = text("application/json"),
		.content_encoding = text("utf-8"),
		.delivery_mode = 2,
		.priority = 3,
		.correlation_id = text("c-1"),
		.reply_to = text("answers"),
		.expiration = text("1000"),
		.message_id = text("m-1"),
		.timestamp = 1700000000,
		.type = text("order-completed"),
		.user_id = text("shop"),
		.app_id = text("checkout"),
	};
	struct str encoded = encode(&p);
	struct arena arena;
	struct properties got;
	arena_init(&arena);
	assert_true(amqp_properties.decode(encoded, &arena, &got));
	memset((char *)encoded.data, 0xff, encoded.len); /* what was decoded is the arena's */
	drop(encoded);
	assert_text(got.content_type, "application/json");
	assert_text(got.content_encoding, "utf-8");
	assert_text(got.correlation_id, "c-1");
	assert_text(got.reply_to, "answers");
	assert_text(got.message_id, "m-1");
	assert_text(got.type, "order-completed");
	assert_text(got.user_id, "shop");
	assert_text(got.app_id, "checkout");
	assert_true(got.has_timestamp);
	assert_int_equal(got.timestamp_s, 1700000000);
	assert_int_equal(got.header_count, 0);
	arena_finish(&arena);
}

static void absent_properties_are_absent(void **state)
{
	(void)state;
	const amqp_basic_properties_t p = { ._flags = AMQP_BASIC_TYPE_FLAG, .type = text("t") };
	struct str encoded = encode(&p);
	struct arena arena;
	struct properties got;
	arena_init(&arena);
	assert_true(amqp_properties.decode(encoded, &arena, &got));
	assert_null(got.message_id.data);
	assert_null(got.content_type.data);
	assert_false(got.has_timestamp);
	arena_finish(&arena);
	drop(encoded);
}

enum { KINDS = 19 };

static int every_kind(amqp_table_entry_t *e, amqp_table_entry_t *inner, amqp_field_value_t *element)
{
	int n = 0;
	e[n] = entry("bool", AMQP_FIELD_KIND_BOOLEAN);
	e[n++].value.value.boolean = 1;
	e[n] = entry("i8", AMQP_FIELD_KIND_I8);
	e[n++].value.value.i8 = -8;
	e[n] = entry("u8", AMQP_FIELD_KIND_U8);
	e[n++].value.value.u8 = 200;
	e[n] = entry("i16", AMQP_FIELD_KIND_I16);
	e[n++].value.value.i16 = -1600;
	e[n] = entry("u16", AMQP_FIELD_KIND_U16);
	e[n++].value.value.u16 = 60000;
	e[n] = entry("i32", AMQP_FIELD_KIND_I32);
	e[n++].value.value.i32 = -320000;
	e[n] = entry("u32", AMQP_FIELD_KIND_U32);
	e[n++].value.value.u32 = 4000000000;
	e[n++] = int_entry("i64", -9007199254740993);
	e[n] = entry("u64", AMQP_FIELD_KIND_U64);
	e[n++].value.value.u64 = 9007199254740993;
	e[n] = entry("u64max", AMQP_FIELD_KIND_U64);
	e[n++].value.value.u64 = UINT64_MAX;
	e[n] = entry("f32", AMQP_FIELD_KIND_F32);
	e[n++].value.value.f32 = 0.5F;
	e[n] = entry("f64", AMQP_FIELD_KIND_F64);
	e[n++].value.value.f64 = -1e300;
	e[n] = entry("decimal", AMQP_FIELD_KIND_DECIMAL);
	e[n++].value.value.decimal = (amqp_decimal_t){ 2, 1999 };
	e[n++] = text_entry("text", "h\xc3\xa9");
	e[n] = entry("bytes", AMQP_FIELD_KIND_BYTES);
	e[n++].value.value.bytes = (amqp_bytes_t){ 3, "\x00\xff\x01" };
	e[n] = entry("time", AMQP_FIELD_KIND_TIMESTAMP);
	e[n++].value.value.u64 = 1700000000;
	e[n++] = entry("void", AMQP_FIELD_KIND_VOID);
	*inner = text_entry("in", "side");
	e[n] = entry("table", AMQP_FIELD_KIND_TABLE);
	e[n++].value.value.table = (amqp_table_t){ 1, inner };
	*element = inner->value;
	e[n] = entry("array", AMQP_FIELD_KIND_ARRAY);
	e[n++].value.value.array = (amqp_array_t){ 1, element };
	return n;
}

static void every_kind_of_header_is_read_exactly(void **state)
{
	(void)state;
	amqp_table_entry_t entries[KINDS], inner;
	amqp_field_value_t element;
	struct str encoded = encode_headers(entries, every_kind(entries, &inner, &element));
	struct arena arena;
	struct properties got;
	arena_init(&arena);
	assert_true(amqp_properties.decode(encoded, &arena, &got));
	drop(encoded);
	assert_int_equal(got.header_count, KINDS);

	static const struct {
		const char *name;
		enum header_kind kind;
		int64_t number;
	} numbers[] = {
		{ "bool", HEADER_BOOL, 1 },
		{ "i8", HEADER_INT, -8 },
		{ "u8", HEADER_INT, 200 },
		{ "i16", HEADER_INT, -1600 },
		{ "u16", HEADER_INT, 60000 },
		{ "i32", HEADER_INT, -320000 },
		{ "u32", HEADER_INT, 4000000000 },
		{ "i64", HEADER_INT, -9007199254740993 },
		{ "u64", HEADER_INT, 9007199254740993 },
		{ "time", HEADER_TIME, 1700000000 },
		{ "void", HEADER_NULL, 0 },
		{ "table", HEADER_NESTED, 0 },
		{ "array", HEADER_NESTED, 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const struct header *h = find(&got, numbers[i].name);
		assert_int_equal(h->kind, numbers[i].kind);
		assert_true(h->number == numbers[i].number);
	}
	assert_int_equal(find(&got, "f32")->kind, HEADER_REAL);
	assert_true(find(&got, "f32")->real == 0.5);
	assert_true(find(&got, "f64")->real == -1e300);
	assert_int_equal(find(&got, "u64max")->kind, HEADER_TEXT);
	assert_text(find(&got, "u64max")->text, "18446744073709551615");
	assert_text(find(&got, "decimal")->text, "1999e-2");
	assert_int_equal(find(&got, "text")->kind, HEADER_TEXT);
	assert_text(find(&got, "text")->text, "h\xc3\xa9");
	assert_int_equal(find(&got, "bytes")->kind, HEADER_BYTES);
	assert_int_equal(find(&got, "bytes")->text.len, 3);
	arena_finish(&arena);
}

static void text_that_is_no_utf8_is_bytes(void **state)
{
	(void)state;
	amqp_table_entry_t e = text_entry("bad", "\xc3\x28");
	struct str encoded = encode_headers(&e, 1);
	struct arena arena;
	struct properties got;
	arena_init(&arena);
	assert_true(amqp_properties.decode(encoded, &arena, &got));
	assert_int_equal(find(&got, "bad")->kind, HEADER_BYTES);
	arena_finish(&arena);
	drop(encoded);
}

static void every_kind_of_header_is_shown(void **state)
{
	(void)state;
	amqp_table_entry_t entries[KINDS], inner;
	amqp_field_value_t element;
	struct str encoded = encode_headers(entries, every_kind(entries, &inner, &element));
	struct arena arena;
	struct buffer out = { 0 };
	arena_init(&arena);
	amqp_properties.headers_json(encoded, &arena, &out);
	assert_string_equal(buffer_text(&out),
			    "{\"bool\":true,\"i8\":-8,\"u8\":200,\"i16\":-1600,\"u16\":60000,\"i32\":-320000,"
			    "\"u32\":4000000000,\"i64\":-9007199254740993,\"u64\":9007199254740993,"
			    "\"u64max\":18446744073709551615,\"f32\":0.5,\"f64\":-1.0000000000000001e+300,"
			    "\"decimal\":1999e-2,\"text\":\"h\xc3\xa9\",\"bytes\":\"\\\\x00\\\\xff\\u0001\","
			    "\"time\":\"2023-11-14T22:13:20Z\",\"void\":null,\"table\":{\"in\":\"side\"},"
			    "\"array\":[\"side\"]}");
	buffer_finish(&out);
	arena_finish(&arena);
	drop(encoded);
}

static void shown_headers_never_hold_what_jsonb_refuses(void **state)
{
	(void)state;
	amqp_table_entry_t e[] = {
		bytes_entry("nul", "a\0b", 3),
		bytes_entry("control", "\x01\x1f\n\"\\\x7f", 6),
		bytes_entry("broken", "\xc3\x28\xed\xa0\x80\xf0\x9f\x98", 8),
		bytes_entry("empty", "", 0),
		bytes_entry("n\xffme", "x", 1),
		entry("nan", AMQP_FIELD_KIND_F64),
		entry("inf", AMQP_FIELD_KIND_F64),
		entry("late", AMQP_FIELD_KIND_TIMESTAMP),
	};
	e[5].value.value.f64 = NAN;
	e[6].value.value.f64 = -INFINITY;
	e[7].value.value.u64 = UINT64_MAX;
	struct str encoded = encode_headers(e, ARRAY_LEN(e) - 1);
	json_t *json = headers_json(encoded);
	assert_string_equal(json_string_value(json_object_get(json, "nul")), "a\\x00b");
	assert_string_equal(json_string_value(json_object_get(json, "control")), "\x01\x1f\n\"\\\\x7f");
	assert_string_equal(json_string_value(json_object_get(json, "broken")), "\\xc3(\\xed\\xa0\\x80\\xf0\\x9f\\x98");
	assert_string_equal(json_string_value(json_object_get(json, "empty")), "");
	assert_string_equal(json_string_value(json_object_get(json, "n\\xffme")), "x");
	assert_string_equal(json_string_value(json_object_get(json, "nan")), "NaN");
	assert_string_equal(json_string_value(json_object_get(json, "inf")), "-Infinity");
	json_decref(json);
	drop(encoded);

	struct arena arena;
	struct buffer out = { 0 };
	encoded = encode_headers(&e[7], 1); /* jansson has no such number, jsonb has */
	arena_init(&arena);
	amqp_properties.headers_json(encoded, &arena, &out);
	assert_string_equal(buffer_text(&out), "{\"late\":18446744073709551615}");
	buffer_finish(&out);
	arena_finish(&arena);
	drop(encoded);
}

static void shown_headers_are_bounded(void **state)
{
	(void)state;
	static char long_text[60000];
	memset(long_text, 1, sizeof(long_text));
	enum { MANY = 8000 };
	static amqp_table_entry_t many[MANY];
	many[0] = bytes_entry("long", long_text, sizeof(long_text));
	for (int i = 1; i < MANY; i++)
		many[i] = bytes_entry("\x01\x01", "\x01", 1);
	struct str encoded = encode_headers(many, MANY);
	json_t *json = headers_json(encoded);
	const char *shown = json_string_value(json_object_get(json, "long"));
	assert_true(strlen(shown) < 5000);
	assert_string_equal(shown + strlen(shown) - 3, "...");
	assert_non_null(json_object_get(json, "..."));
	json_decref(json);
	drop(encoded);
}

static void add_shown(void *arg, const char *name, const char *header_json, const char *value_json)
{
	buffer_printf(arg, "%s=%s;", name ? name : header_json, value_json);
}

/* A person who looks at one message gets all of it, where a row's column is cut. */
static void every_property_is_shown_whole(void **state)
{
	(void)state;
	static char text[10000];
	memset(text, 'x', sizeof(text) - 1);
	amqp_table_entry_t entries[] = {
		{ amqp_cstring_bytes("a\"\n"),
		  { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(text) } },
		{ amqp_cstring_bytes("n"), { .kind = AMQP_FIELD_KIND_U64, .value.u64 = UINT64_MAX } },
	};
	const amqp_basic_properties_t p = {
		._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
			  AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_REPLY_TO_FLAG |
			  AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
			  AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_USER_ID_FLAG | AMQP_BASIC_APP_ID_FLAG |
			  AMQP_BASIC_CLUSTER_ID_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG,
		.content_type = amqp_cstring_bytes("a"),
		.content_encoding = amqp_cstring_bytes("b"),
		.headers = { 2, entries },
		.delivery_mode = 2,
		.priority = 9,
		.correlation_id = amqp_cstring_bytes("c"),
		.reply_to = amqp_cstring_bytes("d"),
		.expiration = amqp_cstring_bytes("e"),
		.message_id = amqp_cstring_bytes("f"),
		.timestamp = 0,
		.type = amqp_cstring_bytes("g"),
		.user_id = amqp_cstring_bytes("h"),
		.app_id = amqp_cstring_bytes("i"),
		.cluster_id = amqp_cstring_bytes("j"),
	};
	const struct str encoded = encode(&p);
	struct buffer got = { 0 }, expected = { 0 };
	assert_true(amqp_properties_each(encoded, add_shown, &got));
	buffer_printf(
		&expected,
		"content_type=\"a\";content_encoding=\"b\";correlation_id=\"c\";reply_to=\"d\";expiration=\"e\";"
		"message_id=\"f\";type=\"g\";user_id=\"h\";app_id=\"i\";cluster_id=\"j\";delivery_mode=2;"
		"priority=9;timestamp=\"1970-01-01T00:00:00Z\";\"a\\\"\\u000a\"=\"%s\";\"n\"=18446744073709551615;",
		text);
	assert_string_equal(buffer_text(&got), buffer_text(&expected));
	assert_false(amqp_properties_each((struct str){ NULL, 0 }, add_shown, &got));
	buffer_finish(&got);
	buffer_finish(&expected);
	drop(encoded);
}

static void no_headers_are_an_empty_object(void **state)
{
	(void)state;
	const amqp_basic_properties_t p = { ._flags = AMQP_BASIC_TYPE_FLAG, .type = text("t") };
	struct str encoded = encode(&p);
	json_t *json = headers_json(encoded);
	assert_int_equal(json_object_size(json), 0);
	json_decref(json);
	drop(encoded);
	json = headers_json((struct str){ NULL, 0 });
	assert_int_equal(json_object_size(json), 0);
	json_decref(json);
}

static void broken_bytes_are_no_properties(void **state)
{
	(void)state;
	amqp_table_entry_t entries[KINDS], inner;
	amqp_field_value_t element;
	struct str encoded = encode_headers(entries, every_kind(entries, &inner, &element));
	struct arena arena;
	struct properties got;
	arena_init(&arena);
	assert_false(amqp_properties.decode((struct str){ NULL, 0 }, &arena, &got));
	for (size_t len = 0; len < encoded.len; len++) {
		AUTOFREE char *cut = malloc(len + 1);
		char *exact = realloc(cut, len ? len : 1);
		cut = exact;
		memcpy(exact, encoded.data, len);
		memset(&got, 0xff, sizeof(got));
		assert_false(amqp_properties.decode((struct str){ exact, len }, &arena, &got));
		assert_null(got.headers);
		assert_int_equal(got.header_count, 0);
		json_decref(headers_json((struct str){ exact, len }));
		struct buffer id = identity((struct str){ exact, len });
		assert_int_equal(id.len, len + 1);
		buffer_finish(&id);
	}
	/* An unknown kind of field: the message stays usable, without properties. */
	char *kind = memchr(encoded.data, 't', encoded.len);
	*kind = '?';
	assert_false(amqp_properties.decode(encoded, &arena, &got));
	arena_finish(&arena);
	drop(encoded);
}

/* levels of nested tables or arrays, as deep as a frame can hold them. */
static struct str nested(uint8_t kind, size_t levels)
{
	const size_t level = kind == AMQP_FIELD_KIND_TABLE ? 6 : 5; /* kind, size, and a table's empty name */
	const size_t len = 2 + 4 + 1 + levels * level - (kind == AMQP_FIELD_KIND_TABLE ? 1 : 0);
	unsigned char *bytes = malloc(len), *at = bytes;
	assert_non_null(bytes);
	*at++ = 0x20; /* headers */
	*at++ = 0;
	size_t left = len - 6;
	for (int shift = 24; shift >= 0; shift -= 8)
		*at++ = (unsigned char)(left >> shift);
	*at++ = 0; /* the outer table's member has an empty name */
	left--;
	for (size_t i = 0; i < levels; i++) {
		*at++ = kind;
		left -= 5;
		for (int shift = 24; shift >= 0; shift -= 8)
			*at++ = (unsigned char)(left >> shift);
		if (kind == AMQP_FIELD_KIND_TABLE && i + 1 < levels) {
			*at++ = 0;
			left--;
		}
	}
	assert_int_equal(at - bytes, len);
	return (struct str){ (char *)bytes, len };
}

static void hostile_nesting_is_survived(void **state)
{
	(void)state;
	static const uint8_t kinds[] = { AMQP_FIELD_KIND_TABLE, AMQP_FIELD_KIND_ARRAY };
	static const size_t levels[] = { 1, 15, 16, 17, 63, 64, 65, 66, 1000, 20000, 30000, 1000000 };
	struct arena arena;
	arena_init(&arena);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		for (size_t l = 0; l < ARRAY_LEN(levels); l++) {
			struct str encoded = nested(kinds[k], levels[l]);
			struct properties got;
			const bool decoded = amqp_properties.decode(encoded, &arena, &got);
			assert_int_equal(decoded, levels[l] <= 30000);
			assert_int_equal(got.header_count, decoded ? 1 : 0);
			json_decref(headers_json(encoded));
			struct buffer id = identity(encoded);
			assert_int_equal(id.data[0], levels[l] <= 64 ? 1 : 0);
			buffer_finish(&id);
			drop(encoded);
			arena_reset(&arena);
		}
	}
	arena_finish(&arena);
}

static void identity_ignores_what_the_broker_adds(void **state)
{
	(void)state;
	amqp_table_entry_t death = entry("x-death", AMQP_FIELD_KIND_ARRAY);
	amqp_table_entry_t first[] = { text_entry("tenant", "a"), int_entry("version", 3) };
	amqp_table_entry_t again[] = {
		int_entry("x-delivery-count", 4),
		text_entry("x-first-death-queue", "q"),
		int_entry("version", 3), /* hash tables of publishers keep no order */
		death,
		text_entry("x-last-death-reason", "expired"),
		int_entry("x-acquired-count", 1),
		text_entry("tenant", "a"),
	};
	struct str a = encode_headers(first, ARRAY_LEN(first)), b = encode_headers(again, ARRAY_LEN(again));
	assert_true(same_identity(a, b));
	drop(a);
	drop(b);
}

static void identity_tells_different_messages_apart(void **state)
{
	(void)state;
	amqp_table_entry_t e[] = {
		text_entry("a", "bc"),       text_entry("ab", "c"),    text_entry("a", "b"),
		int_entry("a", 1),           int_entry("a", 2),        entry("a", AMQP_FIELD_KIND_VOID),
		text_entry("x-death-x", ""), text_entry("x-deat", ""), text_entry("X-death", ""),
		text_entry("a", "SS"),       text_entry("aS", "S"),
	};
	amqp_table_entry_t time = entry("a", AMQP_FIELD_KIND_TIMESTAMP);
	time.value.value.u64 = 1;
	const amqp_basic_properties_t p[] = {
		{ ._flags = 0 },
		{ ._flags = AMQP_BASIC_MESSAGE_ID_FLAG, .message_id = text("") },
		{ ._flags = AMQP_BASIC_MESSAGE_ID_FLAG, .message_id = text("1") },
		{ ._flags = AMQP_BASIC_TYPE_FLAG, .type = text("1") },
		{ ._flags = AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG,
		  .message_id = text(""),
		  .type = text("1") },
		{ ._flags = AMQP_BASIC_TIMESTAMP_FLAG, .timestamp = 1 },
		{ ._flags = AMQP_BASIC_TIMESTAMP_FLAG, .timestamp = 2 },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[0] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[1] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[2] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[3] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[4] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[5] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[6] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[7] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[8] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[9] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &e[10] } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 1, &time } },
		{ ._flags = AMQP_BASIC_HEADERS_FLAG, .headers = { 2, &e[0] } },
	};
	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		for (size_t j = 0; j < ARRAY_LEN(p); j++) {
			struct str a = encode(&p[i]), b = encode(&p[j]);
			assert_int_equal(same_identity(a, b), i == j);
			drop(a);
			drop(b);
		}
	}
}

static void identity_ignores_properties_that_only_steer_delivery(void **state)
{
	(void)state;
	const amqp_basic_properties_t plain = { ._flags = AMQP_BASIC_MESSAGE_ID_FLAG, .message_id = text("1") };
	const amqp_basic_properties_t more = { ._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
							 AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_PRIORITY_FLAG,
					       .message_id = text("1"),
					       .content_type = text("application/json"),
					       .delivery_mode = 2,
					       .priority = 1 };
	struct str a = encode(&plain), b = encode(&more);
	assert_true(same_identity(a, b));
	drop(a);
	drop(b);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return *seed >> 33;
}

static void random_damage_is_survived(void **state)
{
	(void)state;
	amqp_table_entry_t entries[KINDS], inner;
	amqp_field_value_t element;
	struct str good = encode_headers(entries, every_kind(entries, &inner, &element));
	struct arena arena;
	arena_init(&arena);
	uint64_t seed = 1;
	struct buffer shown = { 0 };
	for (int round = 0; round < 50000; round++) {
		const size_t len = random_next(&seed) % 4 ? good.len : 1 + random_next(&seed) % good.len;
		char *bytes = malloc(len);
		memcpy(bytes, good.data, len);
		for (uint64_t n = 1 + random_next(&seed) % 4; n > 0; n--)
			bytes[random_next(&seed) % len] = (char)random_next(&seed);
		const struct str encoded = { bytes, len };
		struct properties got;
		if (!amqp_properties.decode(encoded, &arena, &got))
			assert_int_equal(got.header_count, 0);
		for (size_t i = 0; i < got.header_count; i++)
			if (got.headers[i].text.len)
				assert_non_null(memchr(got.headers[i].text.data, got.headers[i].text.data[0],
						       got.headers[i].text.len));
		struct buffer json = { 0 }, id = { 0 };
		amqp_properties.headers_json(encoded, &arena, &json);
		assert_true(text_is_utf8(json.data, json.len));
		assert_null(memchr(json.data, 0, json.len));
		amqp_properties.identity(encoded, &arena, &id);
		assert_true(id.len > 0);
		if (amqp_properties_each(encoded, add_shown, &shown))
			assert_true(text_is_utf8(shown.data, shown.len));
		buffer_clear(&shown);
		buffer_finish(&json);
		buffer_finish(&id);
		arena_reset(&arena);
		free(bytes);
	}
	buffer_finish(&shown);
	arena_finish(&arena);
	drop(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_property_is_read),
		cmocka_unit_test(absent_properties_are_absent),
		cmocka_unit_test(every_kind_of_header_is_read_exactly),
		cmocka_unit_test(text_that_is_no_utf8_is_bytes),
		cmocka_unit_test(every_kind_of_header_is_shown),
		cmocka_unit_test(shown_headers_never_hold_what_jsonb_refuses),
		cmocka_unit_test(shown_headers_are_bounded),
		cmocka_unit_test(every_property_is_shown_whole),
		cmocka_unit_test(no_headers_are_an_empty_object),
		cmocka_unit_test(broken_bytes_are_no_properties),
		cmocka_unit_test(hostile_nesting_is_survived),
		cmocka_unit_test(identity_ignores_what_the_broker_adds),
		cmocka_unit_test(identity_tells_different_messages_apart),
		cmocka_unit_test(identity_ignores_properties_that_only_steer_delivery),
		cmocka_unit_test(random_damage_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

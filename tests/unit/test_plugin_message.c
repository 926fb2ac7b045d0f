/* A message as plugins see it: JSON that is exactly what was sent or none at all, properties decoded once. */
#include "plugin_fixture.h"
#include <stdio.h>

static const struct effectd_json *json(struct fixture *f, const char *body, size_t len)
{
	fixture_body(f, body, len);
	return f->message.pub.host->json(&f->message.pub);
}
#define JSON(f, literal) json(f, literal, sizeof(literal) - 1)

static void expect_no_json(struct fixture *f, const char *body, size_t len, const char *text)
{
	assert_null(json(f, body, len));
	const char *error = f->message.pub.host->json_error(&f->message.pub);
	assert_non_null(error);
	if (!strstr(error, text))
		fail_msg("\"%s\" does not say \"%s\"", error, text);
	assert_string_equal(effectd_json_error(&f->message.pub), error);
}
#define NO_JSON(f, literal, text) expect_no_json(f, literal, sizeof(literal) - 1, text)

static void integers_are_exact_or_an_error(void **state)
{
	struct fixture *f = *state;
	int64_t n;
	assert_non_null(JSON(f, "{\"id\": 9223372036854775807, \"low\": -9223372036854775808, \"real\": 1.0}"));
	assert_true(effectd_json_int64(&f->message.pub, "id", &n));
	assert_int_equal(n, INT64_MAX);
	assert_true(effectd_json_int64(&f->message.pub, "low", &n));
	assert_int_equal(n, INT64_MIN);
	assert_false(effectd_json_int64(&f->message.pub, "real", &n));
	assert_false(effectd_json_int64(&f->message.pub, "none", &n));
	NO_JSON(f, "{\"id\": 9223372036854775808}", "a number too large for 64 bits at line 1, column 26");
}

static void what_is_no_json_says_where(void **state)
{
	struct fixture *f = *state;
	NO_JSON(f, "", "the body is empty");
	NO_JSON(f, "hello", "the body is not JSON: wrong syntax at line 1, column 5");
	NO_JSON(f, "{\"a\": 1", "it ends too early");
	NO_JSON(f, "{\"a\": 1} x", "something follows its end");
	NO_JSON(f, "{\"a\": 1,\n\"a\": 2}", "a key that occurs twice in one object at line 2");
	NO_JSON(f, "\"\xff\"", "invalid UTF-8");
	NO_JSON(f, "\xEF\xBB\xBF{}", "byte order mark");
	NO_JSON(f, "{\"a\\u0000b\": 1}", "a NUL in a key");
	NO_JSON(f, "{}\0", "something follows its end");
	NO_JSON(f, "NaN", "wrong syntax");
	NO_JSON(f, "{'a': 1}", "wrong syntax");
	NO_JSON(f, "[1,]", "wrong syntax");
	NO_JSON(f, "   ", "the body is not JSON");
}

static void an_error_never_quotes_the_body(void **state)
{
	struct fixture *f = *state;
	NO_JSON(f, "{\"password\": hunter2}", "wrong syntax");
	assert_null(strstr(f->message.json_error, "hunter2"));
	NO_JSON(f, "{\"secret\": 1, \"secret\": 2}", "occurs twice");
	assert_null(strstr(f->message.json_error, "secret"));
}

static void nested(char *body, size_t depth)
{
	memset(body, '[', depth);
	memset(body + depth, ']', depth);
}

static void expect_source(struct fixture *f, const struct effectd_json *node, const char *text)
{
	const struct effectd_str s = f->message.pub.host->json_source(&f->message.pub, node);
	if (!effectd_str_equals(s, text))
		fail_msg("\"%.*s\" is not \"%s\"", (int)s.len, s.data ? s.data : "", text);
}

/* In memory of just its size, so that a look behind the end is seen. */
static void a_node_s_source_is_what_was_written(void **state)
{
	static const char text[] =
		" {\"a\\\"}\": [1 , 12.50,{ }\n, \"x\\\\\"],\"b\":{\"c\" : -0.10e+03 , \"d\":[ ]}, \"e\": true, "
		"\"f\":null,\"last\":1e2}";
	struct fixture *f = *state;
	const struct effectd_host *h = f->message.pub.host;
	char *exact = malloc(sizeof(text) - 1);
	assert_non_null(exact);
	memcpy(exact, text, sizeof(text) - 1);
	const struct effectd_json *root = json(f, exact, sizeof(text) - 1), *a = h->json_member(root, "a\"}");
	const struct effectd_json *b = h->json_member(root, "b");
	expect_source(f, root, text + 1);
	expect_source(f, a, "[1 , 12.50,{ }\n, \"x\\\\\"]");
	expect_source(f, h->json_element(a, 0), "1");
	expect_source(f, h->json_element(a, 1), "12.50");
	expect_source(f, h->json_element(a, 2), "{ }");
	expect_source(f, h->json_element(a, 3), "\"x\\\\\"");
	expect_source(f, b, "{\"c\" : -0.10e+03 , \"d\":[ ]}");
	expect_source(f, h->json_member(b, "c"), "-0.10e+03");
	expect_source(f, h->json_member(b, "d"), "[ ]");
	expect_source(f, h->json_member(root, "e"), "true");
	expect_source(f, h->json_member(root, "f"), "null");
	expect_source(f, h->json_member(root, "last"), "1e2");
	assert_null(h->json_source(&f->message.pub, NULL).data);

	struct effectd_str s;
	assert_true(effectd_json_numeric(&f->message.pub, "last", &s));
	assert_true(effectd_str_equals(s, "1e2"));
	assert_false(effectd_json_numeric(&f->message.pub, "e", &s));
	assert_false(effectd_json_numeric(&f->message.pub, "none", &s));
	fixture_body(f, "", 0);
	free(exact);

	exact = malloc(4);
	assert_non_null(exact);
	memcpy(exact, " 7.0", 4);
	expect_source(f, json(f, exact, 4), "7.0");
	fixture_body(f, "", 0);
	free(exact);
}

static void nesting_is_capped_before_anything_recurses(void **state)
{
	struct fixture *f = *state;
	static char body[200000];
	nested(body, 128);
	assert_non_null(json(f, body, 256));
	nested(body, 129);
	expect_no_json(f, body, 258, "nested deeper than 128");
	nested(body, 100000);
	expect_no_json(f, body, 200000, "nested deeper than 128");

	size_t len = (size_t)snprintf(body, sizeof(body), "{\"a\": \"\\\"");
	memset(body + len, '{', 1000);
	len += 1000;
	len += (size_t)snprintf(body + len, sizeof(body) - len, "\"}");
	assert_non_null(json(f, body, len)); /* brackets in a string nest nothing */
	memset(body, ']', 1000);
	nested(body + 1000, 200);
	expect_no_json(f, body, 1400, "nested deeper than 128"); /* and closing first wins nothing */
}

static void every_kind_is_told_apart(void **state)
{
	struct fixture *f = *state;
	const struct effectd_host *h = f->message.pub.host;
	const struct effectd_json *root = JSON(
		f, "{\"n\": null, \"b\": true, \"i\": 1, \"r\": 1.5, \"s\": \"a\\u0000b\", \"o\": {}, \"a\": [4, 5]}");
	const struct {
		const char *name;
		effectd_json_kind kind;
	} kinds[] = {
		{ "n", EFFECTD_JSON_NULL },  { "b", EFFECTD_JSON_BOOL },   { "i", EFFECTD_JSON_INTEGER },
		{ "r", EFFECTD_JSON_REAL },  { "s", EFFECTD_JSON_STRING }, { "o", EFFECTD_JSON_OBJECT },
		{ "a", EFFECTD_JSON_ARRAY }, { "x", EFFECTD_JSON_ABSENT },
	};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		assert_int_equal(h->json_kind(h->json_member(root, kinds[i].name)), kinds[i].kind);
	assert_int_equal(h->json_size(root), 7);
	assert_int_equal(h->json_size(h->json_member(root, "a")), 2);
	assert_int_equal(h->json_size(NULL), 0);
	struct effectd_str s;
	assert_true(effectd_json_text(&f->message.pub, "s", &s));
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.data, "a\0b", 3);
	assert_false(effectd_json_text(&f->message.pub, "i", &s));
	bool b = false;
	assert_true(effectd_json_bool(&f->message.pub, "b", &b));
	assert_true(b);
	assert_false(effectd_json_bool(&f->message.pub, "i", &b));
	int64_t n;
	assert_true(h->json_int64(h->json_element(h->json_member(root, "a"), 1), &n));
	assert_int_equal(n, 5);
	assert_null(h->json_element(h->json_member(root, "a"), 2));
	assert_null(h->json_element(root, 0));
	assert_null(h->json_member(NULL, "a"));
	assert_null(h->json_member(root, NULL));
	assert_null(h->json_error(&f->message.pub));
}

/* ---- properties ---- */

static unsigned decoded;
static bool decode_well;

static bool decode(struct str encoded, struct arena *arena, struct properties *ret)
{
	(void)encoded;
	decoded++;
	struct header *headers = arena_alloc(arena, 4 * sizeof(*headers));
	assert_non_null(headers);
	headers[0] = (struct header){ .name = STR("tenant"), .kind = HEADER_TEXT, .text = STR("blue") };
	headers[1] = (struct header){ .name = STR("tenant"), .kind = HEADER_TEXT, .text = STR("second") };
	headers[2] = (struct header){ .name = STR("version"), .kind = HEADER_INT, .number = 7 };
	headers[3] = (struct header){ .name = STR("table"), .kind = HEADER_NESTED };
	*ret = (struct properties){
		.content_type = STR("application/json"),
		.has_timestamp = true,
		.timestamp_s = 1700000000,
		.headers = headers,
		.header_count = 4,
	};
	return decode_well;
}

static const struct properties_codec codec = { .decode = decode };

static void properties_are_decoded_once_and_only_when_asked(void **state)
{
	struct fixture *f = *state;
	const struct effectd_message *msg = &f->message.pub;
	f->message.codec = &codec;
	f->message.routing_key = STR("order.completed");
	decoded = 0;
	decode_well = true;
	assert_true(effectd_str_equals(effectd_routing_key(msg), "order.completed"));
	assert_true(effectd_str_equals(msg->host->property(msg, EFFECTD_EXCHANGE), ""));
	assert_int_equal(decoded, 0);

	assert_true(effectd_str_equals(effectd_content_type(msg), "application/json"));
	assert_null(effectd_message_id(msg).data);
	assert_null(msg->host->property(msg, 99).data);
	assert_true(effectd_str_equals(effectd_header(msg, "tenant"), "blue"));
	assert_null(effectd_header(msg, "version").data);
	assert_null(effectd_header(msg, "table").data);
	assert_null(effectd_header(msg, "ten").data);
	int64_t n;
	assert_true(msg->host->header_int64(msg, "version", &n));
	assert_int_equal(n, 7);
	assert_false(msg->host->header_int64(msg, "tenant", &n));
	assert_true(msg->host->timestamp_us(msg, &n));
	assert_int_equal(n, INT64_C(1700000000000000));
	assert_int_equal(decoded, 1);
}

static void properties_that_cannot_be_read_are_absent(void **state)
{
	struct fixture *f = *state;
	const struct effectd_message *msg = &f->message.pub;
	f->message.codec = &codec;
	decode_well = false;
	int64_t n;
	assert_null(effectd_content_type(msg).data);
	assert_null(effectd_header(msg, "tenant").data);
	assert_false(msg->host->timestamp_us(msg, &n));
	f->message.codec = NULL;
	message_prepare(&f->message, &f->arena);
	assert_null(effectd_content_type(msg).data);
}

static void a_body_without_bytes_is_empty_and_not_absent(void **state)
{
	struct fixture *f = *state;
	fixture_body(f, NULL, 0);
	assert_non_null(effectd_body(&f->message.pub).data);
	assert_int_equal(effectd_body(&f->message.pub).len, 0);
	assert_int_equal(f->message.pub.host->attempt(&f->message.pub), 1);
	assert_false(f->message.pub.host->redelivered(&f->message.pub));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(integers_are_exact_or_an_error),
		FIXTURE_TEST(what_is_no_json_says_where),
		FIXTURE_TEST(an_error_never_quotes_the_body),
		FIXTURE_TEST(a_node_s_source_is_what_was_written),
		FIXTURE_TEST(nesting_is_capped_before_anything_recurses),
		FIXTURE_TEST(every_kind_is_told_apart),
		FIXTURE_TEST(properties_are_decoded_once_and_only_when_asked),
		FIXTURE_TEST(properties_that_cannot_be_read_are_absent),
		FIXTURE_TEST(a_body_without_bytes_is_empty_and_not_absent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

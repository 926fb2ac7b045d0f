/* Values: each kind as the bytes that PostgreSQL expects, and nothing that it does not expect. */
#include "plugin_fixture.h"

static struct effectd_value given;

static effectd_verdict exec_given(struct effectd_call *call, const struct effectd_message *msg)
{
	(void)msg;
	effectd_exec(call, 0, given);
	return EFFECTD_OK;
}

static effectd_verdict encode(struct fixture *f, struct effectd_value value, uint32_t oid)
{
	given = value;
	f->plugin.descriptor.apply = exec_given;
	f->prepared[0].param_count = 1;
	f->prepared[0].param_types[0] = oid;
	return plugin_call_apply(&f->call, &f->message);
}

static void expect_sent(struct fixture *f, struct effectd_value value, uint32_t oid, const char *data, size_t len,
			int format)
{
	if (encode(f, value, oid) != EFFECTD_OK)
		fail_msg("type %u: %s", oid, f->call.text);
	assert_int_equal(f->call.op_count, 1);
	const struct pg_values *v = &f->call.first->values;
	assert_int_equal(v->count, 1);
	assert_int_equal(v->formats[0], format);
	assert_int_equal(v->lengths[0], len);
	assert_memory_equal(v->data[0], data, len);
	if (format == 0)
		assert_int_equal(v->data[0][len], 0); /* libpq asks strlen */
}
#define BINARY(f, value, oid, bytes) expect_sent(f, value, oid, bytes, sizeof(bytes) - 1, 1)
#define TEXT(f, value, oid, bytes)   expect_sent(f, value, oid, bytes, sizeof(bytes) - 1, 0)

static void expect_fault(struct fixture *f, struct effectd_value value, uint32_t oid, effectd_verdict verdict,
			 const char *text)
{
	assert_int_equal(encode(f, value, oid), verdict);
	assert_int_equal(f->call.op_count, 0);
	if (!strstr(f->call.text, text))
		fail_msg("\"%s\" does not say \"%s\"", f->call.text, text);
}

static struct effectd_str s(const char *text)
{
	return (struct effectd_str){ text, strlen(text) };
}

static void numbers_go_in_binary_of_their_exact_width(void **state)
{
	struct fixture *f = *state;
	BINARY(f, effectd_bool(true), OID_BOOL, "\1");
	BINARY(f, effectd_bool(false), OID_BOOL, "\0");
	BINARY(f, effectd_int2(-2), OID_INT2, "\xff\xfe");
	BINARY(f, effectd_int4(258), OID_INT4, "\0\0\1\2");
	BINARY(f, effectd_int8(INT64_MAX), OID_INT8, "\x7f\xff\xff\xff\xff\xff\xff\xff");
	BINARY(f, effectd_int8(INT64_MIN), OID_INT8, "\x80\0\0\0\0\0\0\0");
}

static void days_and_times_count_from_2000(void **state)
{
	struct fixture *f = *state;
	BINARY(f, effectd_date(10957), OID_DATE, "\0\0\0\0");
	BINARY(f, effectd_date(0), OID_DATE, "\xff\xff\xd5\x33");
	BINARY(f, effectd_timestamptz(INT64_C(946684800000001)), OID_TIMESTAMPTZ, "\0\0\0\0\0\0\0\1");
}

static void a_time_that_would_mean_infinity_or_wrap_is_the_messages_fault(void **state)
{
	struct fixture *f = *state;
	expect_fault(f, effectd_date(INT32_MIN), OID_DATE, EFFECTD_REJECT, "out of range");
	expect_fault(f, effectd_date(INT32_MIN + 10957), OID_DATE, EFFECTD_REJECT, "out of range");
	expect_fault(f, effectd_timestamptz(INT64_MIN), OID_TIMESTAMPTZ, EFFECTD_REJECT, "out of range");
	expect_fault(f, effectd_timestamptz(INT64_MIN + INT64_C(946684800000000)), OID_TIMESTAMPTZ, EFFECTD_REJECT,
		     "out of range");
	const int64_t times[] = { 0, INT64_MIN };
	expect_fault(f, effectd_timestamptz_array(times, 2), OID_TIMESTAMPTZ_ARRAY, EFFECTD_REJECT, "out of range");
}

static void text_goes_in_binary_so_that_no_byte_is_lost(void **state)
{
	struct fixture *f = *state;
	BINARY(f, effectd_cstr("caf\xc3\xa9"), OID_TEXT, "caf\xc3\xa9");
	BINARY(f, effectd_cstr(""), OID_VARCHAR, "");
	BINARY(f, effectd_text((struct effectd_str){ "a\0b", 3 }), OID_TEXT, "a\0b"); /* the server refuses it: 22021 */
	BINARY(f, effectd_bytea((struct effectd_str){ "\0\xff", 2 }), OID_BYTEA, "\0\xff");
}

static void text_serves_types_that_have_no_value_of_their_own(void **state)
{
	struct fixture *f = *state;
	TEXT(f, effectd_cstr("0b0e"), OID_UUID, "0b0e");
	TEXT(f, effectd_cstr("1.5"), OID_FLOAT8, "1.5");
	TEXT(f, effectd_cstr("2026-01-01"), OID_TIMESTAMP, "2026-01-01");
	TEXT(f, effectd_cstr("open"), OID_ENUM, "open");
	const struct effectd_str list[] = { s("a"), { NULL, 0 }, s("b\"\\c"), s("") };
	TEXT(f, effectd_text_array(list, 4), OID_UUID_ARRAY, "{\"a\",NULL,\"b\\\"\\\\c\",\"\"}");
	expect_fault(f, effectd_text((struct effectd_str){ "a\0b", 3 }), OID_UUID, EFFECTD_REJECT,
		     "statement first, parameter 1: the value contains a NUL byte");
}

static void numeric_is_sent_to_the_digit(void **state)
{
	struct fixture *f = *state;
	TEXT(f, effectd_numeric(s("12345678901234567890.123456789")), OID_NUMERIC, "12345678901234567890.123456789");
	const struct effectd_str list[] = { s("0.10"), { NULL, 0 } };
	TEXT(f, effectd_numeric_array(list, 2), OID_NUMERIC_ARRAY, "{\"0.10\",NULL}");
	TEXT(f, effectd_numeric_array(NULL, 0), OID_NUMERIC_ARRAY, "{}");
	expect_fault(f, effectd_numeric((struct effectd_str){ "1\0", 2 }), OID_NUMERIC, EFFECTD_REJECT, "NUL byte");
	const struct effectd_str nul = { "1\0", 2 };
	expect_fault(f, effectd_numeric_array(&nul, 1), OID_NUMERIC_ARRAY, EFFECTD_REJECT, "NUL byte");
}

static void json_and_the_body_keep_every_byte(void **state)
{
	struct fixture *f = *state;
	BINARY(f, effectd_jsonb(s("{\"a\": 1e400}")), OID_JSON, "{\"a\": 1e400}");
	BINARY(f, effectd_jsonb(s("[]")), OID_JSONB, "\1[]");
	static const char body[] = "{ \"id\": 9223372036854775807 }";
	fixture_body(f, body, sizeof(body) - 1);
	BINARY(f, effectd_body_json(), OID_JSON, "{ \"id\": 9223372036854775807 }");
	assert_ptr_equal(f->call.first->values.data[0], body); /* not copied */
	BINARY(f, effectd_body_json(), OID_JSONB, "\1{ \"id\": 9223372036854775807 }");
	const struct effectd_str list[] = { s("1"), { NULL, 0 } };
	BINARY(f, effectd_jsonb_array(list, 2), OID_JSONB_ARRAY,
	       "\0\0\0\1\0\0\0\1\0\0\x0e\xda\0\0\0\2\0\0\0\1"
	       "\0\0\0\2\1"
	       "1\xff\xff\xff\xff");
}

static void arrays_are_binary_with_their_elements_type(void **state)
{
	struct fixture *f = *state;
	const int64_t i8[] = { 1, -1 };
	BINARY(f, effectd_int8_array(i8, 2), OID_INT8_ARRAY,
	       "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\2\0\0\0\1"
	       "\0\0\0\x08\0\0\0\0\0\0\0\1"
	       "\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff");
	const int32_t i4[] = { 7 }, days[] = { 10958 };
	BINARY(f, effectd_int4_array(i4, 1), OID_INT4_ARRAY,
	       "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\7");
	BINARY(f, effectd_date_array(days, 1), OID_DATE_ARRAY,
	       "\0\0\0\1\0\0\0\0\0\0\4\x3a\0\0\0\1\0\0\0\1\0\0\0\4\0\0\0\1");
	const int16_t i2[] = { 3 };
	BINARY(f, effectd_int2_array(i2, 1), OID_INT2_ARRAY, "\0\0\0\1\0\0\0\0\0\0\0\x15\0\0\0\1\0\0\0\1\0\0\0\2\0\3");
	const bool bools[] = { true, false };
	BINARY(f, effectd_bool_array(bools, 2), OID_BOOL_ARRAY,
	       "\0\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\2\0\0\0\1\0\0\0\1\1\0\0\0\1\0");
	const struct effectd_str texts[] = { s("x"), { NULL, 0 }, s("") };
	BINARY(f, effectd_text_array(texts, 3), OID_TEXT_ARRAY,
	       "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1\0\0\0\1x\xff\xff\xff\xff\0\0\0\0");
	BINARY(f, effectd_int8_array(NULL, 0), OID_INT8_ARRAY, "\0\0\0\0\0\0\0\0\0\0\0\x14");
}

static void null_fits_everything(void **state)
{
	struct fixture *f = *state;
	const struct effectd_value nulls[] = { effectd_null(), effectd_text((struct effectd_str){ NULL, 0 }),
					       effectd_cstr(NULL), effectd_numeric((struct effectd_str){ NULL, 0 }) };
	for (size_t i = 0; i < ARRAY_LEN(nulls); i++) {
		assert_int_equal(encode(f, nulls[i], OID_INT8), EFFECTD_OK);
		assert_null(f->call.first->values.data[0]);
	}
}

static void nothing_is_converted(void **state)
{
	struct fixture *f = *state;
	const int32_t i4[] = { 1 };
	const struct effectd_str text[] = { s("1") };
	const struct {
		struct effectd_value value;
		uint32_t oid;
		const char *text;
	} wrong[] = {
		{ effectd_int8(1), OID_INT4,
		  "statement first, parameter 1: int8 was given, PostgreSQL expects integer" },
		{ effectd_int4(1), OID_INT8, "int4 was given, PostgreSQL expects bigint" },
		{ effectd_int2(1), OID_INT4, "int2 was given" },
		{ effectd_int8(1), OID_FLOAT8, "PostgreSQL expects double precision" },
		{ effectd_int8(1), OID_TIMESTAMPTZ, "PostgreSQL expects timestamptz" },
		{ effectd_int8(1), OID_NUMERIC, "PostgreSQL expects numeric" },
		{ effectd_int8(1), OID_TEXT, "PostgreSQL expects text" },
		{ effectd_bool(true), OID_INT4, "bool was given" },
		{ effectd_cstr("1"), OID_INT8, "text was given" },
		{ effectd_cstr("1"), OID_NUMERIC, "text was given" },
		{ effectd_cstr("1"), OID_JSONB, "text was given" },
		{ effectd_cstr("t"), OID_BOOL, "text was given" },
		{ effectd_cstr("x"), OID_BYTEA, "text was given" },
		{ effectd_cstr("2026-01-01"), OID_DATE, "text was given" },
		{ effectd_cstr("now"), OID_TIMESTAMPTZ, "text was given" },
		{ effectd_cstr("{}"), OID_TEXT_ARRAY, "PostgreSQL expects text[]" },
		{ effectd_numeric(s("1")), OID_INT8, "numeric was given" },
		{ effectd_numeric(s("1")), OID_FLOAT8, "numeric was given" },
		{ effectd_jsonb(s("1")), OID_TEXT, "json was given" },
		{ effectd_body_json(), OID_TEXT, "the body as json was given" },
		{ effectd_bytea(s("1")), OID_TEXT, "bytea was given" },
		{ effectd_date(1), OID_TIMESTAMPTZ, "date was given" },
		{ effectd_timestamptz(1), OID_TIMESTAMP, "PostgreSQL expects timestamp without time zone" },
		{ effectd_int8(1), OID_INT8_ARRAY, "int8 was given, PostgreSQL expects bigint[]" },
		{ effectd_int4_array(i4, 1), OID_INT8_ARRAY, "int4[] was given, PostgreSQL expects bigint[]" },
		{ effectd_int4_array(i4, 1), OID_INT4, "int4[] was given, PostgreSQL expects integer" },
		{ effectd_text_array(text, 1), OID_TEXT, "text[] was given, PostgreSQL expects text" },
		{ effectd_int8(1), OID_ENUM, "PostgreSQL expects type 16389" },
	};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		expect_fault(f, wrong[i].value, wrong[i].oid, EFFECTD_BROKEN, wrong[i].text);
}

static void a_value_made_by_hand_is_not_believed(void **state)
{
	struct fixture *f = *state;
	struct effectd_value v = effectd_int8(1);
	v.type = 12;
	expect_fault(f, v, OID_INT8, EFFECTD_BROKEN, "is no value");
	v.type = EFFECTD_TYPE_ARRAY;
	expect_fault(f, v, OID_INT8_ARRAY, EFFECTD_BROKEN, "is no value");
	v.type = EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_BODY;
	expect_fault(f, v, OID_JSONB, EFFECTD_BROKEN, "is no value");
	v.type = EFFECTD_TYPE_INT4;
	v.as.number = INT64_C(1) << 40;
	expect_fault(f, v, OID_INT4, EFFECTD_BROKEN, "is no value");
	v.type = EFFECTD_TYPE_INT2;
	expect_fault(f, v, OID_INT2, EFFECTD_BROKEN, "is no value");
	v = effectd_int8(1);
	v.reserved = 1;
	expect_fault(f, v, OID_INT8, EFFECTD_BROKEN, "is no value");
	expect_fault(f, effectd_int8_array(NULL, 3), OID_INT8_ARRAY, EFFECTD_BROKEN, "is no value");
}

static void what_is_too_large_is_never_read(void **state)
{
	struct fixture *f = *state;
	expect_fault(f, effectd_text((struct effectd_str){ "x", SIZE_MAX }), OID_TEXT, EFFECTD_REJECT, "larger than");
	const struct effectd_str list[] = { s("a"), { "x", SIZE_MAX } };
	expect_fault(f, effectd_text_array(list, 2), OID_TEXT_ARRAY, EFFECTD_REJECT, "larger than");
	expect_fault(f, effectd_text_array(list, 2), OID_UUID_ARRAY, EFFECTD_REJECT, "larger than");
}

static effectd_verdict exec_many(struct effectd_call *call, const struct effectd_message *msg)
{
	(void)msg;
	char stack[] = "on the stack";
	effectd_exec(call, 0, effectd_int4(1), effectd_cstr(stack), effectd_null(), effectd_bool(true),
		     effectd_int8(2));
	memset(stack, 'x', sizeof(stack));
	return EFFECTD_OK;
}

static void parameters_stand_side_by_side_and_are_copies(void **state)
{
	struct fixture *f = *state;
	f->plugin.descriptor.apply = exec_many;
	f->prepared[0] = (struct pg_statement){
		.param_count = 5,
		.param_types = { OID_INT4, OID_TEXT, OID_UUID, OID_BOOL, OID_INT8 },
	};
	assert_int_equal(plugin_call_apply(&f->call, &f->message), EFFECTD_OK);
	const struct pg_values *v = &f->call.first->values;
	assert_int_equal(v->count, 5);
	assert_memory_equal(v->data[0], "\0\0\0\1", 4);
	assert_int_equal(v->lengths[1], 12);
	assert_memory_equal(v->data[1], "on the stack", 12);
	assert_null(v->data[2]);
	assert_memory_equal(v->data[3], "\1", 1);
	assert_memory_equal(v->data[4], "\0\0\0\0\0\0\0\2", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(numbers_go_in_binary_of_their_exact_width),
		FIXTURE_TEST(days_and_times_count_from_2000),
		FIXTURE_TEST(a_time_that_would_mean_infinity_or_wrap_is_the_messages_fault),
		FIXTURE_TEST(text_goes_in_binary_so_that_no_byte_is_lost),
		FIXTURE_TEST(text_serves_types_that_have_no_value_of_their_own),
		FIXTURE_TEST(numeric_is_sent_to_the_digit),
		FIXTURE_TEST(json_and_the_body_keep_every_byte),
		FIXTURE_TEST(arrays_are_binary_with_their_elements_type),
		FIXTURE_TEST(null_fits_everything),
		FIXTURE_TEST(nothing_is_converted),
		FIXTURE_TEST(a_value_made_by_hand_is_not_believed),
		FIXTURE_TEST(what_is_too_large_is_never_read),
		FIXTURE_TEST(parameters_stand_side_by_side_and_are_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

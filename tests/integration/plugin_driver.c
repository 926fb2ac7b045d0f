/* core/plugin against a real server: PostgreSQL gets each value as the plugin gave it, or says why not;
 * test_plugin_values.py starts the server and gives it in CONNINFO. */
#include "plugin/instance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct pg_session *session;
static struct arena arena;
static struct message message;
static struct effectd_value given;

static effectd_verdict exec_given(struct effectd_call *call, const struct effectd_message *msg)
{
	(void)msg;
	effectd_exec(call, 0, given);
	return EFFECTD_OK;
}

/* An instance of one statement. */
static struct plugin_instance *instance_of(const char *sql)
{
	static struct effectd_statement statement;
	static struct plugin plugin;
	statement = (struct effectd_statement){ "s", sql, EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT };
	plugin.statements = &statement;
	plugin.descriptor.statement_count = 1;
	plugin.descriptor.apply = exec_given;
	struct plugin_instance *p = NULL;
	struct error err;
	if (plugin_instance_create(&p, &plugin, "driver", NULL, 0, &err) != ST_OK)
		fail_msg("%s", err.text);
	return p;
}

static void run(const char *sql)
{
	struct error err;
	if (pg_query(session, sql, NULL, 0, NULL, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
}

/* What `SELECT ($1::type)::text` answers for a value: its text, "(null)", or the SQLSTATE. */
static const char *ask(const char *type, struct effectd_value value)
{
	static char answer[1024];
	char sql[128];
	struct error err = { 0 };
	run("DEALLOCATE ALL");
	snprintf(sql, sizeof(sql), "SELECT ($1::%s)::text", type);
	struct plugin_instance *p = instance_of(sql);
	if (plugin_instance_prepare(p, session, &err) != ST_OK)
		fail_msg("%s", err.text);
	struct plugin_call call;
	plugin_call_init(&call, p, &arena);
	given = value;
	if (plugin_call_apply(&call, &message) != EFFECTD_OK) {
		snprintf(answer, sizeof(answer), "%s", call.text);
		plugin_instance_destroy(p);
		return answer;
	}
	struct pg_result r;
	if (pg_send(session, p->prepared[0].name, &call.first->values, &err) != ST_OK ||
	    pg_sync(session, &err) != ST_OK || pg_next(session, &r, &err) != ST_OK)
		fail_msg("%s", err.text);
	if (r.kind == PG_ERROR) {
		snprintf(answer, sizeof(answer), "%s", err.sqlstate);
	} else {
		int len;
		const char *text = pg_value(&r, 0, 0, &len);
		snprintf(answer, sizeof(answer), "%.*s", text ? len : 6, text ? text : "(null)");
	}
	enum status st = pg_drain(session, &err);
	assert_true(st == ST_OK || st == ST_REFUSED);
	plugin_instance_destroy(p);
	return answer;
}

static struct effectd_str s(const char *text)
{
	return (struct effectd_str){ text, strlen(text) };
}

static void each_value_arrives_as_it_was_given(void **state)
{
	(void)state;
	static const int64_t i8[] = { 1, -1, INT64_MIN };
	static const int32_t i4[] = { 0, 19000 };
	static const int16_t i2[] = { -3 };
	static const bool bools[] = { true, false };
	const struct effectd_str texts[] = { s("a\"b\\,{}"), { NULL, 0 }, s(""), s("NULL"), s("caf\xc3\xa9") };
	const struct effectd_str numbers[] = { s("1.10"), { NULL, 0 } };
	const struct effectd_str uuids[] = { s("6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b"), { NULL, 0 } };
	const struct effectd_str moods[] = { s("glad"), s("sad") };
	const struct {
		const char *type;
		struct effectd_value value;
		const char *answer;
	} cases[] = {
		{ "int8", effectd_int8(INT64_MIN), "-9223372036854775808" },
		{ "int4", effectd_int4(-5), "-5" },
		{ "int2", effectd_int2(-300), "-300" },
		{ "bool", effectd_bool(true), "true" },
		{ "text", effectd_cstr("caf\xc3\xa9"), "caf\xc3\xa9" },
		{ "text", effectd_cstr(""), "" },
		{ "text", effectd_null(), "(null)" },
		{ "varchar", effectd_cstr("abc"), "abc" },
		{ "name", effectd_cstr("abc"), "abc" },
		{ "bytea", effectd_bytea((struct effectd_str){ "\0\xff", 2 }), "\\x00ff" },
		{ "numeric", effectd_numeric(s("12345678901234567890.1234567890")), "12345678901234567890.1234567890" },
		{ "json", effectd_body_json(), "{ \"id\": 9223372036854775807,\"x\": 1.10 }" },
		{ "jsonb", effectd_body_json(), "{\"x\": 1.10, \"id\": 9223372036854775807}" },
		{ "date", effectd_date(0), "1970-01-01" },
		{ "date", effectd_date(-719162), "0001-01-01" },
		{ "timestamptz", effectd_timestamptz(INT64_C(1700000000123456)), "2023-11-14 22:13:20.123456+00" },
		{ "int8[]", effectd_int8_array(i8, 3), "{1,-1,-9223372036854775808}" },
		{ "int8[]", effectd_int8_array(NULL, 0), "{}" },
		{ "int4[]", effectd_int4_array(i4, 2), "{0,19000}" },
		{ "int2[]", effectd_int2_array(i2, 1), "{-3}" },
		{ "bool[]", effectd_bool_array(bools, 2), "{t,f}" },
		{ "date[]", effectd_date_array(i4, 2), "{1970-01-01,2022-01-08}" },
		{ "timestamptz[]", effectd_timestamptz_array(i8, 2),
		  "{\"1970-01-01 00:00:00.000001+00\",\"1969-12-31 23:59:59.999999+00\"}" },
		{ "text[]", effectd_text_array(texts, 5), "{\"a\\\"b\\\\,{}\",NULL,\"\",\"NULL\",caf\xc3\xa9}" },
		{ "varchar[]", effectd_text_array(texts + 1, 1), "{NULL}" },
		{ "bytea[]", effectd_bytea_array(texts + 1, 2), "{NULL,\"\\\\x\"}" },
		{ "numeric[]", effectd_numeric_array(numbers, 2), "{1.10,NULL}" },
		{ "numeric[]", effectd_numeric_array(NULL, 0), "{}" },
		{ "jsonb[]", effectd_jsonb_array(numbers, 2), "{1.10,NULL}" },
		{ "json[]", effectd_jsonb_array(numbers, 2), "{1.10,NULL}" },
		{ "uuid", effectd_text(uuids[0]), "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b" },
		{ "uuid[]", effectd_text_array(uuids, 2), "{6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b,NULL}" },
		{ "float8", effectd_cstr("1e3"), "1000" },
		{ "inet", effectd_cstr("10.0.0.1"), "10.0.0.1/32" },
		{ "interval", effectd_cstr("1 day"), "1 day" },
		{ "mood", effectd_cstr("glad"), "glad" },
		{ "mood[]", effectd_text_array(moods, 2), "{glad,sad}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *answer = ask(cases[i].type, cases[i].value);
		if (strcmp(answer, cases[i].answer) != 0)
			fail_msg("%s: %s came instead of %s", cases[i].type, answer, cases[i].answer);
	}
}

static void what_a_type_cannot_hold_is_a_data_error_of_the_server(void **state)
{
	(void)state;
	assert_string_equal(ask("text", effectd_text((struct effectd_str){ "a\0b", 3 })), "22021");
	assert_string_equal(ask("text", effectd_cstr("\xff")), "22021");
	assert_string_equal(ask("jsonb", effectd_jsonb((struct effectd_str){ "\"a\0b\"", 5 })), "22021");
	assert_string_equal(ask("jsonb", effectd_jsonb(s("\"\\u0000\""))), "22P05");
	assert_string_equal(ask("jsonb", effectd_jsonb(s("{"))), "22P02");
	assert_string_equal(ask("numeric", effectd_numeric(s("12,5"))), "22P02");
	assert_string_equal(ask("mood", effectd_cstr("bored")), "22P02");
	assert_string_equal(ask("date", effectd_date(INT32_MAX)), "22008");
}

static void a_domain_is_what_lies_below_it(void **state)
{
	(void)state;
	assert_string_equal(ask("money_id", effectd_int8(7)), "7");
	assert_string_equal(ask("small_id", effectd_int8(7)), "7");
	assert_string_equal(ask("small_id", effectd_int8(1000)), "23514");
	assert_string_equal(ask("price", effectd_numeric(s("5.5"))), "5.50");
	assert_string_equal(ask("price", effectd_int8(5)),
			    "statement s, parameter 1: int8 was given, PostgreSQL expects numeric");
}

static void a_wrong_statement_is_named(void **state)
{
	(void)state;
	struct plugin_instance *p = instance_of("SELECT * FROM nowhere");
	struct error err;
	assert_int_equal(plugin_instance_prepare(p, session, &err), ST_REFUSED);
	assert_string_equal(err.sqlstate, "42P01");
	assert_memory_equal(err.text, "statement s: ", strlen("statement s: "));
	plugin_instance_destroy(p);
}

/* What described() sees, and what it may say of it. */
static bool looks_at_parameters(struct effectd_setup *setup, void *instance)
{
	static const effectd_type types[] = { EFFECTD_TYPE_INT8, EFFECTD_TYPE_NUMERIC,
					      EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, EFFECTD_TYPE_OTHER,
					      EFFECTD_TYPE_NULL };
	(void)instance;
	for (uint32_t i = 0; i < ARRAY_LEN(types); i++)
		assert_int_equal(setup->host->parameter(setup, 0, i), types[i]);
	assert_int_equal(setup->host->parameter(setup, 1, 0), EFFECTD_TYPE_NULL);
	setup->host->claim(setup, EFFECTD_CLAIM_NONE);
	return true;
}

static void described_sees_types_and_declares_nothing(void **state)
{
	(void)state;
	struct plugin_instance *p = instance_of("SELECT $1::money_id, $2::numeric, $3::text[], $4::uuid");
	struct plugin looking = *p->plugin;
	struct error err;
	looking.descriptor.described = looks_at_parameters;
	p->plugin = &looking;
	run("DEALLOCATE ALL");
	assert_int_equal(plugin_instance_prepare(p, session, &err), ST_INVALID);
	assert_string_equal(err.text, "described() declared its claims: only configure() may");
	assert_int_equal(p->claim, EFFECTD_CLAIM_KEY);
	plugin_instance_destroy(p);
}

static int setup(void **state)
{
	(void)state;
	const struct pg_params params = { .conninfo = getenv("CONNINFO"), .application_name = "effectd/test" };
	struct error err;
	if (pg_session_open(&session, &params, &wait_alone, &err) != ST_OK) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	run("SET TimeZone = 'UTC'");
	run("CREATE DOMAIN money_id AS bigint");
	run("CREATE DOMAIN small_id AS money_id CHECK (VALUE < 100)");
	run("CREATE DOMAIN price AS numeric(12, 2)");
	run("CREATE TYPE mood AS ENUM ('glad', 'sad')");
	arena_init(&arena);
	message.body = STR("{ \"id\": 9223372036854775807,\"x\": 1.10 }");
	message_prepare(&message, &arena);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	message_release(&message);
	arena_finish(&arena);
	pg_session_destroy(session);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_arrives_as_it_was_given),
		cmocka_unit_test(what_a_type_cannot_hold_is_a_data_error_of_the_server),
		cmocka_unit_test(a_domain_is_what_lies_below_it),
		cmocka_unit_test(a_wrong_statement_is_named),
		cmocka_unit_test(described_sees_types_and_declares_nothing),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

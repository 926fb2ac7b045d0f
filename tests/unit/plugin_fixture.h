/* A plugin that lives in the test: its functions are the test's, its statements are described by hand, nothing is
 * loaded and no server is asked. */
#ifndef UNIT_PLUGIN_FIXTURE_H
#define UNIT_PLUGIN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/instance.h"
#include <string.h>

enum {
	OID_BOOL = 16,
	OID_BYTEA = 17,
	OID_INT8 = 20,
	OID_INT2 = 21,
	OID_INT4 = 23,
	OID_TEXT = 25,
	OID_JSON = 114,
	OID_FLOAT8 = 701,
	OID_DATE = 1082,
	OID_TIMESTAMP = 1114,
	OID_TIMESTAMPTZ = 1184,
	OID_NUMERIC = 1700,
	OID_VARCHAR = 1043,
	OID_UUID = 2950,
	OID_JSONB = 3802,
	OID_BOOL_ARRAY = 1000,
	OID_INT2_ARRAY = 1005,
	OID_INT4_ARRAY = 1007,
	OID_INT8_ARRAY = 1016,
	OID_TEXT_ARRAY = 1009,
	OID_DATE_ARRAY = 1182,
	OID_TIMESTAMPTZ_ARRAY = 1185,
	OID_NUMERIC_ARRAY = 1231,
	OID_UUID_ARRAY = 2951,
	OID_JSONB_ARRAY = 3807,
	OID_ENUM = 16389, /* some type of the application's own */
};

struct fixture {
	struct plugin plugin;
	struct plugin_instance instance;
	struct effectd_statement statements[4];
	struct pg_statement prepared[4];
	struct arena arena;
	struct message message;
	struct plugin_call call;
};

/* Statements "first" (ANY), "decides" (NEW), "newer" (NEWER), "each" (EACH), none with parameters. */
static inline int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->statements[0] = (struct effectd_statement){ "first", "SELECT 1", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT };
	f->statements[1] = (struct effectd_statement){ "decides", "SELECT 1", EFFECTD_NEW, EFFECTD_OTHERWISE_REJECT };
	f->statements[2] = (struct effectd_statement){ "newer", "SELECT 1", EFFECTD_NEWER, EFFECTD_OTHERWISE_REJECT };
	f->statements[3] = (struct effectd_statement){ "each", "SELECT 1", EFFECTD_EACH, EFFECTD_OTHERWISE_REJECT };
	f->instance = (struct plugin_instance){
		.plugin = &f->plugin,
		.consumer = "unit",
		.statements = f->statements,
		.prepared = f->prepared,
		.statement_count = ARRAY_LEN(f->statements),
		.doing = &f->instance.doing_here,
	};
	arena_init(&f->arena);
	f->message.attempt = 1;
	message_prepare(&f->message, &f->arena);
	plugin_call_init(&f->call, &f->instance, &f->arena);
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	message_release(&f->message);
	arena_finish(&f->arena);
	free(f);
	return 0;
}

/* Another body, parsed anew. */
static inline void fixture_body(struct fixture *f, const char *data, size_t len)
{
	message_release(&f->message);
	f->message.body = (struct str){ data, len };
	message_prepare(&f->message, &f->arena);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif

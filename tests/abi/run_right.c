#include "run_right.h"

const struct plugin *place_load(const struct place *p, const char *name)
{
	const struct plugin *plugin = NULL;
	struct error err = { 0 };
	if (plugin_load(&plugin, p->dir, name, &err) != ST_OK)
		fail_msg("%s", err.text);
	return plugin;
}

static void expect_text(const struct pg_values *v, int i, const char *text, int format)
{
	assert_int_equal(v->lengths[i], strlen(text));
	assert_memory_equal(v->data[i], text, strlen(text));
	assert_int_equal(v->formats[i], format);
}

void run_right(const struct place *p, const char *name)
{
	struct plugin_instance *instance;
	struct error err;
	const struct plugin_setting factor = { "factor", "3", NULL, 0 };
	if (plugin_instance_create(&instance, place_load(p, name), "right", &factor, 1, &err) != ST_OK)
		fail_msg("%s", err.text);
	/* as PostgreSQL would describe it */
	instance->prepared[0].param_count = 2;
	instance->prepared[0].param_types[0] = 20;
	instance->prepared[0].param_types[1] = 25;

	struct arena arena;
	arena_init(&arena);
	struct message m = { .body = STR("{\"id\": 14, \"note\": \"caf\\u00e9\"}"), .attempt = 1 };
	message_prepare(&m, &arena);
	struct plugin_call call;
	plugin_call_init(&call, instance, &arena);

	struct effectd_key key;
	bool bad_key;
	assert_int_equal(plugin_call_key(&call, &m, &key, &bad_key), EFFECTD_OK);
	assert_int_equal(key.len, strlen("right:14"));
	assert_memory_equal(key.text, "right:14", key.len);
	assert_int_equal(key.lock_order, 14);

	assert_int_equal(plugin_call_apply(&call, &m), EFFECTD_OK);
	assert_int_equal(call.op_count, 3);
	const struct plugin_op *op = call.first;
	assert_int_equal(op->statement, 0);
	assert_memory_equal(op->values.data[0], "\0\0\0\0\0\0\0\x2a", 8);
	expect_text(&op->values, 1, "caf\xc3\xa9", 1);
	op = op->next;
	assert_int_equal(op->statement, 1);
	assert_int_equal(op->values.count, 0);
	op = op->next;
	assert_int_equal(op->kind, PLUGIN_OP_OUTBOX);
	expect_text(&op->values, 0, "mail", 1);
	expect_text(&op->values, 1, "\x01{\"id\": 14, \"note\": \"caf\\u00e9\"}", 1);
	assert_null(op->values.data[2]);
	assert_null(op->values.data[3]);
	assert_null(op->values.data[4]);
	assert_null(op->next);

	message_release(&m);
	arena_finish(&arena);
	plugin_instance_destroy(instance);
}

void run_recorded(const struct place *p)
{
	char versions[] = RECORDED, built[32], file[40], *rest = versions;
	for (const char *version; (version = strsep(&rest, " "));) {
		snprintf(built, sizeof(built), "recorded_%s", version);
		snprintf(file, sizeof(file), "%s.so", built);
		place_copy(p, built, file, 0644);
		run_right(p, file);
	}
}

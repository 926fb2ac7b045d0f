/* What fits is loaded and works through the host table alone, whatever it was written in. */
#include "place.h"
#include "plugin/instance.h"

static const struct plugin *load(const struct place *p, const char *name)
{
	const struct plugin *plugin = NULL;
	struct error err = { 0 };
	if (plugin_load(&plugin, p->dir, name, &err) != ST_OK)
		fail_msg("%s", err.text);
	return plugin;
}

static void a_longer_descriptor_is_read_as_far_as_it_is_known(void **state)
{
	const struct place *p = *state;
	place_copy(p, "longer_size", "longer_size.so", 0644);
	const struct plugin *plugin = load(p, "longer_size.so");
	assert_string_equal(plugin->descriptor.version, "0");
	assert_non_null(plugin->descriptor.key);
	assert_null(plugin->descriptor.apply_batch);
}

static void statements_are_read_by_the_plugins_stride(void **state)
{
	const struct place *p = *state;
	place_copy(p, "longer_stride", "longer_stride.so", 0644);
	const struct plugin *plugin = load(p, "longer_stride.so");
	assert_int_equal(plugin->descriptor.statement_count, 2);
	assert_string_equal(plugin->statements[0].name, "first");
	assert_string_equal(plugin->statements[1].name, "second");
	assert_string_equal(plugin->statements[1].sql, "SELECT 2");
	assert_int_equal(plugin->statements[1].rows, EFFECTD_ONE);
	assert_int_equal(plugin->statements[1].otherwise, EFFECTD_OTHERWISE_RETRY);
}

static void a_plugin_of_the_first_version_is_read_as_far_as_it_goes(void **state)
{
	const struct place *p = *state;
	place_copy(p, "first_version", "first_version.so", 0644);
	const struct plugin *plugin = load(p, "first_version.so");
	assert_null(plugin->descriptor.described);
	assert_string_equal(plugin->statements[1].name, "second");
	assert_int_equal(plugin->statements[1].otherwise, EFFECTD_OTHERWISE_RETRY);
	assert_null(plugin->statements[0].option);
	assert_null(plugin->statements[1].option);
}

static void one_file_is_one_plugin(void **state)
{
	const struct place *p = *state;
	place_copy(p, "good", "good.so", 0644);
	const struct plugin *plugin = load(p, "good.so");
	assert_ptr_equal(load(p, "good.so"), plugin);
	assert_ptr_equal(load(p, place_path(p, "good.so")), plugin);
	assert_int_equal(link(place_path(p, "good.so"), "/tmp/effectd-abi-other-name.so"), 0);
	assert_ptr_equal(load(p, "/tmp/effectd-abi-other-name.so"), plugin);
	assert_int_equal(unlink("/tmp/effectd-abi-other-name.so"), 0);
}

static void a_file_that_was_replaced_by_rename_is_loaded_anew(void **state)
{
	const struct place *p = *state;
	char new_path[128];
	place_copy(p, "good", "plugin.so", 0644);
	const struct plugin *first = load(p, "plugin.so");
	assert_string_equal(first->descriptor.version, "1");

	place_copy(p, "second_good", "plugin.so.new", 0644);
	snprintf(new_path, sizeof(new_path), "%s/plugin.so.new", p->dir);
	assert_int_equal(rename(new_path, place_path(p, "plugin.so")), 0);
	const struct plugin *second = load(p, "plugin.so");
	assert_string_equal(second->descriptor.version, "2");
	assert_ptr_not_equal(second, first);
	assert_string_equal(first->descriptor.version, "1"); /* whoever runs the old one keeps it */
}

static void expect_text(const struct pg_values *v, int i, const char *text, int format)
{
	assert_int_equal(v->lengths[i], strlen(text));
	assert_memory_equal(v->data[i], text, strlen(text));
	assert_int_equal(v->formats[i], format);
}

/* Takes a message through key and apply of a loaded plugin. */
static void run_right(const struct place *p, const char *name)
{
	struct plugin_instance *instance;
	struct error err;
	const struct plugin_setting factor = { "factor", "3", NULL, 0 };
	if (plugin_instance_create(&instance, load(p, name), "right", &factor, 1, &err) != ST_OK)
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

static void a_plugin_in_c_works(void **state)
{
	place_copy(*state, "right", "right.so", 0644);
	run_right(*state, "right.so");
}

static void a_plugin_built_with_the_baseline_s_header_works(void **state)
{
	place_copy(*state, "baseline", "baseline.so", 0644);
	run_right(*state, "baseline.so");
}

static void a_plugin_in_cxx_works(void **state)
{
#ifndef HAVE_CXX
	skip();
#endif
	place_copy(*state, "right_cxx", "right_cxx.so", 0644);
	run_right(*state, "right_cxx.so");
}

static void a_plugin_needs_only_libc_and_exports_one_function(void **state)
{
	(void)state;
	char command[512], line[512], kind, symbol[256];
	snprintf(command, sizeof(command), "nm -D '%s/right.so'", getenv("ABI_PLUGINS"));
	FILE *f = popen(command, "r");
	assert_non_null(f);
	unsigned exported = 0;
	while (fgets(line, sizeof(line), f)) {
		const bool defined = line[0] != ' ';
		assert_int_equal(sscanf(line, defined ? "%*x %c %255s" : " %c %255s", &kind, symbol), 2);
		if (defined) {
			assert_string_equal(symbol, EFFECTD_ENTRY_SYMBOL);
			exported++;
		} else if (kind == 'U' && !strstr(symbol, "@GLIBC_")) {
			fail_msg("the plugin needs %s", symbol);
		}
	}
	assert_int_equal(pclose(f), 0);
	assert_int_equal(exported, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
		TEST(a_longer_descriptor_is_read_as_far_as_it_is_known),
		TEST(statements_are_read_by_the_plugins_stride),
		TEST(a_plugin_of_the_first_version_is_read_as_far_as_it_goes),
		TEST(one_file_is_one_plugin),
		TEST(a_file_that_was_replaced_by_rename_is_loaded_anew),
		TEST(a_plugin_in_c_works),
		TEST(a_plugin_built_with_the_baseline_s_header_works),
		TEST(a_plugin_in_cxx_works),
		TEST(a_plugin_needs_only_libc_and_exports_one_function),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

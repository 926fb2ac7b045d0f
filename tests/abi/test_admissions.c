/* What fits is loaded and works through the host table alone, whatever it was written in. */
#include "run_right.h"

static void a_longer_descriptor_is_read_as_far_as_it_is_known(void **state)
{
	const struct place *p = *state;
	place_copy(p, "longer_size", "longer_size.so", 0644);
	const struct plugin *plugin = place_load(p, "longer_size.so");
	assert_string_equal(plugin->descriptor.version, "0");
	assert_non_null(plugin->descriptor.key);
	assert_null(plugin->descriptor.apply_batch);
}

static void statements_are_read_by_the_plugins_stride(void **state)
{
	const struct place *p = *state;
	place_copy(p, "longer_stride", "longer_stride.so", 0644);
	const struct plugin *plugin = place_load(p, "longer_stride.so");
	assert_int_equal(plugin->descriptor.statement_count, 2);
	assert_string_equal(plugin->statements[0].name, "first");
	assert_string_equal(plugin->statements[1].name, "second");
	assert_string_equal(plugin->statements[1].sql, "SELECT 2");
	assert_int_equal(plugin->statements[1].rows, EFFECTD_ONE);
	assert_int_equal(plugin->statements[1].otherwise, EFFECTD_OTHERWISE_RETRY);
}

static void one_file_is_one_plugin(void **state)
{
	const struct place *p = *state;
	place_copy(p, "good", "good.so", 0644);
	const struct plugin *plugin = place_load(p, "good.so");
	assert_ptr_equal(place_load(p, "good.so"), plugin);
	assert_ptr_equal(place_load(p, place_path(p, "good.so")), plugin);
	assert_int_equal(link(place_path(p, "good.so"), "/tmp/effectd-abi-other-name.so"), 0);
	assert_ptr_equal(place_load(p, "/tmp/effectd-abi-other-name.so"), plugin);
	assert_int_equal(unlink("/tmp/effectd-abi-other-name.so"), 0);
}

static void a_file_that_was_replaced_by_rename_is_loaded_anew(void **state)
{
	const struct place *p = *state;
	char new_path[128];
	place_copy(p, "good", "plugin.so", 0644);
	const struct plugin *first = place_load(p, "plugin.so");
	assert_string_equal(first->descriptor.version, "1");

	place_copy(p, "second_good", "plugin.so.new", 0644);
	snprintf(new_path, sizeof(new_path), "%s/plugin.so.new", p->dir);
	assert_int_equal(rename(new_path, place_path(p, "plugin.so")), 0);
	const struct plugin *second = place_load(p, "plugin.so");
	assert_string_equal(second->descriptor.version, "2");
	assert_ptr_not_equal(second, first);
	assert_string_equal(first->descriptor.version, "1"); /* whoever runs the old one keeps it */
}

static void a_plugin_in_c_works(void **state)
{
	place_copy(*state, "right", "right.so", 0644);
	run_right(*state, "right.so");
}

static void plugins_of_each_recorded_version_work(void **state)
{
	run_recorded(*state);
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
		TEST(one_file_is_one_plugin),
		TEST(a_file_that_was_replaced_by_rename_is_loaded_anew),
		TEST(a_plugin_in_c_works),
		TEST(plugins_of_each_recorded_version_work),
		TEST(a_plugin_in_cxx_works),
		TEST(a_plugin_needs_only_libc_and_exports_one_function),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Built, with all of core/plugin, against a header that has grown as the policy allows: what knows less of it works. */
#include "run_right.h"

static void plugins_of_each_recorded_version_work_in_a_newer_effectd(void **state)
{
	run_recorded(*state);
}

static void what_a_plugin_does_not_know_is_zero(void **state)
{
	const struct place *p = *state;
	place_copy(p, "right", "right.so", 0644);
	const struct plugin *plugin = place_load(p, "right.so");
	assert_int_equal(plugin->descriptor.abi_minor + 1, EFFECTD_ABI_MINOR);
	assert_int_equal(plugin->descriptor.size + sizeof(plugin->descriptor.later), sizeof(plugin->descriptor));
	assert_int_equal(plugin->descriptor.later, 0);
	assert_true(plugin->descriptor.statement_count > 1 && plugin->descriptor.option_count > 1);
	for (uint32_t i = 0; i < plugin->descriptor.statement_count; i++)
		assert_int_equal(plugin->statements[i].later, 0);
	for (uint32_t i = 0; i < plugin->descriptor.option_count; i++)
		assert_int_equal(plugin->options[i].later, 0);
	assert_string_equal(plugin->statements[1].name, "balance");
	assert_string_equal(plugin->options[2].name, "rate.*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
		TEST(plugins_of_each_recorded_version_work_in_a_newer_effectd),
		TEST(what_a_plugin_does_not_know_is_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

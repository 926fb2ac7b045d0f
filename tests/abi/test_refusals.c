/* What must not be loaded is not, and the sentence says what is wrong with it. */
#include "place.h"
#include "plugin/instance.h"

static const struct {
	const char *built, *text;
} refused[] = {
	{ "other_major", "was built for ABI 2.0, this effectd has 1.0: rebuild it" },
	{ "newer_minor", "was built for ABI 1.1, this effectd has 1.0: rebuild it" },
	{ "unpromised", "was built for ABI 0.2, this effectd has 1.0: rebuild it" },
	{ "short_size", "its descriptor has " },
	{ "no_key", "it has no key function" },
	{ "no_apply", "it has no apply function" },
	{ "bad_consumer", "its consumer name is not one" },
	{ "short_stride", "its statements have 24 bytes each" },
	{ "no_table", "it declares 3 statements, but no table of them" },
	{ "huge_table", "it declares 4294967295 statements, at most 1000 are possible" },
	{ "twin_statements", "two statements are called twin" },
	{ "unnamed", "a statement has no proper name" },
	{ "no_sql", "statement s has no SQL" },
	{ "unknown_rows", "statement s expects rows of kind 99" },
	{ "unknown_else", "statement s has an otherwise of kind 99" },
	{ "commit", "statement s begins with \"COMMIT\": the transaction is effectd's" },
	{ "hidden_commit", "statement s begins with \"COMMIT\"" },
	{ "two_in_one", "statement s holds more than one SQL statement" },
	{ "short_option", "its options have 8 bytes each" },
	{ "bad_default", "the default of option limit is wrong: it must be a whole number" },
	{ "option_type", "option limit has the type 42" },
	{ "option_name", "an option has no proper name" },
	{ "twin_options", "two options are called limit" },
	{ "no_entry", "it exports no function effectd_plugin_entry" },
	{ "null_entry", "its function effectd_plugin_entry returned NULL" },
	{ "unresolved", "cannot be loaded: undefined symbol: nobody_has_this_function" },
};

static void expect_refusal(const struct place *p, const char *name, const char *text)
{
	const struct plugin *plugin = NULL;
	struct error err = { 0 };
	assert_int_equal(plugin_load(&plugin, p->dir, name, &err), ST_INVALID);
	assert_null(plugin);
	if (!strstr(err.text, text))
		fail_msg("%s: \"%s\" does not say \"%s\"", name, err.text, text);
	if (!strstr(err.text, name))
		fail_msg("%s: \"%s\" does not name the file", name, err.text);
}

static void each_wrong_plugin_is_refused_with_what_is_wrong(void **state)
{
	const struct place *p = *state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s.so", refused[i].built);
		place_copy(p, refused[i].built, name, 0644);
		expect_refusal(p, name, refused[i].text);
		expect_refusal(p, name, refused[i].text); /* its code is in the process: it stays refused */
	}
}

static void what_is_no_shared_object_is_refused(void **state)
{
	const struct place *p = *state;
	place_write(p, "text.so", "#!/bin/sh\necho this is a script and not a plugin at all, whatever its name\n", 72);
	expect_refusal(p, "text.so", "cannot be loaded: ");
	place_write(p, "empty.so", "", 0);
	expect_refusal(p, "empty.so", "cannot be loaded: file too short");
	assert_int_equal(mkdir(place_path(p, "folder.so"), 0755), 0);
	expect_refusal(p, "folder.so", "is not a regular file");
	assert_int_equal(mkfifo(place_path(p, "pipe.so"), 0644), 0);
	expect_refusal(p, "pipe.so", "is not a regular file");
	expect_refusal(p, "nowhere.so", "No such file or directory");
}

static void a_plugin_of_another_machine_is_refused(void **state)
{
	const struct place *p = *state;
	size_t len;
	char *data = place_read_built("good", &len);
	data[18] = 0x2a; /* e_machine: SuperH */
	data[19] = 0;
	place_write(p, "other_machine.so", data, len);
	free(data);
	expect_refusal(p, "other_machine.so", "cannot be loaded: ");
}

static void a_file_that_others_may_write_is_refused(void **state)
{
	const struct place *p = *state;
	place_copy(p, "good", "world.so", 0646);
	expect_refusal(p, "world.so", "is writable by others: chmod go-w it");
	place_copy(p, "good", "group.so", 0664);
	expect_refusal(p, "group.so", "is writable by its group: chmod go-w it");
}

static void a_folder_that_others_may_write_is_refused(void **state)
{
	const struct place *p = *state;
	place_copy(p, "good", "good.so", 0644);
	const struct plugin *plugin;
	struct error err;

	assert_int_equal(chmod(p->dir, 0775), 0);
	assert_int_equal(plugin_load(&plugin, p->dir, "good.so", &err), ST_INVALID);
	assert_non_null(strstr(err.text, p->dir));
	assert_non_null(strstr(err.text, "is writable by its group"));

	assert_int_equal(chmod(p->dir, 01777), 0); /* sticky: nobody can replace the file */
	assert_int_equal(plugin_load(&plugin, p->dir, "good.so", &err), ST_OK);

	assert_int_equal(chmod(p->dir, 0777), 0); /* also when it is loaded already */
	assert_int_equal(plugin_load(&plugin, p->dir, "good.so", &err), ST_INVALID);
	assert_int_equal(chmod(p->dir, 0755), 0);
}

static void a_file_of_another_user_is_refused(void **state)
{
	const struct place *p = *state;
	place_copy(p, "good", "foreign.so", 0644);
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(place_path(p, "foreign.so"), 12345, 0), 0);
	expect_refusal(p, "foreign.so", "belongs to user 12345");
}

static void a_plugin_under_another_consumers_name_is_refused(void **state)
{
	const struct place *p = *state;
	place_copy(p, "right", "right.so", 0644);
	const struct plugin *plugin;
	struct plugin_instance *instance = NULL;
	struct error err;
	assert_int_equal(plugin_load(&plugin, p->dir, "right.so", &err), ST_OK);
	const struct plugin_setting factor = { "factor", "3", NULL, 0 };
	assert_int_equal(plugin_instance_create(&instance, plugin, "wrong", &factor, 1, &err), ST_INVALID);
	assert_null(instance);
	assert_string_equal(err.text,
			    "the plugin is the consumer right, not wrong: its section must be called [consumer:right]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
		TEST(each_wrong_plugin_is_refused_with_what_is_wrong),  TEST(what_is_no_shared_object_is_refused),
		TEST(a_plugin_of_another_machine_is_refused),           TEST(a_file_that_others_may_write_is_refused),
		TEST(a_folder_that_others_may_write_is_refused),        TEST(a_file_of_another_user_is_refused),
		TEST(a_plugin_under_another_consumers_name_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Settings against declared options, and configure() reading them. */
#include "plugin/options.h"
#include "plugin_fixture.h"
#include <stdio.h>

static struct effectd_option options[] = {
	{ "cents_per_point", EFFECTD_OPTION_INT, 1, NULL, 1, 1000, "how many cents make a point" },
	{ "pause", EFFECTD_OPTION_DURATION, 0, "2s", 100, 60000, "how long" },
	{ "room", EFFECTD_OPTION_SIZE, 0, NULL, 0, 0, "how much" },
	{ "strict", EFFECTD_OPTION_BOOL, 0, "yes", 0, 0, "whether" },
	{ "rate.*", EFFECTD_OPTION_INT, 0, NULL, 0, 0, "rates by currency" },
	{ "note", EFFECTD_OPTION_TEXT, 0, NULL, 0, 0, "anything" },
};

static struct plugin plugin = {
	.descriptor = { .option_count = ARRAY_LEN(options), .statement_size = sizeof(struct effectd_statement) },
	.options = options,
};

static char reported[2048];

static void report(void *arg, const struct plugin_setting *setting, const char *text)
{
	(void)arg;
	const size_t len = strlen(reported);
	snprintf(reported + len, sizeof(reported) - len, "%s: %s\n", setting ? setting->name : "-", text);
}

static void each_wrong_setting_is_reported_with_what_is_right(void **state)
{
	(void)state;
	const struct plugin_setting wrong[] = {
		{ "cent_per_point", "5", NULL, 0 }, { "pause", "2", NULL, 0 },      { "pause", "10ms", NULL, 0 },
		{ "room", "1MB", NULL, 0 },         { "strict", "1", NULL, 0 },     { "rate.EUR", "x", NULL, 0 },
		{ "rate.", "1", NULL, 0 },          { "zzzzzzzzzz", "1", NULL, 0 },
	};
	reported[0] = '\0';
	assert_int_equal(plugin_check_settings(&plugin, wrong, ARRAY_LEN(wrong), report, NULL), 9);
	assert_string_equal(reported,
			    "cent_per_point: the plugin has no such option: did you mean plugin.cents_per_point?\n"
			    "pause: must be a duration like 250ms, 30s, 5min, 12h, 30d\n"
			    "pause: must be between 100 and 60000 ms\n"
			    "room: must be a size like 512, 64KiB, 1MiB\n"
			    "strict: must be yes or no\n"
			    "rate.EUR: must be a whole number\n"
			    "rate.: the plugin has no such option: did you mean plugin.rate.*?\n"
			    "zzzzzzzzzz: the plugin has no such option: effectd plugin show lists them\n"
			    "-: plugin.cents_per_point is missing: how many cents make a point\n");
}

static void right_settings_are_silent(void **state)
{
	(void)state;
	const struct plugin_setting right[] = {
		{ "cents_per_point", "1000", NULL, 0 },
		{ "pause", "1min", NULL, 0 },
		{ "room", "1MiB", NULL, 0 },
		{ "strict", "no", NULL, 0 },
		{ "rate.EUR", "-1", NULL, 0 },
	};
	assert_int_equal(plugin_check_settings(&plugin, right, ARRAY_LEN(right), report, NULL), 0);
}

/* ---- configure() ---- */

static bool (*body)(struct effectd_setup *setup);
static unsigned destroyed;

static bool configure(struct effectd_setup *setup, void **ret_instance)
{
	*ret_instance = &destroyed;
	return body(setup);
}

static void destroy(void *instance)
{
	assert_ptr_equal(instance, &destroyed);
	destroyed++;
}

static enum status create(bool (*fn)(struct effectd_setup *setup), struct plugin_instance **ret, struct error *err)
{
	static const struct plugin_setting settings[] = {
		{ "cents_per_point", "100", "shop.ini", 7 },
		{ "rate.EUR", "12", "shop.ini", 8 },
	};
	body = fn;
	destroyed = 0;
	plugin.descriptor.configure = configure;
	plugin.descriptor.destroy = destroy;
	return plugin_instance_create(ret, &plugin, "unit", settings, ARRAY_LEN(settings), err);
}

static void expect_failure(bool (*fn)(struct effectd_setup *setup), const char *text)
{
	struct plugin_instance *p = NULL;
	struct error err;
	assert_int_equal(create(fn, &p, &err), ST_INVALID);
	assert_null(p);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static bool reads(struct effectd_setup *setup)
{
	const struct effectd_host *h = setup->host;
	assert_int_equal(effectd_option_int64(setup, "cents_per_point"), 100);
	assert_int_equal(effectd_option_int64(setup, "pause"), 2000);
	assert_int_equal(effectd_option_int64(setup, "room"), 0);
	assert_int_equal(effectd_option_int64(setup, "strict"), 1);
	assert_int_equal(effectd_option_int64(setup, "rate.EUR"), 12);
	assert_null(effectd_option_text(setup, "rate.USD"));
	assert_null(effectd_option_text(setup, "note"));
	assert_string_equal(effectd_option_text(setup, "pause"), "2s");
	assert_string_equal(h->option_name(setup, 1), "rate.EUR");
	assert_null(h->option_name(setup, 2));
	assert_string_equal(h->consumer(setup), "unit");
	return true;
}

static bool asks_unknown(struct effectd_setup *setup)
{
	(void)effectd_option_text(setup, "secret");
	return true;
}

static bool asks_text_as_number(struct effectd_setup *setup)
{
	(void)effectd_option_int64(setup, "rate.EUR");
	return effectd_option_int64(setup, "room") == 0;
}

static bool fails(struct effectd_setup *setup)
{
	effectd_setup_fail(setup, "no such\ncurrency");
	effectd_setup_fail(setup, "a second reason");
	return false;
}

static bool fails_silently(struct effectd_setup *setup)
{
	(void)setup;
	return false;
}

static bool says_fail_returns_true(struct effectd_setup *setup)
{
	effectd_setup_fail(setup, "changed my mind");
	return true;
}

static bool goes_without_claim(struct effectd_setup *setup)
{
	setup->host->claim(setup, EFFECTD_CLAIM_NONE);
	return true;
}

static bool declares_commit(struct effectd_setup *setup)
{
	const struct effectd_statement s = { "s", "COMMIT", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT };
	setup->host->statement(setup, &s);
	return true;
}

static bool declares_twins(struct effectd_setup *setup)
{
	const struct effectd_statement s = { "s", "SELECT 1", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT };
	assert_int_equal(setup->host->statement(setup, &s), 0);
	assert_int_equal(setup->host->statement(setup, &s), UINT32_MAX);
	return true;
}

static bool declares(struct effectd_setup *setup)
{
	char name[] = "built", sql[] = "INSERT INTO t VALUES (1)";
	const struct effectd_statement s = { name, sql, EFFECTD_NEW, EFFECTD_OTHERWISE_REJECT };
	assert_int_equal(setup->host->statement(setup, &s), 0);
	memset(name, 'x', sizeof(name)); /* what was passed in is copied */
	memset(sql, 'x', sizeof(sql));
	setup->host->claim(setup, EFFECTD_CLAIM_NONE);
	return true;
}

static bool finds_problems(struct effectd_setup *setup)
{
	const struct effectd_statement s = { "s", "COMMIT", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT, "rate.EUR" };
	setup->host->statement(setup, &s);
	setup->host->setup_problem(setup, "cents_per_point", "too\nfew");
	setup->host->setup_problem(setup, NULL, "and so on");
	assert_int_equal(setup->host->parameter(setup, 0, 0), EFFECTD_TYPE_NULL); /* nothing is described yet */
	return true;
}

static bool tries_samples(struct effectd_setup *setup)
{
	static const char first[] = "{\"a\":1}", second[] = "{\"a\":2}";
	int64_t n;
	const struct effectd_str bodies[] = { { first, sizeof(first) - 1 }, { second, sizeof(second) - 1 } };
	assert_true(effectd_json_int64(setup->host->sample(setup, bodies[0]), "a", &n));
	assert_int_equal(n, 1);
	assert_true(effectd_json_int64(setup->host->sample(setup, bodies[1]), "a", &n));
	assert_int_equal(n, 2);
	return true;
}

static void each_problem_of_a_setup_names_its_line(void **state)
{
	(void)state;
	static const struct plugin_setting settings[] = {
		{ "cents_per_point", "100", "shop.ini", 7 },
		{ "rate.EUR", "12", "shop.ini", 8 },
	};
	expect_failure(finds_problems, "shop.ini:8: plugin.rate.EUR: statement s begins with \"COMMIT\"");
	reported[0] = '\0';
	assert_int_equal(plugin_instance_check(&plugin, "unit", settings, ARRAY_LEN(settings), report, NULL), 3);
	assert_non_null(strstr(reported, "rate.EUR: statement s begins with \"COMMIT\""));
	assert_non_null(strstr(reported, "\ncents_per_point: too\\x0afew\n-: and so on\n"));

	body = tries_samples;
	assert_int_equal(plugin_instance_check(&plugin, "unit", settings, ARRAY_LEN(settings), report, NULL), 0);
}

static void configure_reads_checked_settings_and_defaults(void **state)
{
	(void)state;
	struct plugin_instance *p;
	struct error err;
	if (create(reads, &p, &err) != ST_OK)
		fail_msg("%s", err.text);
	assert_ptr_equal(p->state, &destroyed);
	plugin_instance_destroy(p);
	assert_int_equal(destroyed, 1);
}

static void configure_declares_statements_and_the_claim_mode(void **state)
{
	(void)state;
	struct plugin_instance *p;
	struct error err;
	if (create(declares, &p, &err) != ST_OK)
		fail_msg("%s", err.text);
	assert_int_equal(p->statement_count, 1);
	assert_string_equal(p->statements[0].name, "built");
	assert_string_equal(p->prepared[0].sql, "INSERT INTO t VALUES (1)");
	assert_string_equal(p->prepared[0].name, "p0");
	assert_int_equal(p->claim, EFFECTD_CLAIM_NONE);
	plugin_instance_destroy(p);
}

static void what_configure_gets_wrong_refuses_the_instance(void **state)
{
	(void)state;
	expect_failure(fails, "no such\\x0acurrency");
	assert_int_equal(destroyed, 0); /* there is no instance of a configure() that failed */
	expect_failure(fails_silently, "gave no reason");
	expect_failure(says_fail_returns_true, "changed my mind");
	assert_int_equal(destroyed, 1);
	expect_failure(asks_unknown, "asked for the option \"secret\", which the plugin does not declare");
	expect_failure(goes_without_claim, "no statement decides");
	expect_failure(declares_commit, "statement s begins with \"COMMIT\"");
	expect_failure(declares_twins, "two statements are called s");
	options[4].type = EFFECTD_OPTION_TEXT;
	expect_failure(asks_text_as_number, "asked for the text option \"rate.EUR\" as a number");
	options[4].type = EFFECTD_OPTION_INT;
}

static void a_wrong_setting_names_its_line(void **state)
{
	(void)state;
	const struct plugin_setting wrong = { "cents_per_point", "0", "shop.ini", 7 };
	struct plugin_instance *p;
	struct error err;
	assert_int_equal(plugin_instance_create(&p, &plugin, "unit", &wrong, 1, &err), ST_INVALID);
	assert_string_equal(err.text, "shop.ini:7: plugin.cents_per_point: must be between 1 and 1000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_wrong_setting_is_reported_with_what_is_right),
		cmocka_unit_test(right_settings_are_silent),
		cmocka_unit_test(configure_reads_checked_settings_and_defaults),
		cmocka_unit_test(configure_declares_statements_and_the_claim_mode),
		cmocka_unit_test(what_configure_gets_wrong_refuses_the_instance),
		cmocka_unit_test(a_wrong_setting_names_its_line),
		cmocka_unit_test(each_problem_of_a_setup_names_its_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is shown: where each value comes from, no secret, and INI that reads back. */
#include "config/private.h"
#include "config_fixture.h"
#include <jansson.h>

static void masked_is(const struct config_key *key, const char *name, const char *value, const char *want)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	const bool masked = mask_value(key, name, value, &out);
	assert_string_equal(buffer_text(&out), want);
	assert_int_equal(masked, strcmp(value, want) != 0);
}

static void passwords_in_urls_are_masked(void **state)
{
	(void)state;
	static const struct config_key url = { .mask = MASK_URL };
	static const struct {
		const char *value, *shown;
	} cases[] = {
		{ "amqp://user:s3cret@h:5672/%2f", "amqp://user:********@h:5672/%2f" },
		{ "amqp://user@h:5672/%2f", "amqp://user@h:5672/%2f" },
		{ "amqp://h:5672/v", "amqp://h:5672/v" },
		{ "amqp://user:s3/c@r?e#t@h/v", "amqp://user:********@h/v" },
		{ "amqp://user:@h/v", "amqp://user:********@h/v" },
		{ "user:s3cret@h", "user:********@h" },
		{ "https://h/x?a=1&api_key=s3cret&b=2", "https://h/x?a=1&api_key=********&b=2" },
		{ "https://h/x?Token=s3cret", "https://h/x?Token=********" },
		{ "https://u:p@h/x?password=s3cret", "https://u:********@h/x?password=********" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		masked_is(&url, "url", cases[i].value, cases[i].shown);
}

static void passwords_in_conninfos_are_masked(void **state)
{
	(void)state;
	static const struct config_key conninfo = { .mask = MASK_CONNINFO };
	static const struct {
		const char *value, *shown;
	} cases[] = {
		{ "host=h dbname=d", "host=h dbname=d" },
		{ "host=h password=s3cret dbname=d", "host=h password=******** dbname=d" },
		{ "password = 's3 cr\\'et' host=h", "password = ******** host=h" },
		{ "password=s3\\ cret host=h", "password=******** host=h" },
		{ "password='' host=h", "password=******** host=h" },
		{ "host=h sslpassword=s3cret", "host=h sslpassword=********" },
		{ "host=h password='s3cret dbname=d", "host=h********" },
		{ "host=h s3cret dbname=d", "host=h********" },
		{ "application_name='password=x' host=h", "application_name='password=x' host=h" },
		{ "postgresql://u:s3cret@h/d?sslmode=require", "postgresql://u:********@h/d?sslmode=require" },
		{ "postgres://h/d?user=u&password=s3cret", "postgres://h/d?user=u&password=********" },
		{ "  host=h  ", "  host=h  " },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		masked_is(&conninfo, "conninfo", cases[i].value, cases[i].shown);
}

static void settings_with_secret_names_are_masked(void **state)
{
	(void)state;
	static const struct config_key setting = { .mask = MASK_SETTINGS }, header = { .mask = MASK_ALL };
	masked_is(&setting, "plugin.api_token", "s3cret", "********");
	masked_is(&setting, "plugin.DbPassword", "s3cret", "********");
	masked_is(&setting, "plugin.cents_per_point", "100", "100");
	masked_is(&header, "header.X-A", "s3cret", "********");
}

static const char rich[] =
	"[effectd]\nlog_level = debug\nhttp_listen =\n"
	"[broker:main]\nurl = amqp://u:s3cret@h/\n"
	"[broker:two]\nurl = amqp://u@h/\npassword_file = pw\ntls_ca_file = ca.pem\n"
	"[database:main]\nconninfo = host=h password='s3cret x'\nlock_timeout = 250ms\n"
	"[consumer:a]\nplugin = a.so\nqueue = q\nworkers = 3\nretention = never\nplugin.sql_file = sql\n"
	"plugin.odd = x $${HOME} ; # \"quoted\" = 1\nplugin.empty =\nplugin.secret_word = s3cret\n"
	"[target:bus]\ntype = amqp\nurl = amqp://b/\nrouting_key = k\n"
	"[target:web]\ntype = http\nurl = http://b/?token=s3cret\nheader.Authorization = Basic s3cret\n"
	"[relay:r]\nkind.x = bus\nkind.y = web\n"
	"[broker:three]\nurl = amqp://u@h/\nmanagement_url = https://m:s3cret@h:15671\n";

static void load_rich(void)
{
	write_file("pw", "s3cret!\n");
	assert_int_equal(chmod(path_of("pw"), 0600), 0);
	write_file("sql", "SELECT 1\n  FROM t\n");
	expect_good(load_text(rich));
}

static void no_secret_is_shown(void **state)
{
	(void)state;
	load_rich();
	CLEANUP(buffer_finish) struct buffer ini = { 0 }, json = { 0 };
	config_show(loaded, &ini);
	config_show_json(loaded, &json);
	assert_null(strstr(buffer_text(&ini), "s3cret"));
	assert_null(strstr(buffer_text(&json), "s3cret"));
	assert_non_null(strstr(buffer_text(&ini), "url = amqp://u:********@h/\n"));
	assert_non_null(strstr(buffer_text(&ini), "management_url = https://m:********@h:15671\n"));
	assert_non_null(strstr(buffer_text(&ini), ":8, 7 bytes in the file\npassword_file = "));
	assert_non_null(strstr(buffer_text(&ini), ", 6 bytes with the secret\nplugin.secret_word = ********\n"));
}

static void each_value_says_where_it_comes_from(void **state)
{
	(void)state;
	load_rich();
	char want[512];
	CLEANUP(buffer_finish) struct buffer ini = { 0 };
	config_show(loaded, &ini);
	snprintf(want, sizeof(want), "# %s/effectd.ini:16\nworkers = 3\n", folder);
	assert_non_null(strstr(buffer_text(&ini), want));
	assert_non_null(strstr(buffer_text(&ini), "# default\nprefetch = 300\n"));
	assert_non_null(strstr(buffer_text(&ini), "# default\nbroker = main\n"));
	snprintf(want, sizeof(want), "\ntls_ca_file = %s/ca.pem\n", folder);
	assert_non_null(strstr(buffer_text(&ini), want));
	assert_non_null(strstr(buffer_text(&ini), "\nhttp_listen =\n"));
	assert_non_null(strstr(buffer_text(&ini), "\nplugin.odd = x $${HOME} ; # \"quoted\" = 1\n"));
}

static void what_is_shown_reads_back_as_the_same(void **state)
{
	(void)state;
	load_rich();
	CLEANUP(buffer_finish) struct buffer once = { 0 }, twice = { 0 }, a = { 0 }, b = { 0 };
	config_show(loaded, &once);
	assert_int_equal(mkdir(path_of("elsewhere"), 0755), 0);
	write_file("elsewhere/shown.ini", buffer_text(&once));
	expect_good(load("elsewhere/shown.ini"));
	config_show(loaded, &twice);
	settings_of(buffer_text(&once), &a);
	settings_of(buffer_text(&twice), &b);
	assert_string_equal(buffer_text(&a), buffer_text(&b));
	assert_string_equal(loaded->consumers[0].settings.list[0].value, "SELECT 1\n  FROM t");
	assert_string_equal(loaded->brokers[1].password, "s3cret!");
}

static void json_is_json(void **state)
{
	(void)state;
	load_rich();
	CLEANUP(buffer_finish) struct buffer json = { 0 };
	config_show_json(loaded, &json);
	json_t *all = json_loads(buffer_text(&json), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(all);
	const json_t *workers = json_object_get(json_object_get(all, "consumer:a"), "workers");
	assert_string_equal(json_string_value(json_object_get(workers, "value")), "3");
	assert_int_equal(json_integer_value(json_object_get(workers, "line")), 16);
	const json_t *prefetch = json_object_get(json_object_get(all, "consumer:a"), "prefetch");
	assert_null(json_object_get(prefetch, "file"));
	assert_true(json_is_true(
		json_object_get(json_object_get(json_object_get(all, "database:main"), "conninfo"), "masked")));
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(passwords_in_urls_are_masked),
		TEST(passwords_in_conninfos_are_masked),
		TEST(settings_with_secret_names_are_masked),
		TEST(no_secret_is_shown),
		TEST(each_value_says_where_it_comes_from),
		TEST(what_is_shown_reads_back_as_the_same),
		TEST(json_is_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

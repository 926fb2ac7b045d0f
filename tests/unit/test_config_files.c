/* Several files, variables, and what comes from other files: which value wins, and where it was written. */
#include "config_fixture.h"

static void make_drop_ins(void)
{
	assert_int_equal(mkdir(path_of("conf.d"), 0755), 0);
	write_file("effectd.ini", "[effectd]\ninclude = conf.d/*.ini\nlog_level = info\n" BASE "workers = 2\n");
}

static void a_drop_in_wins_over_the_file_that_includes_it(void **state)
{
	(void)state;
	make_drop_ins();
	write_file("conf.d/b.ini", "[effectd]\nlog_level = error\n[consumer:loyalty]\nbatch_max = 7\n");
	write_file("conf.d/a.ini", "[effectd]\nlog_level = debug\n[consumer:loyalty]\nbatch_max = 5\nworkers = 3\n");
	write_file("conf.d/B.ini", "[effectd]\nlog_level = warning\nlog_format = json\n"); /* byte order: B a b */
	write_file("conf.d/c.ini~", "nonsense");
	write_file("conf.d/.d.ini", "nonsense");
	expect_good(load("effectd.ini"));
	assert_int_equal(loaded->process.log_level, 3);
	assert_int_equal(loaded->process.log_format, 1);
	assert_int_equal(loaded->consumer_count, 1);
	assert_int_equal(loaded->consumers[0].workers, 3);
	assert_int_equal(loaded->consumers[0].batch_max, 7);
	assert_string_equal(loaded->consumers[0].queue, "q");
}

static void a_problem_in_an_included_file_names_that_file(void **state)
{
	(void)state;
	make_drop_ins();
	write_file("conf.d/a.ini", "[consumer:loyalty]\n\nworkers = many\n");
	write_file("conf.d/b.ini", "[consumer:loyalty]\nwokers = 3\n");
	assert_int_equal(load("effectd.ini"), ST_INVALID);
	expect_problem("conf.d/a.ini:3: [consumer:loyalty] workers:", "whole number");
	expect_problem("conf.d/b.ini:2: [consumer:loyalty] wokers:", "did you mean workers?");
	assert_int_equal(problem_count, 2);
}

static void a_section_does_not_reach_into_the_next_file(void **state)
{
	(void)state;
	make_drop_ins();
	write_file("conf.d/a.ini", "workers = 3\n");
	assert_int_equal(load("effectd.ini"), ST_INVALID);
	expect_problem("conf.d/a.ini:1: [] workers:", "before the first [section]");
}

static void a_pattern_may_match_nothing_but_a_plain_name_must_exist(void **state)
{
	(void)state;
	expect_good(load_text("[effectd]\ninclude = conf.d/*.ini\n" BASE));
	expect_good(load_text("[effectd]\ninclude = *.nothing\n" BASE));
	assert_int_equal(load_text("[effectd]\ninclude = conf.d/missing.ini\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:2: [effectd] include:", "No such file");
	assert_int_equal(load_text("[effectd]\ninclude =\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:2: [effectd] include:", "no value");
	assert_int_equal(mkdir(path_of("x.ini"), 0755), 0);
	assert_int_equal(load_text("[effectd]\ninclude = x*.ini\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:2: [effectd] include:", "is a directory");
}

static void paths_start_at_the_folder_of_their_file(void **state)
{
	(void)state;
	char want[512];
	make_drop_ins();
	write_file("conf.d/a.ini", "[effectd]\ninclude = sub[1]/more.ini\n");
	write_file("conf.d/b.ini", "[effectd]\nruntime_dir = run\n[broker:main]\ntls_ca_file = /abs/ca.pem\n");
	expect_good(load("effectd.ini"));
	snprintf(want, sizeof(want), "%s/conf.d/run", folder);
	assert_string_equal(loaded->process.runtime_dir, want);
	assert_string_equal(loaded->brokers[0].tls_ca_file, "/abs/ca.pem");
	/* A folder whose own name looks like a pattern. */
	assert_int_equal(mkdir(path_of("a[b]*"), 0755), 0);
	write_file("a[b]*/effectd.ini", "[effectd]\ninclude = *.inc\n" BASE);
	write_file("a[b]*/x.inc", "[consumer:loyalty]\nworkers = 5\n");
	expect_good(load("a[b]*/effectd.ini"));
	assert_int_equal(loaded->consumers[0].workers, 5);
}

static void no_file_is_read_twice(void **state)
{
	(void)state;
	assert_int_equal(load_text("[effectd]\ninclude = effectd.ini\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:2: [effectd] include:", "was read before");
	assert_int_equal(load_text("[effectd]\ninclude = *.ini\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:2: [effectd] include:", "was read before");
	write_file("a.inc", "[effectd]\ninclude = b.inc\n");
	write_file("b.inc", "[effectd]\ninclude = a.inc\n");
	assert_int_equal(load_text("[effectd]\ninclude = a.inc\n" BASE), ST_INVALID);
	expect_problem("b.inc:2: [effectd] include:", "was read before");
	assert_int_equal(problem_count, 1);
}

static void includes_are_bounded_in_depth(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		char name[32], text[64];
		snprintf(name, sizeof(name), "%d.inc", i);
		snprintf(text, sizeof(text), "[effectd]\ninclude = %d.inc\n", i + 1);
		write_file(name, text);
	}
	assert_int_equal(load_text("[effectd]\ninclude = 0.inc\n" BASE), ST_INVALID);
	expect_problem("7.inc:2: [effectd] include:", "more than 8 deep");
	assert_int_equal(problem_count, 1);
	write_file("7.inc", "[effectd]\n");
	expect_good(load("effectd.ini"));
}

static void variables_are_replaced(void **state)
{
	(void)state;
	static const struct {
		const char *written, *value;
	} cases[] = {
		{ "${EFFECTD_T_HOST}", "db.example" },
		{ "a${EFFECTD_T_HOST}b${EFFECTD_T_HOST}", "adb.examplebdb.example" },
		{ "${EFFECTD_T_NONE:-fall back}", "fall back" },
		{ "${EFFECTD_T_NONE:-a:-b}", "a:-b" },
		{ "x${EFFECTD_T_NONE:-}", "x" },
		{ "${EFFECTD_T_EMPTY:-fallback}", "fallback" },
		{ "x${EFFECTD_T_EMPTY}y", "xy" },
		{ "${EFFECTD_T_HOST:-other}", "db.example" },
		{ "$${EFFECTD_T_HOST}", "${EFFECTD_T_HOST}" },
		{ "$$${x}", "$${x}" },
		{ "$EFFECTD_T_HOST $ $$ $1", "$EFFECTD_T_HOST $ $$ $1" },
		{ "${EFFECTD_T_HOST}$", "db.example$" },
		{ "${EFFECTD_T_ODD}", "a;b # ${EFFECTD_T_HOST} = 'c'" },
	};
	setenv("EFFECTD_T_HOST", "db.example", 1);
	setenv("EFFECTD_T_EMPTY", "", 1);
	setenv("EFFECTD_T_ODD", "a;b # ${EFFECTD_T_HOST} = 'c'", 1); /* replaced once, not again */
	unsetenv("EFFECTD_T_NONE");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[512];
		snprintf(text, sizeof(text), "%splugin.x = %s\n", BASE, cases[i].written);
		expect_good(load_text(text));
		assert_string_equal(loaded->consumers[0].settings.list[0].value, cases[i].value);
	}
}

static void a_variable_that_is_not_there_is_an_error(void **state)
{
	(void)state;
	static const struct {
		const char *written, *text;
	} cases[] = {
		{ "${EFFECTD_T_NONE}", "EFFECTD_T_NONE is not set" },
		{ "a ${EFFECTD_T_NONE", "without }" },
		{ "${}", "neither ${VAR}" },
		{ "${:-x}", "neither ${VAR}" },
		{ "${1A}", "neither ${VAR}" },
		{ "${A-B}", "neither ${VAR}" },
		{ "${A B}", "neither ${VAR}" },
		{ "${A:+B}", "neither ${VAR}" },
		{ "${EFFECTD_T_BAD}", "is not UTF-8" },
		{ "${EFFECTD_T_LINES}", "control characters" },
	};
	unsetenv("EFFECTD_T_NONE");
	setenv("EFFECTD_T_BAD", "\xff", 1);
	setenv("EFFECTD_T_LINES", "a\nb", 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[512];
		snprintf(text, sizeof(text), "%splugin.x = %s\n", BASE, cases[i].written);
		assert_int_equal(load_text(text), ST_INVALID);
		expect_problem("effectd.ini:8: [consumer:loyalty] plugin.x:", cases[i].text);
		assert_int_equal(problem_count, 1);
	}
}

static void a_key_takes_the_content_of_a_file(void **state)
{
	(void)state;
	enum { LONG = 200 * 1024 };
	AUTOFREE char *sql = malloc(LONG + 2);
	assert_non_null(sql);
	for (int i = 0; i < LONG; i++)
		sql[i] = "SELECT ${x}\n; # '\t"[i % 18];
	memcpy(sql + LONG, "\n", 2);
	write_file("long.sql", sql);
	write_file("url", "amqps://h/\r\n");
	expect_good(load_text("[broker:main]\nurl_file = url\n[database:main]\nconninfo = x\n"
			      "[consumer:c]\nplugin = p.so\nqueue = q\nplugin.sql_file = long.sql\n"));
	assert_string_equal(loaded->brokers[0].url, "amqps://h/");
	assert_string_equal(loaded->consumers[0].settings.list[0].name, "sql");
	sql[LONG] = '\0'; /* the last line end is the file's, not the value's */
	assert_string_equal(loaded->consumers[0].settings.list[0].value, sql);

	write_bytes("nul", "a\0b", 3);
	write_file("empty", "\n");
	assert_int_equal(
		load_text("[broker:main]\nurl_file = empty\n[database:main]\nconninfo_file = nul\n"
			  "[consumer:c]\nplugin = p.so\nqueue = q\nplugin.a_file = missing\nplugin.b_file =\n"),
		ST_INVALID);
	expect_problem("effectd.ini:2: [broker:main] url_file:", "empty");
	expect_problem("effectd.ini:4: [database:main] conninfo_file:", "not UTF-8 text");
	expect_problem("effectd.ini:8: [consumer:c] plugin.a_file:", "No such file");
	expect_problem("effectd.ini:9: [consumer:c] plugin.b_file:", "no value");
	assert_int_equal(problem_count, 4);
}

static void passwords_are_read_to_the_byte(void **state)
{
	(void)state;
	static const struct {
		const char *content, *password;
	} cases[] = {
		{ "a;b ; c#d\n", "a;b ; c#d" },
		{ "x ;y", "x ;y" },
		{ "\"q;r\"\r\n", "\"q;r\"" },
		{ "  lead and trail \n", "  lead and trail " },
		{ "a=b:c%d${HOME}\n", "a=b:c%d${HOME}" },
		{ "p\xc3\xa4ss\n", "p\xc3\xa4ss" },
		{ "\xff\n", "\xff" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		write_file("password", cases[i].content);
		assert_int_equal(chmod(path_of("password"), 0600), 0);
		expect_good(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_file = password\n"));
		assert_string_equal(loaded->brokers[1].password, cases[i].password);
		assert_null(loaded->brokers[0].password);
		assert_int_equal(chmod(path_of("password"), 0400), 0);
		expect_good(load("effectd.ini"));
		assert_int_equal(unlink(path_of("password")), 0);
	}
}

static void a_password_file_that_others_may_read_is_refused(void **state)
{
	(void)state;
	static const mode_t modes[] = { 0644, 0640, 0660, 0604, 0602, 0610, 0601 };
	write_file("password", "s3cret\n");
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(path_of("password"), modes[i]), 0);
		assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_file = password\n"), ST_INVALID);
		expect_problem("effectd.ini:10: [broker:b] password_file:", "chmod 0600");
		assert_null(strstr(buffer_text(&problems), "s3cret"));
	}
}

static void a_password_file_must_hold_one_password(void **state)
{
	(void)state;
	static const struct {
		const char *content;
		size_t len;
		const char *text;
	} cases[] = {
		{ "", 0, "is empty" },
		{ "\n", 1, "is empty" },
		{ "a\nb\n", 4, "more than one line" },
		{ "a\n\n", 3, "more than one line" },
		{ "a\0b", 3, "NUL byte" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		write_bytes("password", cases[i].content, cases[i].len);
		assert_int_equal(chmod(path_of("password"), 0600), 0);
		assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_file = password\n"), ST_INVALID);
		expect_problem("effectd.ini:10: [broker:b] password_file:", cases[i].text);
	}
	assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_file = missing\n"), ST_INVALID);
	expect_problem("effectd.ini:10: [broker:b] password_file:", "No such file");
}

static void a_credential_comes_from_systemds_folder(void **state)
{
	(void)state;
	write_file("cred", "s3cret\n");
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	expect_good(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_credential = cred\n"));
	assert_string_equal(loaded->brokers[1].password, "s3cret");
	assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_credential = ../x/cred\n"), ST_INVALID);
	expect_problem("effectd.ini:10: [broker:b] password_credential:", "not a path");
	assert_int_equal(chmod(path_of("cred"), 0600), 0);
	assert_int_equal(
		load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_credential = cred\npassword_file = cred\n"),
		ST_INVALID);
	expect_problem("effectd.ini:11: [broker:b] password_file:", "not both");
	assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://u:p@h/\npassword_file = cred\n"), ST_INVALID);
	expect_problem("effectd.ini:9: [broker:b] url:", "has a password besides");
	unsetenv("CREDENTIALS_DIRECTORY");
	assert_int_equal(load_text(BASE "[broker:b]\nurl = amqp://h/\npassword_credential = cred\n"), ST_INVALID);
	expect_problem("effectd.ini:10: [broker:b] password_credential:", "CREDENTIALS_DIRECTORY is not set");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_drop_in_wins_over_the_file_that_includes_it),
		TEST(a_problem_in_an_included_file_names_that_file),
		TEST(a_section_does_not_reach_into_the_next_file),
		TEST(a_pattern_may_match_nothing_but_a_plain_name_must_exist),
		TEST(paths_start_at_the_folder_of_their_file),
		TEST(no_file_is_read_twice),
		TEST(includes_are_bounded_in_depth),
		TEST(variables_are_replaced),
		TEST(a_variable_that_is_not_there_is_an_error),
		TEST(a_key_takes_the_content_of_a_file),
		TEST(passwords_are_read_to_the_byte),
		TEST(a_password_file_that_others_may_read_is_refused),
		TEST(a_password_file_must_hold_one_password),
		TEST(a_credential_comes_from_systemds_folder),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

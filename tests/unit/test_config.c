/* What a file says is what the structs hold, to the byte; what it should not say is refused with its place. */
#include "config_fixture.h"

static const char *conninfo(void)
{
	return loaded->databases[0].conninfo;
}

static void a_minimal_file_gives_every_default(void **state)
{
	(void)state;
	expect_good(load_text(BASE));
	assert_string_equal(loaded->process.plugin_dir, EFFECTD_PLUGIN_DIR);
	assert_int_equal(loaded->process.drain_timeout_ms, 25000);
	assert_int_equal(loaded->process.summary_interval_ms, 60000);
	assert_int_equal(loaded->process.memory_max_bytes, 512 << 20);
	assert_int_equal(loaded->consumer_count, 1);
	const struct config_consumer *c = config_find_consumer(loaded, "loyalty");
	assert_non_null(c);
	assert_string_equal(c->plugin, "loyalty.so");
	assert_int_equal(c->plugin_place.line, 6);
	assert_ptr_equal(c->broker, &loaded->brokers[0]);
	assert_ptr_equal(c->database, &loaded->databases[0]);
	assert_int_equal(c->workers, 1);
	assert_int_equal(c->batch_max, 100);
	assert_int_equal(c->prefetch, 300);
	assert_int_equal(c->batch_bytes, 4 << 20);
	assert_int_equal(c->retention_ms, INT64_C(30) * 86400 * 1000);
	assert_int_equal(c->declare, DECLARE_NO);
	assert_string_equal(c->queue_type, "quorum");
	assert_true(loaded->brokers[0].tls_verify);
	assert_null(loaded->brokers[0].password);
	assert_null(config_find_consumer(loaded, "loyal"));
}

static void values_are_taken_as_they_stand(void **state)
{
	(void)state;
	static const char *const values[] = {
		"host=/x password='a;b ; c#d'",
		"password=a;b ; c#d",
		"x ;y",
		"\"q;r\"",
		"'single' \"double\" \\back",
		"a=b:c=d",
		"100% %s %n",
		"p\xc3\xa4ss \xe2\x82\xac \xf0\x9f\x98\x80",
		"$ $1 $$ {x} $x",
		"# not a comment",
		"[not a section]",
		"a\tb",
	};
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		char text[512];
		snprintf(text, sizeof(text),
			 "[broker:main]\nurl = amqp://h/\n[database:main]\n"
			 "conninfo =  \t%s \t \n[consumer:loyalty]\nplugin = p.so\nqueue = q\n",
			 values[i]);
		expect_good(load_text(text));
		assert_string_equal(conninfo(), values[i]);
	}
}

static void a_value_may_be_longer_than_any_limit_of_the_library(void **state)
{
	(void)state;
	enum { LONG = 100 * 1024 };
	CLEANUP(buffer_finish) struct buffer text = { 0 };
	AUTOFREE char *value = malloc(LONG + 1);
	assert_non_null(value);
	/* Around the 200 bytes and at 100 KiB; no two places alike, so that a piece that moved shows. */
	static const int lengths[] = { 49, 50, 51, 180, 185, 190, 195, 198, 199, 200, 201, 202, 400, 1024, LONG };
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		for (int j = 0; j < lengths[i]; j++)
			value[j] = " ;#=ab%d:c'"[(j * 7 + j / 13) % 11];
		value[0] = value[lengths[i] - 1] = 'x';
		value[lengths[i]] = '\0';
		buffer_clear(&text);
		buffer_printf(&text, "%splugin.sql = %s\n", BASE, value);
		expect_good(load_text(buffer_text(&text)));
		assert_int_equal(loaded->consumers[0].settings.count, 1);
		assert_string_equal(loaded->consumers[0].settings.list[0].value, value);
	}
}

static void long_names_are_kept_or_refused_whole(void **state)
{
	(void)state;
	char name[301], text[1024];
	memset(name, 'a', 300);
	name[63] = '\0';
	snprintf(text, sizeof(text), BASE "[consumer:%s]\nplugin = p.so\nqueue = other\n", name);
	expect_good(load_text(text));
	assert_string_equal(loaded->consumers[1].name, name);
	name[63] = 'a';
	name[64] = '\0';
	snprintf(text, sizeof(text), BASE "[consumer:%s]\nplugin = p.so\nqueue = other\n", name);
	assert_int_equal(load_text(text), ST_INVALID);
	expect_problem("effectd.ini:8: []", "(64 bytes)");
	name[64] = 'a';
	name[300] = '\0';
	snprintf(text, sizeof(text), BASE "[consumer:%s]\nplugin = p.so\nqueue = other\n", name);
	assert_int_equal(load_text(text), ST_INVALID);
	expect_problem("effectd.ini:8: []", "(300 bytes)");
	assert_int_equal(problem_count, 1);
	snprintf(text, sizeof(text), BASE "plugin.%s = x\n", name);
	assert_int_equal(load_text(text), ST_INVALID);
	expect_problem("effectd.ini:8: [consumer:loyalty]", "is 307 bytes long");
	name[120] = '\0';
	snprintf(text, sizeof(text), BASE "plugin.%s = x\n", name);
	expect_good(load_text(text));
	assert_string_equal(loaded->consumers[0].settings.list[0].name, name);
}

static void line_ends_and_byte_order_marks_of_editors_are_fine(void **state)
{
	(void)state;
	expect_good(load_text("\xef\xbb\xbf[broker:main]\r\nurl = amqp://h/\r\n\r\n# c\r\n[database:main]\r\n"
			      "conninfo = a b\r\n[consumer:x]\r\nplugin = p.so\r\nqueue = q \r"));
	assert_string_equal(conninfo(), "a b");
	assert_string_equal(loaded->consumers[0].queue, "q");
	expect_good(load_text(BASE "workers=2")); /* no line end at all */
	assert_int_equal(loaded->consumers[0].workers, 2);
}

static void comments_begin_a_line(void **state)
{
	(void)state;
	expect_good(load_text("# one\n;two\n#[broken\n" BASE ";workers = 2\n#workers = 3\n"));
	assert_int_equal(loaded->consumers[0].workers, 1);
	assert_int_equal(load_text(BASE "  # indented\n"), ST_INVALID);
	expect_problem("effectd.ini:8:", "begins with a space");
	assert_int_equal(load_text("[effectd] ; why\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:1:", "behind ]");
	assert_int_equal(load_text(BASE "workers = 2 ; two\n"), ST_INVALID);
	expect_problem("effectd.ini:8: [consumer:loyalty] workers:", "whole number");
}

static void an_indented_line_continues_nothing(void **state)
{
	(void)state;
	assert_int_equal(load_text(BASE "plugin.sql = SELECT\n  1\n\tplugin.x = 2\n"), ST_INVALID);
	expect_problem("effectd.ini:9: [consumer:loyalty]", "begins with a space");
	expect_problem("effectd.ini:10: [consumer:loyalty]", "begins with a space");
	assert_int_equal(problem_count, 2);
}

static void bytes_that_no_editor_shows_are_refused_with_their_place(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		const char *text;
	} cases[] = {
		{ "queue = a\0b\n", 12, "byte 10 of the line, 0x00, is a NUL byte" },
		{ "queue = \xff\n", 10, "byte 9 of the line, 0xff, is not UTF-8" },
		{ "queue = \xc3\n", 10, "byte 9 of the line, 0xc3, is not UTF-8" },
		{ "queue = \xed\xa0\x80\n", 12, "is not UTF-8" },
		{ "queue = a\rb\n", 12, "is a control character" },
		{ "queue = a\x1b[0m\n", 14, "is a control character" },
		{ "queue = \xc2\x9b\n", 11, "is a control character" },
		{ "# comment \xff\n", 12, "is not UTF-8" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buffer_finish) struct buffer text = { 0 };
		buffer_puts(&text, BASE);
		buffer_add(&text, cases[i].bytes, cases[i].len);
		buffer_puts(&text, "workers = 1\n");
		write_bytes("effectd.ini", text.data, text.len);
		assert_int_equal(load("effectd.ini"), ST_INVALID);
		expect_problem("effectd.ini:8: [consumer:loyalty]", cases[i].text);
		assert_int_equal(problem_count, 1);
	}
	write_bytes("effectd.ini", "\xff\xfe[\0e\0", 6); /* UTF-16 */
	assert_int_equal(load("effectd.ini"), ST_INVALID);
	expect_problem("effectd.ini:1:", "is not UTF-8");
}

static void a_bad_line_refuses_the_file_however_good_the_next_one_is(void **state)
{
	(void)state;
	assert_int_equal(load_text(BASE "retentoin\nretention = 60d\n"), ST_INVALID);
	expect_problem("effectd.ini:8: [consumer:loyalty]", "retentoin is neither");
	assert_int_equal(problem_count, 1);
	static const char *const lines[] = { "= 3\n",
					     "[consumer:x\n",
					     "[]\n",
					     "[\n",
					     "]\n",
					     "a b = 3\n",
					     "wo\"rkers = 3\n",
					     ": 3\n",
					     "workers: 3\n",
					     "k\xc3\xa4y = 3\n",
					     "[consumer]\n",
					     "[effectd:x]\n",
					     "[consumer:]\n",
					     "[consumer:9a]\n",
					     "[consumer:a b]\n",
					     "[consumer: a]\n" };
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char text[512];
		snprintf(text, sizeof(text), "%s%s", BASE, lines[i]);
		assert_int_equal(load_text(text), ST_INVALID);
		expect_problem("effectd.ini:8:", "");
		assert_int_equal(problem_count, 1);
	}
}

static void what_cannot_be_read_is_named(void **state)
{
	(void)state;
	assert_int_equal(load("missing.ini"), ST_INVALID);
	expect_problem("missing.ini:0:", "No such file");
	assert_int_equal(mkdir(path_of("folder.ini"), 0700), 0);
	assert_int_equal(load("folder.ini"), ST_INVALID);
	expect_problem("folder.ini:0:", "is a directory");
	assert_int_equal(mkfifo(path_of("fifo.ini"), 0600), 0);
	assert_int_equal(load("fifo.ini"), ST_INVALID);
	expect_problem("fifo.ini:0:", "not a regular file");
	assert_int_equal(load_text(""), ST_INVALID);
	expect_problem("effectd.ini:0:", "no section");
	assert_int_equal(load_text("# nothing\n\n"), ST_INVALID);
	expect_problem("effectd.ini:0:", "no section");
	if (geteuid() != 0) {
		write_file("secret.ini", BASE);
		assert_int_equal(chmod(path_of("secret.ini"), 0), 0);
		assert_int_equal(load("secret.ini"), ST_INVALID);
		expect_problem("secret.ini:0:", "Permission denied");
	}
	AUTOFREE char *big = calloc(1, (16 << 20) + 1);
	assert_non_null(big);
	memset(big, '\n', (16 << 20) + 1);
	write_bytes("big.ini", big, (16 << 20) + 1);
	assert_int_equal(load("big.ini"), ST_INVALID);
	expect_problem("big.ini:0:", "more than 16777216 bytes");
}

static void a_key_or_section_stands_once_in_a_file(void **state)
{
	(void)state;
	assert_int_equal(load_text(BASE "workers = 2\nworkers = 3\nplugin.a = 1\nplugin.a = 2\n"), ST_INVALID);
	expect_problem("effectd.ini:9: [consumer:loyalty] workers:", "already, in line 8");
	expect_problem("effectd.ini:11: [consumer:loyalty] plugin.a:", "already, in line 10");
	write_file("sql", "x");
	assert_int_equal(load_text(BASE "plugin.a = 1\nplugin.a_file = sql\n"), ST_INVALID);
	expect_problem("effectd.ini:9: [consumer:loyalty] plugin.a_file:", "already, in line 8");
	assert_int_equal(load_text(BASE "[consumer:loyalty]\nworkers = 2\n"), ST_INVALID);
	expect_problem("effectd.ini:8:", "already, in line 5");
	assert_int_equal(problem_count, 1);
}

static void a_setting_needs_a_section(void **state)
{
	(void)state;
	assert_int_equal(load_text("workers = 2\n" BASE), ST_INVALID);
	expect_problem("effectd.ini:1: [] workers:", "before the first [section]");
}

static void what_was_meant_is_suggested(void **state)
{
	(void)state;
	static const struct {
		const char *line, *where, *text;
	} cases[] = {
		{ "wokers = 2", "[consumer:loyalty] wokers:", "did you mean workers?" },
		{ "batch-max = 2", "[consumer:loyalty] batch-max:", "did you mean batch_max?" },
		{ "plugn.sql = 2", "[consumer:loyalty] plugn.sql:", "did you mean plugin.sql?" },
		{ "log_level = info", "[consumer:loyalty] log_level:", "it belongs into [effectd]" },
		{ "conninfo = x", "[consumer:loyalty] conninfo:", "it belongs into [database:NAME]" },
		{ "password = x", "[consumer:loyalty] password:", "password_file = PATH" },
		{ "xyzzy = 2", "[consumer:loyalty] xyzzy:", "there is no such key" },
		{ "queue_file = x", "[consumer:loyalty] queue_file:", "no such key" },
		{ "plugin. = x", "[consumer:loyalty] plugin.:", "no such key" },
		{ "declare = yess", "[consumer:loyalty] declare:", "did you mean yes?" },
		{ "broker = mian", "[consumer:loyalty] broker:", "did you mean main?" },
		{ "[consumr:x]", "[] :", "did you mean [consumer:x]?" },
		{ "[efectd]", "[] :", "did you mean [effectd]?" },
		{ "[DATABASE:x]", "[] :", "did you mean [database:x]?" },
		{ "[xyzzy:x]", "[] :", "broker, database, consumer, target and relay" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[512], begin[128];
		snprintf(text, sizeof(text), "%s%s\n", BASE, cases[i].line);
		snprintf(begin, sizeof(begin), "effectd.ini:8: %s", cases[i].where);
		assert_int_equal(load_text(text), ST_INVALID);
		expect_problem(begin, cases[i].text);
		assert_int_equal(problem_count, 1);
	}
}

static void one_run_finds_everything_in_the_order_of_the_lines(void **state)
{
	(void)state;
	assert_int_equal(load_text("[effectd]\n"
				   "log_level = loud\n"
				   "drain_timeout = 25\n"
				   "include = nowhere.ini\n"
				   "[broker:main]\n"
				   "url = http://x\n"
				   "[consumer:a]\n"
				   "queue = ${NO_SUCH_VARIABLE}\n"
				   "workers = 0\n"
				   "database = shop\n"
				   "  x\n"
				   "nonsense\n"),
			 ST_INVALID);
	static const int lines[] = { 2, 3, 4, 6, 7, 8, 9, 10, 11, 12 };
	const char *at = buffer_text(&problems);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		char begin[32];
		snprintf(begin, sizeof(begin), "effectd.ini:%d: ", lines[i]);
		assert_memory_equal(at, begin, strlen(begin));
		at = strchr(at, '\n') + 1;
	}
	assert_int_equal(problem_count, ARRAY_LEN(lines));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_minimal_file_gives_every_default),
		TEST(values_are_taken_as_they_stand),
		TEST(a_value_may_be_longer_than_any_limit_of_the_library),
		TEST(long_names_are_kept_or_refused_whole),
		TEST(line_ends_and_byte_order_marks_of_editors_are_fine),
		TEST(comments_begin_a_line),
		TEST(an_indented_line_continues_nothing),
		TEST(bytes_that_no_editor_shows_are_refused_with_their_place),
		TEST(a_bad_line_refuses_the_file_however_good_the_next_one_is),
		TEST(what_cannot_be_read_is_named),
		TEST(a_key_or_section_stands_once_in_a_file),
		TEST(a_setting_needs_a_section),
		TEST(what_was_meant_is_suggested),
		TEST(one_run_finds_everything_in_the_order_of_the_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

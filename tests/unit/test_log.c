/* The log: what a line looks like, what it never contains, and that a flood stays small. Standard error is a file in
 * memory here; each test uses event names of its own, because repeats are counted by them. */
#include "base/log.h"

#include "base/clock.h"
#include "base/log_line.h"
#include "base/text.h"
#include "base/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static char captured[2 << 20];
static int real_stderr = -1;

static void capture_begin(void)
{
	const int memory = memfd_create("log", MFD_CLOEXEC);

	assert_true(memory >= 0);
	fflush(stderr);
	real_stderr = dup(STDERR_FILENO);
	dup2(memory, STDERR_FILENO);
	close(memory);
}

/* What was written since; standard error is as before. */
static const char *capture_end(void)
{
	const ssize_t len = pread(STDERR_FILENO, captured, sizeof(captured) - 1, 0);

	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	assert_true(len >= 0);
	captured[len] = '\0';
	return captured;
}

static size_t lines_in(const char *text)
{
	size_t lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

/* Everything behind the time stamp, which is checked and taken off. */
static const char *without_time(const char *line)
{
	static const char shape[] = "^time=[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z ";
	regmatch_t match;
	regex_t regex;

	assert_int_equal(regcomp(&regex, shape, REG_EXTENDED), 0);
	const int found = regexec(&regex, line, 1, &match, 0);
	regfree(&regex);
	assert_int_equal(found, 0);
	return line + match.rm_eo;
}

#define LOGFMT(expected, ...)                                                                  \
	do {                                                                                   \
		capture_begin();                                                               \
		log_info(__VA_ARGS__);                                                         \
		assert_string_equal(without_time(capture_end()), "level=info " expected "\n"); \
	} while (0)

static int set_up(void **state)
{
	(void)state;
	log_setup(LOG_INFO, LOG_LOGFMT);
	log_context(NULL, 0);
	return 0;
}

static void a_line_says_when_what_and_who(void **state)
{
	(void)state;
	LOGFMT("event=plain_1 queue=orders prefetch=300 ratio=0.1", "plain_1", LOG_STR("queue", "orders"),
	       LOG_INT("prefetch", 300), LOG_REAL("ratio", 0.1));
	log_context("loyalty", 2);
	LOGFMT("event=plain_2 consumer=loyalty worker=2 n=-9223372036854775808", "plain_2", LOG_INT("n", INT64_MIN));
	log_context(NULL, 0);
	LOGFMT("event=plain_3 x=1", "plain_3", LOG_INT("x", 1));
}

static void an_absent_text_leaves_its_field_out(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ST_INVALID, "no such queue");
	LOGFMT("event=absent_1 b=1", "absent_1", LOG_STR("a", NULL), LOG_INT("b", 1), LOG_BYTES("c", NULL, 0));
	LOGFMT("event=absent_2 error=\"no such queue\"", "absent_2", LOG_ERR(&err));
	memcpy(err.sqlstate, "42P01", 6);
	LOGFMT("event=absent_3 error=\"no such queue\" sqlstate=42P01", "absent_3", LOG_ERR(&err));
}

static void logfmt_quotes_what_could_be_misread(void **state)
{
	(void)state;
	LOGFMT("event=quote_1 a=\"\"", "quote_1", LOG_STR("a", ""));
	LOGFMT("event=quote_2 a=\"x y\"", "quote_2", LOG_STR("a", "x y"));
	LOGFMT("event=quote_3 a=\"x=y\"", "quote_3", LOG_STR("a", "x=y"));
	LOGFMT("event=quote_4 a=\"say \\\"x\\\" \\\\\"", "quote_4", LOG_STR("a", "say \"x\" \\"));
	LOGFMT("event=quote_5 a=order-completed:1,2;\xe2\x82\xac", "quote_5",
	       LOG_STR("a", "order-completed:1,2;\xe2\x82\xac"));
}

static void control_and_broken_bytes_never_reach_the_terminal(void **state)
{
	(void)state;
	LOGFMT("event=bytes_1 a=\"x\\x0alevel=error\\x1b[2J\\x7f\"", "bytes_1",
	       LOG_STR("a", "x\nlevel=error\x1b[2J\x7f"));
	LOGFMT("event=bytes_2 a=\"\\xc3(\\xff\\x00\"", "bytes_2", LOG_BYTES("a", "\xc3(\xff\0", 4));
	LOGFMT("event=bytes_3 a=\"\\xc2\\x9b2J\"", "bytes_3",
	       LOG_STR("a", "\xc2\x9b"
			    "2J"));
}

static json_t *json_line(const char *text)
{
	json_error_t error;
	json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	assert_int_equal(lines_in(text), 1);
	if (!line)
		fail_msg("%s: %s", error.text, text);
	return line;
}

static void json_lines_give_the_same_values(void **state)
{
	char all[128];

	(void)state;
	for (size_t i = 0; i < sizeof(all) - 1; i++)
		all[i] = (char)(i + 1);
	all[sizeof(all) - 1] = '\0';

	log_setup(LOG_INFO, LOG_JSON);
	log_context("loyalty", 3);
	capture_begin();
	log_warn("json_1", LOG_STR("ascii", all), LOG_STR("wide", "\xc2\x9b\xe2\x82\xac\xf0\x9f\x92\xa9"),
		 LOG_BYTES("broken", "\xc3(\xff", 3), LOG_INT("big", INT64_MAX), LOG_REAL("nan", NAN),
		 LOG_REAL("r", 2.5), LOG_STR("empty", ""), LOG_STR("absent", NULL));

	json_t *line = json_line(capture_end());
	assert_string_equal(json_string_value(json_object_get(line, "level")), "warning");
	assert_string_equal(json_string_value(json_object_get(line, "event")), "json_1");
	assert_string_equal(json_string_value(json_object_get(line, "consumer")), "loyalty");
	assert_int_equal(json_integer_value(json_object_get(line, "worker")), 3);
	assert_string_equal(json_string_value(json_object_get(line, "ascii")), all);
	assert_string_equal(json_string_value(json_object_get(line, "wide")), "\xc2\x9b\xe2\x82\xac\xf0\x9f\x92\xa9");
	assert_string_equal(json_string_value(json_object_get(line, "broken")), "\\xc3(\\xff");
	assert_true(json_integer_value(json_object_get(line, "big")) == INT64_MAX);
	assert_true(json_is_null(json_object_get(line, "nan")));
	assert_true(json_real_value(json_object_get(line, "r")) == 2.5);
	assert_string_equal(json_string_value(json_object_get(line, "empty")), "");
	assert_null(json_object_get(line, "absent"));
	json_decref(line);
}

static void a_json_line_holds_no_raw_control_byte(void **state)
{
	char all[33];

	(void)state;
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)i;
	log_setup(LOG_INFO, LOG_JSON);
	capture_begin();
	log_info("json_2", LOG_BYTES("a", all, sizeof(all)), LOG_STR("b", "\x7f\xc2\x85"));

	const char *text = capture_end();
	for (const char *at = text; *at && *at != '\n'; at += text_utf8_len(at, strlen(at)))
		assert_false(text_is_control(at, text_utf8_len(at, strlen(at))));
	json_decref(json_line(text));
}

static void check_long_line(enum log_format format, const char *data, size_t len)
{
	const struct log_field first = LOG_BYTES("a", data, len), second = LOG_INT("b", 12345);
	struct log_line line;

	log_line_begin(&line, format);
	log_line_add(&line, &first);
	log_line_add(&line, &second);
	log_line_add(&line, &first);
	log_line_end(&line);

	assert_true(line.len <= LOG_LINE_MAX);
	assert_true(text_is_utf8(line.data, line.len));
	assert_ptr_equal(memchr(line.data, '\n', line.len), line.data + line.len - 1);
	assert_true(line.cut == (memmem(line.data, line.len, "truncated", 9) != NULL));
	if (format == LOG_JSON) {
		json_t *json = json_loadb(line.data, line.len, 0, NULL);
		assert_non_null(json);
		json_decref(json);
	}
}

/* Around the bound every length is tried, so that a quote or brace that no longer fits would show. The bound is met
 * at different lengths, depending on what a byte of input becomes: 1, 2, 4 or 5 bytes. */
static void a_long_line_is_cut_but_whole(void **state)
{
	static const char *const pieces[] = { "x", "=", "\xe2\x82\xac", "\n", "\"", "\xff" };
	static const size_t grows_by[] = { 1, 2, 4, 5 };
	static char huge[3 * LOG_LINE_MAX];

	(void)state;
	for (size_t p = 0; p < ARRAY_LEN(pieces); p++) {
		const size_t piece_len = strlen(pieces[p]);

		for (size_t i = 0; i + piece_len <= sizeof(huge); i += piece_len)
			memcpy(huge + i, pieces[p], piece_len);
		for (size_t g = 0; g < ARRAY_LEN(grows_by); g++) {
			const size_t bound = LOG_LINE_MAX / grows_by[g];

			for (size_t len = bound - 60; len < bound + 5; len++) {
				check_long_line(LOG_LOGFMT, huge, len);
				check_long_line(LOG_JSON, huge, len);
			}
		}
		check_long_line(LOG_LOGFMT, huge, sizeof(huge));
		check_long_line(LOG_JSON, huge, sizeof(huge));
	}
}

static void what_is_below_the_level_is_not_written(void **state)
{
	(void)state;
	log_setup(LOG_WARNING, LOG_LOGFMT);
	capture_begin();
	log_debug("level_1");
	log_info("level_2");
	log_write(LOG_INFO, "level_3", NULL, 0);
	log_warn("level_4");
	log_error("level_5");

	const char *text = capture_end();
	assert_int_equal(lines_in(text), 2);
	assert_non_null(strstr(text, "level=warning event=level_4\n"));
	assert_non_null(strstr(text, "level=error event=level_5\n"));
}

static void a_flood_is_cut_and_counted(void **state)
{
	(void)state;
	capture_begin();
	for (int i = 0; i < 1000; i++)
		log_error("flood_1", LOG_INT("i", i));
	assert_int_equal(lines_in(capture_end()), 5);

	wait_alone.wait(&wait_alone, -1, 0, clock_mono_ms() + 1001);
	LOGFMT("event=flood_1 repeated=995 i=1", "flood_1", LOG_INT("i", 1));
	LOGFMT("event=flood_1 i=2", "flood_1", LOG_INT("i", 2));
}

static void a_flood_hides_neither_other_events_nor_other_workers(void **state)
{
	(void)state;
	capture_begin();
	for (int i = 0; i < 100; i++)
		log_warn("flood_2");
	log_warn("flood_3");
	for (int worker = 0; worker < 3; worker++) {
		log_context("loyalty", worker);
		log_warn("flood_2");
	}
	log_context("analytics", 0);
	log_warn("flood_2");
	assert_int_equal(lines_in(capture_end()), 5 + 1 + 3 + 1);
}

static void more_events_than_the_table_holds_are_all_written(void **state)
{
	char event[20];

	(void)state;
	capture_begin();
	for (int i = 0; i < 2000; i++) {
		snprintf(event, sizeof(event), "many_%d", i);
		log_warn(event);
	}
	assert_int_equal(lines_in(capture_end()), 2000);
}

static void *write_many(void *number)
{
	log_context("loyalty", *(const int *)number);
	for (int i = 0; i < 2000; i++)
		log_info("threads", LOG_INT("i", i), LOG_STR("text", "a text that is long enough to be torn apart"));
	return NULL;
}

static void lines_of_many_threads_are_whole(void **state)
{
	pthread_t threads[8];
	int numbers[ARRAY_LEN(threads)];
	size_t lines = 0;

	(void)state;
	capture_begin();
	fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		numbers[i] = (int)i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, &numbers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	capture_end();

	for (char *save, *line = strtok_r(captured, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		static const char end[] = " text=\"a text that is long enough to be torn apart\"";

		assert_non_null(strstr(without_time(line), "level=info event=threads consumer=loyalty worker="));
		assert_string_equal(line + strlen(line) - strlen(end), end);
		lines++;
	}
	assert_true(lines >= ARRAY_LEN(threads) * 100 && lines < ARRAY_LEN(threads) * 2000);
}

static void logging_leaves_errno_alone(void **state)
{
	(void)state;
	capture_begin();
	close(STDERR_FILENO);
	errno = ENOENT;
	log_error("errno_1");
	const int after = errno;
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	assert_int_equal(after, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_line_says_when_what_and_who, set_up),
		cmocka_unit_test_setup(an_absent_text_leaves_its_field_out, set_up),
		cmocka_unit_test_setup(logfmt_quotes_what_could_be_misread, set_up),
		cmocka_unit_test_setup(control_and_broken_bytes_never_reach_the_terminal, set_up),
		cmocka_unit_test_setup(json_lines_give_the_same_values, set_up),
		cmocka_unit_test_setup(a_json_line_holds_no_raw_control_byte, set_up),
		cmocka_unit_test_setup(a_long_line_is_cut_but_whole, set_up),
		cmocka_unit_test_setup(what_is_below_the_level_is_not_written, set_up),
		cmocka_unit_test_setup(a_flood_is_cut_and_counted, set_up),
		cmocka_unit_test_setup(a_flood_hides_neither_other_events_nor_other_workers, set_up),
		cmocka_unit_test_setup(more_events_than_the_table_holds_are_all_written, set_up),
		cmocka_unit_test_setup(lines_of_many_threads_are_whole, set_up),
		cmocka_unit_test_setup(logging_leaves_errno_alone, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The error record: one clean line, whatever was put in. */
#include "base/error.h"

#include "base/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_failure_is_one_line_of_code(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(error_set(&err, ST_REFUSED, "relation %s does not exist", "x"), ST_REFUSED);
	assert_int_equal(err.status, ST_REFUSED);
	assert_string_equal(err.text, "relation x does not exist");
	assert_string_equal(err.sqlstate, "");
	assert_false(err.fatal);
	assert_int_equal(err.code, 0);
}

static void setting_an_error_forgets_the_one_before(void **state)
{
	struct error err = { .status = ST_REFUSED, .sqlstate = "23505", .fatal = true, .code = 404, .text = "old" };

	(void)state;
	error_set(&err, ST_INVALID, "new");
	assert_string_equal(err.sqlstate, "");
	assert_false(err.fatal);
	assert_int_equal(err.code, 0);
}

static void errno_comes_with_its_text(void **state)
{
	struct error err;

	(void)state;
	assert_int_equal(error_errno(&err, ST_INVALID, ENOENT, "cannot open %s", "a.ini"), ST_INVALID);
	assert_string_equal(err.text, "cannot open a.ini: No such file or directory");
	assert_int_equal(err.code, ENOENT);
}

static void wrapping_keeps_everything_else(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ST_UNAVAILABLE, "connection refused");
	memcpy(err.sqlstate, "08006", 6);
	err.fatal = true;
	err.code = 7;
	assert_int_equal(error_wrap(&err, "database %s", "main"), ST_UNAVAILABLE);
	assert_int_equal(error_wrap(&err, "consumer loyalty"), ST_UNAVAILABLE);
	assert_string_equal(err.text, "consumer loyalty: database main: connection refused");
	assert_string_equal(err.sqlstate, "08006");
	assert_true(err.fatal);
	assert_int_equal(err.code, 7);
}

static void an_error_may_be_made_of_its_own_text(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ST_INVALID, "inner");
	error_set(&err, ST_INTERNAL, "outer (%s)", err.text);
	assert_string_equal(err.text, "outer (inner)");
	error_wrap(&err, "again %s", err.text);
	assert_string_equal(err.text, "again outer (inner): outer (inner)");
}

static void no_record_is_needed(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, ST_INVALID, "x"), ST_INVALID);
	assert_int_equal(error_errno(NULL, ST_UNAVAILABLE, ENOENT, "x"), ST_UNAVAILABLE);
	assert_int_equal(error_oom(NULL), ST_INTERNAL);
	assert_int_equal(error_wrap(NULL, "x"), ST_INTERNAL);
}

static void a_text_of_several_lines_becomes_one(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ST_REFUSED, "%s", "\n could not connect:\r\n\tConnection refused \n\n");
	assert_string_equal(err.text, "could not connect: Connection refused");
}

static void bytes_of_another_encoding_are_escaped(void **state)
{
	struct error err;

	(void)state;
	error_set(&err, ST_REFUSED, "%s", "f\xfcr \x1b[31m");
	assert_string_equal(err.text, "f\\xfcr \\x1b[31m");
}

static void a_long_text_is_cut_between_characters(void **state)
{
	char longest[5000];

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		struct error err;

		memset(longest, 'x', sizeof(longest));
		for (size_t i = shift; i + 3 < sizeof(longest); i += 3)
			memcpy(longest + i, "\xe2\x82\xac", 3);
		longest[sizeof(longest) - 1] = '\0';

		error_set(&err, ST_REFUSED, "%s", longest);
		error_wrap(&err, "%s", longest);
		error_errno(&err, ST_REFUSED, ENOENT, "%s", longest);
		const size_t len = strlen(err.text);
		assert_in_range(len, sizeof(err.text) - 4, sizeof(err.text) - 1);
		assert_true(text_is_utf8(err.text, len));
		assert_null(strchr(err.text, '\\'));
	}
}

static void clearing_leaves_nothing(void **state)
{
	static const struct error nothing;
	struct error err;

	(void)state;
	error_oom(&err);
	assert_string_equal(err.text, "out of memory");
	error_clear(&err);
	assert_memory_equal(err.text, nothing.text, sizeof(err.text));
	assert_int_equal(err.status, ST_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_is_one_line_of_code),
		cmocka_unit_test(setting_an_error_forgets_the_one_before),
		cmocka_unit_test(errno_comes_with_its_text),
		cmocka_unit_test(wrapping_keeps_everything_else),
		cmocka_unit_test(an_error_may_be_made_of_its_own_text),
		cmocka_unit_test(no_record_is_needed),
		cmocka_unit_test(a_text_of_several_lines_becomes_one),
		cmocka_unit_test(bytes_of_another_encoding_are_escaped),
		cmocka_unit_test(a_long_text_is_cut_between_characters),
		cmocka_unit_test(clearing_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

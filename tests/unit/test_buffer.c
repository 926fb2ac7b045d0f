/* The growing buffer: always text, and never half a piece. */
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BUFFER CLEANUP(buffer_finish) struct buffer

static void an_empty_buffer_is_empty_text(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	assert_string_equal(buffer_text(&b), "");
	buffer_puts(&b, "");
	buffer_add(&b, NULL, 0);
	buffer_printf(&b, "%s", "");
	buffer_clear(&b);
	assert_string_equal(buffer_text(&b), "");
	assert_int_equal(b.len, 0);
	assert_false(b.failed);
}

static void pieces_follow_each_other(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	buffer_puts(&b, "a=");
	buffer_printf(&b, "%d,%s", 42, "x");
	buffer_add(&b, "\0z", 2);
	assert_int_equal(b.len, 8);
	assert_memory_equal(b.data, "a=42,x\0z", 9);
}

static void text_is_terminated_at_every_length(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	for (size_t i = 0; i < 5000; i++) {
		buffer_add(&b, "x", 1);
		assert_int_equal(b.len, i + 1);
		assert_true(b.len < b.capacity);
		assert_int_equal(b.data[b.len], '\0');
	}
	assert_int_equal(strlen(buffer_text(&b)), 5000);
}

static void one_long_printf_is_whole(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	buffer_puts(&b, "<");
	buffer_printf(&b, "%0100000d", 7);
	buffer_puts(&b, ">");
	assert_int_equal(b.len, 100002);
	assert_string_equal(b.data + 100000, "7>");
}

static void clearing_keeps_the_memory(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	buffer_printf(&b, "%01000d", 0);
	const char *memory = b.data;
	buffer_clear(&b);
	assert_string_equal(buffer_text(&b), "");
	buffer_puts(&b, "again");
	assert_ptr_equal(b.data, memory);
	assert_string_equal(buffer_text(&b), "again");
}

static void a_failure_is_remembered_and_nothing_more_added(void **state)
{
	BUFFER b = { 0 };

	(void)state;
	buffer_puts(&b, "kept");
	buffer_add(&b, "", SIZE_MAX - 2);
	assert_true(b.failed);
	buffer_puts(&b, "dropped");
	buffer_printf(&b, "%d", 1);
	assert_string_equal(buffer_text(&b), "kept");

	buffer_clear(&b);
	assert_false(b.failed);
	buffer_puts(&b, "new");
	assert_string_equal(buffer_text(&b), "new");
}

static void text_is_wrapped_between_words(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer b = { 0 };
	buffer_puts(&b, "ab ");
	buffer_wrap(&b, "one two three much-too-long-a-word end", 3, "  ", 10);
	assert_string_equal(buffer_text(&b), "ab one two\n  three\n  much-too-long-a-word\n  end");
	buffer_clear(&b);
	buffer_wrap(&b, "", 0, "  ", 10);
	assert_string_equal(buffer_text(&b), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_wrapped_between_words),
		cmocka_unit_test(an_empty_buffer_is_empty_text),
		cmocka_unit_test(pieces_follow_each_other),
		cmocka_unit_test(text_is_terminated_at_every_length),
		cmocka_unit_test(one_long_printf_is_whole),
		cmocka_unit_test(clearing_keeps_the_memory),
		cmocka_unit_test(a_failure_is_remembered_and_nothing_more_added),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

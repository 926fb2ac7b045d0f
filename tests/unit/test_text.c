/* UTF-8, escaping, numbers with units, names and near misses. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The data is copied to the end of a heap block, so that a read past it is seen by AddressSanitizer. */
static bool is_utf8(const char *data, size_t len)
{
	AUTOFREE char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, data, len);
	return text_is_utf8(copy, len);
}

#define GOOD(s) assert_true(is_utf8((s), sizeof(s) - 1))
#define BAD(s)  assert_false(is_utf8((s), sizeof(s) - 1))

static void utf8_of_all_lengths_is_accepted(void **state)
{
	(void)state;
	assert_true(text_is_utf8(NULL, 0));
	GOOD("a");
	GOOD("order-completed:1234567890123456789");
	GOOD("nul \0 inside");
	GOOD("\xc2\x80 \xdf\xbf");
	GOOD("\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf");
	GOOD("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf");
	GOOD("gr\xc3\xbc\xc3\x9f gott 12345678 \xe2\x82\xac");
}

static void utf8_that_decoders_disagree_about_is_refused(void **state)
{
	(void)state;
	BAD("\x80");
	BAD("\xc3\x28");
	BAD("\xc0\x80"); /* NUL, overlong */
	BAD("\xc1\xbf");
	BAD("\xe0\x9f\xbf");     /* overlong */
	BAD("\xed\xa0\x80");     /* a surrogate */
	BAD("\xf0\x8f\xbf\xbf"); /* overlong */
	BAD("\xf4\x90\x80\x80"); /* above U+10FFFF */
	BAD("\xf5\x80\x80\x80");
	BAD("\xff");
	BAD("\xe2\x28\xa1");
	BAD("\xe2\x82\x28");
	BAD("\xf0\x9f\x92\x28");
}

static void a_character_in_pieces_at_the_end_is_refused(void **state)
{
	(void)state;
	BAD("\xc3");
	BAD("1234567\xc3");
	BAD("\xe2\x82");
	BAD("\xf0\x9f\x92");
}

static void one_bad_byte_is_found_at_every_offset(void **state)
{
	char data[40];

	(void)state;
	for (size_t len = 1; len <= sizeof(data); len++) {
		for (size_t at = 0; at < len; at++) {
			memset(data, 'x', sizeof(data));
			assert_true(is_utf8(data, len));
			data[at] = (char)0xff;
			assert_false(is_utf8(data, len));
		}
	}
}

/* Every code point, against the rule in the words of RFC 3629. */
static void every_code_point_but_surrogates_is_accepted(void **state)
{
	(void)state;
	for (unsigned cp = 0x80; cp <= 0x10ffff; cp++) {
		char c[4];
		size_t len;

		if (cp < 0x800) {
			c[0] = (char)(0xc0 | cp >> 6);
			len = 2;
		} else if (cp < 0x10000) {
			c[0] = (char)(0xe0 | cp >> 12);
			c[1] = (char)(0x80 | (cp >> 6 & 0x3f));
			len = 3;
		} else {
			c[0] = (char)(0xf0 | cp >> 18);
			c[1] = (char)(0x80 | (cp >> 12 & 0x3f));
			c[2] = (char)(0x80 | (cp >> 6 & 0x3f));
			len = 4;
		}
		c[len - 1] = (char)(0x80 | (cp & 0x3f));

		const size_t expected = cp >= 0xd800 && cp <= 0xdfff ? 0 : len;
		if (text_utf8_len(c, len) != expected)
			fail_msg("U+%04X: %zu instead of %zu", cp, text_utf8_len(c, len), expected);
	}
}

static void text_is_cut_between_characters(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xa9z"; /* starts at 0, 1, 3, 6, 10 */
	static const size_t cuts[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };

	(void)state;
	for (size_t max = 0; max < ARRAY_LEN(cuts); max++)
		assert_int_equal(text_utf8_cut(text, sizeof(text) - 1, max), cuts[max]);

	/* A text that somebody else cut in the middle. */
	assert_int_equal(text_utf8_cut("ab\xe2\x82", 4, 100), 2);
	/* Stray continuation bytes have no boundary to respect. */
	assert_int_equal(text_utf8_cut("\x80\x80\x80\x80\x80", 5, 4), 4);
}

#define ESCAPES(size, in, out)                                                                      \
	do {                                                                                        \
		char dst[size];                                                                     \
		assert_int_equal(text_escape(dst, sizeof(dst), (in), sizeof(in) - 1), strlen(out)); \
		assert_string_equal(dst, out);                                                      \
	} while (0)

static void control_and_broken_bytes_are_escaped(void **state)
{
	(void)state;
	ESCAPES(64, "plain \xe2\x82\xac", "plain \xe2\x82\xac");
	ESCAPES(64, "a\0b\n\x1b[31m\x7f", "a\\x00b\\x0a\\x1b[31m\\x7f");
	ESCAPES(64, "\xc3\x28\xff", "\\xc3(\\xff");
	ESCAPES(64,
		"\xc2\x9b"
		"31m",
		"\\xc2\\x9b31m"); /* CSI in one character */
}

static void escaped_text_is_cut_between_pieces(void **state)
{
	(void)state;
	ESCAPES(1, "abc", "");
	ESCAPES(3, "abc", "ab");
	ESCAPES(4, "a\xe2\x82\xac", "a");
	ESCAPES(5, "a\xe2\x82\xac", "a\xe2\x82\xac");
	ESCAPES(5, "a\n", "a");
	ESCAPES(6, "a\n", "a\\x0a");
	assert_int_equal(text_escape(NULL, 0, "abc", 3), 0);
}

static void integers_are_whole_strings_in_range(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} good[] = {
		{ "0", 0 },
		{ "-0", 0 },
		{ "007", 7 },
		{ "-12", -12 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
	};
	static const char *const bad[] = { "",
					   "-",
					   "+1",
					   " 1",
					   "1 ",
					   "1.0",
					   "0x1",
					   "1e3",
					   "--1",
					   "9223372036854775808",
					   "1\n",
					   "99999999999999999999",
					   "-9223372036854775809",
					   "yes" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int64_t value = 99;
		assert_true(text_parse_int(good[i].text, &value));
		assert_true(value == good[i].value);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t value = 99;
		assert_false(text_parse_int(bad[i], &value));
		assert_true(value == 99);
	}
}

static void booleans_are_yes_and_no_only(void **state)
{
	static const char *const bad[] = { "", "YES", "true", "1", "on", "yes ", "n", "y" };
	bool value = false;

	(void)state;
	assert_true(text_parse_bool("yes", &value) && value);
	assert_true(text_parse_bool("no", &value) && !value);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(text_parse_bool(bad[i], &value));
}

static void durations_need_a_unit_and_fit(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {
		{ "250ms", 250 },      { "30s", 30000 }, { "5min", 300000 }, { "12h", 43200000 },
		{ "30d", 2592000000 }, { "0", 0 },       { "0s", 0 },        { "106751991167d", 9223372036828800000 },
	};
	static const char *const bad[] = { "",
					   "30",
					   "s",
					   "-1s",
					   "1 s",
					   " 1s",
					   "1s ",
					   "1.5s",
					   "1m",
					   "1S",
					   "1sec",
					   "1s30s",
					   "00",
					   "1hour",
					   "+1s",
					   "106751991168d",
					   "99999999999999999999ms" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int64_t ms = -1;
		if (!text_parse_duration(good[i].text, &ms) || ms != good[i].ms)
			fail_msg("%s: %lld", good[i].text, (long long)ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t ms;
		if (text_parse_duration(bad[i], &ms))
			fail_msg("%s is accepted", bad[i]);
	}
}

static void sizes_have_binary_units_and_fit(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = {
		{ "0", 0 },          { "512", 512 },         { "64KiB", 65536 },
		{ "1MiB", 1048576 }, { "2GiB", 2147483648 }, { "9223372036854775807", INT64_MAX },
	};
	static const char *const bad[] = {
		"", "KiB", "64K", "64KB", "64kib", "64 KiB", "-1", "1.5MiB", "8589934592GiB"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int64_t bytes = -1;
		if (!text_parse_size(good[i].text, &bytes) || bytes != good[i].bytes)
			fail_msg("%s: %lld", good[i].text, (long long)bytes);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t bytes;
		if (text_parse_size(bad[i], &bytes))
			fail_msg("%s is accepted", bad[i]);
	}
}

static void quantities_are_written_in_the_largest_unit_that_divides_them(void **state)
{
	static const struct {
		void (*format)(int64_t number, char *text, size_t size);
		int64_t number;
		const char *text;
	} cases[] = {
		{ text_format_duration, 0, "0" },
		{ text_format_duration, 250, "250ms" },
		{ text_format_duration, 90000, "90s" },
		{ text_format_duration, 43200000, "12h" },
		{ text_format_duration, 86400000, "1d" },
		{ text_format_duration, 300000, "5min" },
		{ text_format_size, 0, "0" },
		{ text_format_size, 512, "512" },
		{ text_format_size, 65536, "64KiB" },
		{ text_format_size, 2147483648, "2GiB" },
		{ text_format_size, INT64_MAX, "9223372036854775807" },
	};
	char text[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cases[i].format(cases[i].number, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
}

static void names_are_lower_case_and_short(void **state)
{
	char longest[65] = { 0 };

	(void)state;
	assert_true(text_is_name("a"));
	assert_true(text_is_name("loyalty_2-b"));
	assert_false(text_is_name(""));
	assert_false(text_is_name("Loyalty"));
	assert_false(text_is_name("2a"));
	assert_false(text_is_name("_a"));
	assert_false(text_is_name("a.b"));
	assert_false(text_is_name("a b"));
	assert_false(text_is_name("a\xc3\xa9"));

	memset(longest, 'a', 63);
	assert_true(text_is_name(longest));
	longest[63] = 'a';
	assert_false(text_is_name(longest));
}

static void a_slip_of_the_finger_finds_the_word(void **state)
{
	static const char *const words[] = { "queue",     "prefetch",  "batch_max", "batch_bytes", "order",
					     "retry_min", "retry_max", "workers",   "plugin",      NULL };
	static const char *const slips[][2] = {
		{ "quene", "queue" },
		{ "que", NULL },
		{ "prefecth", "prefetch" },
		{ "Prefetch", "prefetch" },
		{ "batchmax", "batch_max" },
		{ "batch-max", "batch_max" },
		{ "odrer", "order" },
		{ "worker", "workers" },
		{ "retry_mxa", "retry_max" },
		{ "plugins", "plugin" },
		{ "x", NULL },
		{ "", NULL },
		{ "isolation", NULL },
		{ "order", "order" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(slips); i++) {
		const char *nearest = text_nearest(slips[i][0], words);

		if (!nearest != !slips[i][1] || (nearest && strcmp(nearest, slips[i][1]) != 0))
			fail_msg("%s: %s", slips[i][0], nearest ? nearest : "nothing");
	}
}

static void a_word_of_any_length_may_be_asked_for(void **state)
{
	static const char *const words[] = { "queue", NULL };
	AUTOFREE char *endless = malloc(100001);

	(void)state;
	assert_non_null(endless);
	memset(endless, 'q', 100000);
	endless[100000] = '\0';
	assert_null(text_nearest(endless, words));

	const char *const long_words[] = { endless, "queues", NULL };
	assert_string_equal(text_nearest("queue", long_words), "queues");
}

static void words_are_enumerated_and_cut_to_fit(void **state)
{
	(void)state;
	char text[16];
	text_enumerate((const char *const[]){ "a", "b", "c", NULL }, text, sizeof(text));
	assert_string_equal(text, "a, b or c");
	text_enumerate((const char *const[]){ "a", NULL }, text, sizeof(text));
	assert_string_equal(text, "a");
	text_enumerate((const char *const[]){ NULL }, text, sizeof(text));
	assert_string_equal(text, "");
	text_enumerate((const char *const[]){ "a", "b", "c", NULL }, text, 6);
	assert_string_equal(text, "a, b ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_enumerated_and_cut_to_fit),
		cmocka_unit_test(utf8_of_all_lengths_is_accepted),
		cmocka_unit_test(utf8_that_decoders_disagree_about_is_refused),
		cmocka_unit_test(a_character_in_pieces_at_the_end_is_refused),
		cmocka_unit_test(one_bad_byte_is_found_at_every_offset),
		cmocka_unit_test(every_code_point_but_surrogates_is_accepted),
		cmocka_unit_test(text_is_cut_between_characters),
		cmocka_unit_test(control_and_broken_bytes_are_escaped),
		cmocka_unit_test(escaped_text_is_cut_between_pieces),
		cmocka_unit_test(integers_are_whole_strings_in_range),
		cmocka_unit_test(booleans_are_yes_and_no_only),
		cmocka_unit_test(durations_need_a_unit_and_fit),
		cmocka_unit_test(quantities_are_written_in_the_largest_unit_that_divides_them),
		cmocka_unit_test(sizes_have_binary_units_and_fit),
		cmocka_unit_test(names_are_lower_case_and_short),
		cmocka_unit_test(a_slip_of_the_finger_finds_the_word),
		cmocka_unit_test(a_word_of_any_length_may_be_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

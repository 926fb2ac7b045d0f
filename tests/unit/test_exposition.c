/* Metrics as text: both formats by their rules, whatever the labels hold. */
#include "http/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct histogram_scale milliseconds = { .per_unit = 1000, .count = 3, .bounds = { 1, 250, 2000 } };

/* One of each type, and a family without samples. */
static void write_all(enum exposition_format format, struct buffer *out)
{
	struct exposition e;
	static struct histogram h;
	memset(&h, 0, sizeof(h));
	histogram_observe(&h, &milliseconds, 250);
	histogram_observe(&h, &milliseconds, 2001);
	histogram_observe(&h, &milliseconds, -5);

	exposition_init(&e, format, out);
	exposition_family(&e, "t_done_total", METRIC_COUNTER, "Done, \"quoted\" \\ and\ncut.");
	exposition_sample(&e, (const struct label[]){ { "a", "x" }, { "b", "1" } }, 2, UINT64_MAX);
	exposition_sample(&e, (const struct label[]){ { "a", "q\"b\\n\n" }, { "b", "" } }, 2, 0);
	exposition_family(&e, "t_nothing", METRIC_GAUGE, "Not there.");
	exposition_family(&e, "t_held", METRIC_GAUGE, "Held.");
	exposition_sample(&e, NULL, 0, 7);
	exposition_family(&e, "t_wait_seconds", METRIC_HISTOGRAM, "Wait.");
	exposition_histogram(&e, (const struct label[]){ { "a", "x" } }, 1, &h, &milliseconds);
	exposition_family(&e, "t_build_info", METRIC_INFO, "Build.");
	exposition_sample(&e, (const struct label[]){ { "version", "1" } }, 1, 1);
	exposition_finish(&e);
	assert_false(out->failed);
}

static void text_has_the_rules_of_prometheus(void **state)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };

	(void)state;
	write_all(EXPOSITION_TEXT, &out);
	assert_string_equal(buffer_text(&out), "# HELP t_done_total Done, \"quoted\" \\\\ and\\ncut.\n"
					       "# TYPE t_done_total counter\n"
					       "t_done_total{a=\"x\",b=\"1\"} 18446744073709551615\n"
					       "t_done_total{a=\"q\\\"b\\\\n\\n\",b=\"\"} 0\n"
					       "# HELP t_held Held.\n"
					       "# TYPE t_held gauge\n"
					       "t_held 7\n"
					       "# HELP t_wait_seconds Wait.\n"
					       "# TYPE t_wait_seconds histogram\n"
					       "t_wait_seconds_bucket{a=\"x\",le=\"0.001\"} 1\n"
					       "t_wait_seconds_bucket{a=\"x\",le=\"0.25\"} 2\n"
					       "t_wait_seconds_bucket{a=\"x\",le=\"2.0\"} 2\n"
					       "t_wait_seconds_bucket{a=\"x\",le=\"+Inf\"} 3\n"
					       "t_wait_seconds_sum{a=\"x\"} 2.251\n"
					       "t_wait_seconds_count{a=\"x\"} 3\n"
					       "# HELP t_build_info Build.\n"
					       "# TYPE t_build_info gauge\n"
					       "t_build_info{version=\"1\"} 1\n");
}

static void openmetrics_names_families_without_suffix_and_ends_with_eof(void **state)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };

	(void)state;
	write_all(EXPOSITION_OPENMETRICS, &out);
	const char *text = buffer_text(&out);
	assert_non_null(strstr(text, "# HELP t_done Done, \\\"quoted\\\" \\\\ and\\ncut.\n# TYPE t_done counter\n"
				     "t_done_total{a=\"x\",b=\"1\"} 18446744073709551615\n"));
	assert_non_null(strstr(text, "# TYPE t_build info\nt_build_info{version=\"1\"} 1\n"));
	assert_non_null(
		strstr(text, "# TYPE t_wait_seconds histogram\nt_wait_seconds_bucket{a=\"x\",le=\"0.001\"} 1\n"));
	assert_null(strstr(text, "t_nothing"));
	assert_string_equal(text + out.len - 7, "\n# EOF\n");
}

static void accept_header_chooses_the_format(void **state)
{
	static const struct {
		const char *accept;
		enum exposition_format format;
	} cases[] = {
		{ NULL, EXPOSITION_TEXT },
		{ "", EXPOSITION_TEXT },
		{ "*/*", EXPOSITION_TEXT },
		{ "text/html,application/xhtml+xml,*/*;q=0.8", EXPOSITION_TEXT },
		{ "application/openmetrics-text", EXPOSITION_OPENMETRICS },
		{ "Application/OpenMetrics-Text; version=1.0.0", EXPOSITION_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
		  EXPOSITION_OPENMETRICS },
		{ "text/plain;version=0.0.4;q=0.6, application/openmetrics-text;version=1.0.0;q=0.5", EXPOSITION_TEXT },
		{ "text/plain, application/openmetrics-text", EXPOSITION_OPENMETRICS },
		{ "application/openmetrics-text;q=0", EXPOSITION_TEXT },
		{ "application/openmetrics-text;q=0.001", EXPOSITION_OPENMETRICS },
		{ "application/openmetrics-textual", EXPOSITION_TEXT },
		{ "application/openmetrics-text;", EXPOSITION_OPENMETRICS },
		{ "application/openmetrics-text;q", EXPOSITION_OPENMETRICS },
		{ "application/openmetrics-text;q=", EXPOSITION_TEXT },
		{ ",,;q=;;,", EXPOSITION_TEXT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (exposition_negotiate(cases[i].accept) != cases[i].format)
			fail_msg("Accept: %s", cases[i].accept);
	}
}

static void a_value_falls_into_the_first_bucket_that_holds_it(void **state)
{
	struct histogram h = { 0 };
	static const int64_t values[] = { INT64_MIN, 0, 1, 2, 250, 251, 2000, 2001, INT64_MAX };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		histogram_observe(&h, &milliseconds, values[i]);
	assert_int_equal(h.buckets[0], 3);
	assert_int_equal(h.buckets[1], 2);
	assert_int_equal(h.buckets[2], 2);
	assert_int_equal(h.buckets[3], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_has_the_rules_of_prometheus),
		cmocka_unit_test(openmetrics_names_families_without_suffix_and_ends_with_eof),
		cmocka_unit_test(accept_header_chooses_the_format),
		cmocka_unit_test(a_value_falls_into_the_first_bucket_that_holds_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

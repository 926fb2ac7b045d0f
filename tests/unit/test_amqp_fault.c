/* Every reply code of AMQP 0-9-1, and what has none. */
#include "amqp/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_program_fault(enum status st, int code)
{
	const struct error err = { .status = st, .code = code };
	return amqp_is_program_fault(st, &err);
}

static void expect(bool program, const int *codes)
{
	for (; *codes; codes++)
		if (is_program_fault(ST_REFUSED, *codes) != program)
			fail_msg("%d is %s fault of the program", *codes, program ? "no" : "a");
}

static void what_may_pass_is_tried_again(void **state)
{
	(void)state;
	expect(false, (const int[]){ 320, 403, 404, 405, 506, 530, 541, 0 });
}

static void what_a_person_must_mend_stops_the_consumer(void **state)
{
	(void)state;
	expect(true, (const int[]){ 311, 312, 313, 402, 406, 501, 502, 503, 504, 505, 540, 0 });
	expect(true, (const int[]){ 407, 599, 0 }); /* not listed */
	assert_true(is_program_fault(ST_INVALID, 0));
}

static void a_code_counts_also_where_the_whole_connection_was_closed(void **state)
{
	(void)state;
	assert_true(is_program_fault(ST_UNAVAILABLE, 540));
	assert_false(is_program_fault(ST_UNAVAILABLE, 320));
}

static void errors_without_a_code_are_the_networks(void **state)
{
	(void)state;
	static const enum status all[] = { ST_UNAVAILABLE, ST_REFUSED, ST_INTERNAL };
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_false(is_program_fault(all[i], 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_pass_is_tried_again),
		cmocka_unit_test(what_a_person_must_mend_stops_the_consumer),
		cmocka_unit_test(a_code_counts_also_where_the_whole_connection_was_closed),
		cmocka_unit_test(errors_without_a_code_are_the_networks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Fault points, compiled in here whatever the build's option says. */
#ifndef EFFECTD_FAULT_POINTS
#define EFFECTD_FAULT_POINTS
#endif
#include "base/fault.c"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

static void arm(const char *spec)
{
	struct error err = { 0 };

	if (fault_arm(spec, &err) != ST_OK)
		fail_msg("%s: %s", spec, err.text);
}

static int set_up(void **state)
{
	(void)state;
	log_setup(LOG_ERROR, LOG_LOGFMT);
	arm("");
	return 0;
}

static void nothing_happens_unless_armed(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		assert_false(FAULT_POINT("after_claim"));
}

static void an_error_is_for_the_caller_and_only_there(void **state)
{
	(void)state;
	arm("after_claim=error");
	assert_false(FAULT_POINT("before_claim"));
	assert_true(FAULT_POINT("after_claim"));
	assert_true(FAULT_POINT("after_claim"));
}

static void the_nth_pass_is_the_only_one_that_fails(void **state)
{
	(void)state;
	arm("before_ack=error@3");
	assert_false(FAULT_POINT("before_ack"));
	assert_false(FAULT_POINT("before_ack"));
	assert_true(FAULT_POINT("before_ack"));
	assert_false(FAULT_POINT("before_ack"));
}

static void arming_again_starts_counting_again(void **state)
{
	(void)state;
	arm("before_ack=error@2");
	assert_false(FAULT_POINT("before_ack"));
	arm("before_ack=error@2");
	assert_false(FAULT_POINT("before_ack"));
	assert_true(FAULT_POINT("before_ack"));
}

static void a_delay_takes_its_time(void **state)
{
	(void)state;
	arm("commit_sent=delay:60");
	const int64_t start_ms = clock_mono_ms();
	assert_false(FAULT_POINT("commit_sent"));
	assert_true(clock_mono_ms() - start_ms >= 60);
}

static int exit_code_of(const char *spec)
{
	int status;
	const pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		arm(spec);
		FAULT_POINT("after_commit");
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void exit_ends_the_process_at_once(void **state)
{
	(void)state;
	assert_int_equal(exit_code_of("after_commit=exit"), FAULT_EXIT_CODE);
	assert_int_equal(exit_code_of("after_commit=exit:9@1"), 9);
	assert_int_equal(exit_code_of("after_commit=exit@2"), 1);
}

static void several_places_fail_on_their_own(void **state)
{
	(void)state;
	arm("after_claim=error@2,before_park=delay:0,after_ack=error");
	assert_false(FAULT_POINT("after_claim"));
	assert_false(FAULT_POINT("before_park"));
	assert_true(FAULT_POINT("after_ack"));
	assert_true(FAULT_POINT("after_claim"));
}

static void a_wrong_spec_is_refused_and_arms_nothing(void **state)
{
	static const char *const bad[] = {
		"nowhere=exit",
		"after_claim",
		"after_claim=",
		"after_claim=explode",
		"after_claim=exit:",
		"after_claim=exit:x",
		"after_claim=exit:256",
		"after_claim=exit@0",
		"after_claim=exit@",
		"after_claim=delay",
		"after_claim=delay:-1",
		"after_claim=delay:99999999",
		"=exit",
		",",
		"after_claim=error,",
		"after_claim=error:1",
		" after_claim=exit",
		"AFTER_CLAIM=exit",
		"after_claim=exit@1@2",
		"after_claim=error,after_claim=exit",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err = { 0 };

		if (fault_arm(bad[i], &err) != ST_INVALID)
			fail_msg("%s is accepted", bad[i]);
		assert_true(err.text[0] != '\0');
		assert_false(FAULT_POINT("after_claim"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_happens_unless_armed, set_up),
		cmocka_unit_test_setup(an_error_is_for_the_caller_and_only_there, set_up),
		cmocka_unit_test_setup(the_nth_pass_is_the_only_one_that_fails, set_up),
		cmocka_unit_test_setup(arming_again_starts_counting_again, set_up),
		cmocka_unit_test_setup(a_delay_takes_its_time, set_up),
		cmocka_unit_test_setup(exit_ends_the_process_at_once, set_up),
		cmocka_unit_test_setup(several_places_fail_on_their_own, set_up),
		cmocka_unit_test_setup(a_wrong_spec_is_refused_and_arms_nothing, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Clocks, backoff and the waiter that only waits. */
#include "base/clock.h"
#include "base/macros.h"
#include "base/wait.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void delays_double_from_min_to_max_within_their_upper_half(void **state)
{
	static const int64_t full[] = { 100, 200, 400, 800, 1600, 3000, 3000, 3000 };

	(void)state;
	for (int run = 0; run < 500; run++) {
		struct backoff b;

		backoff_init(&b, 100, 3000);
		for (size_t i = 0; i < ARRAY_LEN(full); i++) {
			const int64_t ms = backoff_next_ms(&b);

			assert_in_range(ms, full[i] / 2, full[i]);
			assert_int_equal(b.failures, i + 1);
		}
	}
}

static void jitter_reaches_both_ends(void **state)
{
	struct backoff b;
	bool seen[11] = { false };

	(void)state;
	backoff_init(&b, 20, 20);
	for (int i = 0; i < 2000; i++)
		seen[backoff_next_ms(&b) - 10] = true;
	for (size_t i = 0; i < ARRAY_LEN(seen); i++)
		assert_true(seen[i]);
}

static void two_workers_do_not_come_back_together(void **state)
{
	struct backoff a, b;
	int same = 0;

	(void)state;
	backoff_init(&a, 100000, 100000);
	backoff_init(&b, 100000, 100000);
	for (int i = 0; i < 50; i++)
		same += backoff_next_ms(&a) == backoff_next_ms(&b);
	assert_true(same < 5);
}

static void a_success_starts_again_at_min(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 100, 100000);
	for (int i = 0; i < 9; i++)
		backoff_next_ms(&b);
	backoff_reset(&b);
	assert_in_range(backoff_next_ms(&b), 50, 100);
}

static void a_million_failures_stay_at_max(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 1, INT64_MAX / 2);
	b.failures = UINT32_MAX - 1;
	for (int i = 0; i < 3; i++)
		assert_true(backoff_next_ms(&b) >= INT64_MAX / 4);
	assert_int_equal(b.failures, UINT32_MAX);
}

static void min_above_max_and_zero_are_survived(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 5000, 100);
	assert_in_range(backoff_next_ms(&b), 50, 100);
	backoff_init(&b, 0, 0);
	assert_int_equal(backoff_next_ms(&b), 1); /* never a busy loop */
}

static void clocks_agree_with_the_system(void **state)
{
	(void)state;
	const int64_t before_us = clock_mono_us(), before_ms = clock_mono_ms();
	assert_true(before_ms - before_us / 1000 <= 100);
	assert_true(clock_mono_us() >= before_us);
	assert_true(llabs(clock_real_us() / 1000000 - (int64_t)time(NULL)) <= 1);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	(void)state;
	const int64_t start_ms = clock_mono_ms();
	assert_int_equal(wait_alone.wait(&wait_alone, -1, 0, start_ms + 50), 0);
	assert_true(clock_mono_ms() - start_ms >= 50);
	assert_int_equal(wait_alone.wait(&wait_alone, -1, 0, 0), 0); /* long past */
}

static void what_is_ready_is_seen_even_past_the_deadline(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(wait_alone.wait(&wait_alone, fds[0], POLLIN, 0), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(wait_alone.wait(&wait_alone, fds[0], POLLIN, 0), POLLIN);
	assert_int_equal(wait_alone.wait(&wait_alone, fds[0], POLLIN, WAIT_FOREVER), POLLIN);

	close(fds[1]);
	assert_true(wait_alone.wait(&wait_alone, fds[0], POLLIN, WAIT_FOREVER) & POLLHUP);
	close(fds[0]);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void a_signal_does_not_end_a_wait(void **state)
{
	const struct sigaction quiet = { .sa_handler = on_alarm };
	const struct itimerval soon = { .it_value = { .tv_usec = 20000 } };

	(void)state;
	sigaction(SIGALRM, &quiet, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	const int64_t start_ms = clock_mono_ms();
	assert_int_equal(wait_alone.wait(&wait_alone, -1, 0, start_ms + 100), 0);
	assert_true(clock_mono_ms() - start_ms >= 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_double_from_min_to_max_within_their_upper_half),
		cmocka_unit_test(jitter_reaches_both_ends),
		cmocka_unit_test(two_workers_do_not_come_back_together),
		cmocka_unit_test(a_success_starts_again_at_min),
		cmocka_unit_test(a_million_failures_stay_at_max),
		cmocka_unit_test(min_above_max_and_zero_are_survived),
		cmocka_unit_test(clocks_agree_with_the_system),
		cmocka_unit_test(a_wait_ends_at_its_deadline),
		cmocka_unit_test(what_is_ready_is_seen_even_past_the_deadline),
		cmocka_unit_test(a_signal_does_not_end_a_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

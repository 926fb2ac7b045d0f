/* BEGIN, ROLLBACK and the three answers of COMMIT against a real server; test_pg.py starts it and gives it in CONNINFO.
 * Deferred triggers warn, sleep or fail inside COMMIT; backends are stopped and ended under it. */
#include "pg_fixture.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void commit_is_durable_and_rollback_is_not(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	assert_int_equal(fate_of(xid), PG_FATE_IN_PROGRESS);
	must(pg_commit(s, &err), &err);
	assert_int_equal(fate_of(xid), PG_FATE_COMMITTED);
	xid = begin_and_write(s);
	must(pg_rollback(s, &err), &err);
	assert_int_equal(fate_of(xid), PG_FATE_ABORTED);
	assert_int_equal(fate_of(xid + 1000000), PG_FATE_UNKNOWN);
	pg_session_destroy(s);
}

static void rollback_cleans_up_a_flight_that_failed_and_was_never_synced(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	prepare(s, "zero", "SELECT 1 / 0 FROM generate_series(1, 1)");
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	send_named(s, "zero");
	send_named(s, "zero");
	must(pg_rollback(s, &err), &err);
	assert_int_equal(fate_of(xid), PG_FATE_ABORTED);
	begin(s); /* nothing left over */
	must(pg_rollback(s, &err), &err);
	pg_session_destroy(s);
}

static void begin_inside_a_transaction_is_a_defect(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	begin(s);
	must(pg_begin_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	assert_int_equal(pg_begin_read(s, &err), ST_INTERNAL);
	pg_session_destroy(s);
}

static void commit_of_a_failed_transaction_is_refused(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	assert_int_equal(pg_query(s, "SELECT 1 / 0", NULL, 0, NULL, &err), ST_REFUSED);
	assert_int_equal(pg_commit(s, &err), ST_REFUSED);
	assert_int_equal(fate_of(xid), PG_FATE_ABORTED);
	assert_int_equal(number_of(s, "SELECT 7::bigint"), 7);
	pg_session_destroy(s);
}

static void commit_that_fails_a_deferred_constraint_is_refused(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	begin(s);
	run(s, "INSERT INTO child VALUES (4711)");
	assert_int_equal(pg_commit(s, &err), ST_REFUSED);
	assert_string_equal(err.sqlstate, "23503");
	pg_session_destroy(s);
}

static void commit_with_a_warning_is_in_doubt(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	run(s, "INSERT INTO at_commit VALUES ('warn')");
	assert_int_equal(pg_commit(s, &err), ST_IN_DOUBT);
	assert_non_null(strstr(err.text, "warned at commit"));
	assert_int_equal(fate_of(xid), PG_FATE_COMMITTED);
	pg_session_destroy(s);
}

static void a_warning_before_commit_does_not_matter(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	prepare(s, "warn", "SELECT warn_now()");
	struct error err = { 0 };
	begin(s);
	send_named(s, "warn");
	must(pg_commit_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	expect_kind(s, PG_ROWS);
	must(pg_commit_read(s, &err), &err);
	assert_int_equal(number_of(s, "SELECT 7::bigint"), 7);
	pg_session_destroy(s);
}

static void commit_behind_a_failed_statement_of_its_flight_is_refused(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	prepare(s, "zero", "SELECT 1 / 0 FROM generate_series(1, 1)");
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	send_named(s, "zero");
	must(pg_commit_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	expect_kind(s, PG_ERROR);
	assert_int_equal(pg_commit_read(s, &err), ST_REFUSED);
	must(pg_rollback(s, &err), &err);
	assert_int_equal(fate_of(xid), PG_FATE_ABORTED);
	pg_session_destroy(s);
}

static void silence_at_commit_is_in_doubt_and_the_fate_tells(void **state)
{
	(void)state;
	struct pg_params params = usual;
	params.commit_timeout_ms = 300;
	struct pg_session *s = open_with(params);
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	stop_backend(s);
	assert_int_equal(pg_commit(s, &err), ST_IN_DOUBT);
	assert_int_equal(fate_of(xid), PG_FATE_IN_PROGRESS);
	continue_backend(NULL);
	int64_t deadline_ms = clock_mono_ms() + 5000;
	while (fate_of(xid) == PG_FATE_IN_PROGRESS && clock_mono_ms() < deadline_ms)
		;
	assert_int_equal(fate_of(xid), PG_FATE_COMMITTED);
	pg_session_destroy(s);
}

static void a_slow_commit_is_waited_for_longer_than_a_statement(void **state)
{
	(void)state;
	struct pg_params params = usual;
	params.answer_timeout_ms = 200;
	struct pg_session *s = open_with(params);
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	run(s, "INSERT INTO at_commit VALUES ('0.6')");
	must(pg_commit(s, &err), &err);
	assert_int_equal(fate_of(xid), PG_FATE_COMMITTED);
	pg_session_destroy(s);
}

static void stopping_at_commit_is_in_doubt(void **state)
{
	(void)state;
	struct waiter waiter = wait_alone;
	struct pg_params params = usual;
	params.conninfo = conninfo();
	struct pg_session *s = NULL;
	struct error err = { 0 };
	must(pg_session_open(&s, &params, &waiter, &err), &err);
	begin_and_write(s);
	run(s, "INSERT INTO at_commit VALUES ('10')");
	waiter.wait = stopping_wait;
	assert_int_equal(pg_commit(s, &err), ST_IN_DOUBT);
	pg_session_destroy(s);
}

static void *terminate_soon(void *victim)
{
	terminate(victim);
	return NULL;
}

static void fatal_at_commit_is_in_doubt(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	uint64_t xid = begin_and_write(s);
	run(s, "INSERT INTO at_commit VALUES ('10')");
	must(pg_commit_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, terminate_soon, s), 0);
	assert_int_equal(pg_commit_read(s, &err), ST_IN_DOUBT);
	pthread_join(thread, NULL);
	assert_string_equal(err.sqlstate, "57P01");
	assert_true(err.fatal);
	assert_int_equal(fate_of(xid), PG_FATE_ABORTED);
	pg_session_destroy(s);
}

static void a_broken_connection_at_commit_is_in_doubt(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	begin_and_write(s);
	run(s, "INSERT INTO at_commit VALUES ('0.3')");
	must(pg_commit_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	assert_int_equal(shutdown(pg_session_fd(s), SHUT_RDWR), 0);
	assert_int_equal(pg_commit_read(s, &err), ST_IN_DOUBT);
	assert_string_equal(err.sqlstate, "");
	assert_int_equal(pg_rollback(s, &err), ST_IN_DOUBT);
	pg_session_destroy(s);
}

static void a_session_lost_before_commit_is_sent_is_not_in_doubt(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	begin_and_write(s);
	terminate(s);
	assert_int_equal(pg_query(s, "SELECT 1", NULL, 0, NULL, &err), ST_UNAVAILABLE);
	assert_int_equal(pg_commit(s, &err), ST_UNAVAILABLE);
	pg_session_destroy(s);
}

int main(void)
{
	if (!conninfo()) {
		fprintf(stderr, "CONNINFO must name an empty database on a private PostgreSQL\n");
		return 2;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commit_is_durable_and_rollback_is_not),
		cmocka_unit_test(rollback_cleans_up_a_flight_that_failed_and_was_never_synced),
		cmocka_unit_test(begin_inside_a_transaction_is_a_defect),
		cmocka_unit_test(commit_of_a_failed_transaction_is_refused),
		cmocka_unit_test(commit_that_fails_a_deferred_constraint_is_refused),
		cmocka_unit_test(commit_with_a_warning_is_in_doubt),
		cmocka_unit_test(a_warning_before_commit_does_not_matter),
		cmocka_unit_test(commit_behind_a_failed_statement_of_its_flight_is_refused),
		cmocka_unit_test_teardown(silence_at_commit_is_in_doubt_and_the_fate_tells, continue_backend),
		cmocka_unit_test(a_slow_commit_is_waited_for_longer_than_a_statement),
		cmocka_unit_test(stopping_at_commit_is_in_doubt),
		cmocka_unit_test(fatal_at_commit_is_in_doubt),
		cmocka_unit_test(a_broken_connection_at_commit_is_in_doubt),
		cmocka_unit_test(a_session_lost_before_commit_is_sent_is_not_in_doubt),
	};
	return cmocka_run_group_tests(tests, make_tables, NULL);
}

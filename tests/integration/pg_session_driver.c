/* Opening, flights and lost sessions against a real server; test_pg.py starts it and gives it in CONNINFO. What a slow
 * network or a dying server does is done here to the session's own backend. */
#include "pg_fixture.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char *text_of(struct pg_session *s, const char *sql)
{
	static char text[200];
	struct pg_result r = run(s, sql);
	int len = 0;
	const char *value = pg_value(&r, 0, 0, &len);
	snprintf(text, sizeof(text), "%.*s", len, value ? value : "");
	return text;
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static void settings_arrive_and_the_users_own_win(void **state)
{
	(void)state;
	char text[500];
	snprintf(text, sizeof(text), "%s options='-c work_mem=1MB -c lock_timeout=7s'", conninfo());
	struct pg_params params = usual;
	params.conninfo = text;
	params.isolation = "repeatable read";
	struct pg_session *s = open_with(params);
	assert_string_equal(text_of(s, "SELECT current_setting('application_name')"), "effectd/test");
	assert_string_equal(text_of(s, "SELECT current_setting('statement_timeout')"), "20s");
	assert_string_equal(text_of(s, "SELECT current_setting('lock_timeout')"), "7s");
	assert_string_equal(text_of(s, "SELECT current_setting('work_mem')"), "1MB");
	assert_string_equal(text_of(s, "SELECT current_setting('idle_in_transaction_session_timeout')"), "1min");
	assert_string_equal(text_of(s, "SELECT current_setting('client_connection_check_interval')"), "5s");
	assert_string_equal(text_of(s, "SELECT current_setting('tcp_keepalives_idle')"), "10");
	assert_string_equal(text_of(s, "SELECT current_setting('default_transaction_isolation')"), "repeatable read");
	assert_string_equal(text_of(s, "SELECT current_setting('client_min_messages')"), "warning");
	pg_session_destroy(s);
}

static void unsafe_durability_is_refused_unless_allowed(void **state)
{
	(void)state;
	char text[500];
	snprintf(text, sizeof(text), "%s options='-c synchronous_commit=off'", conninfo());
	struct pg_params params = usual;
	params.conninfo = text;
	struct error err;
	assert_int_equal(try_open(params, &err), ST_INVALID);
	assert_non_null(strstr(err.text, "synchronous_commit = off"));
	params.allow_unsafe_durability = true;
	assert_int_equal(try_open(params, &err), ST_OK);
}

static void a_read_only_server_is_unavailable_with_25006(void **state)
{
	(void)state;
	static const char *const attrs[] = { "", " target_session_attrs=any" };
	for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
		char text[500];
		snprintf(text, sizeof(text), "%s options='-c default_transaction_read_only=on'%s", conninfo(),
			 attrs[i]);
		struct pg_params params = usual;
		params.conninfo = text;
		struct error err;
		assert_int_equal(try_open(params, &err), ST_UNAVAILABLE);
		assert_string_equal(err.sqlstate, "25006");
	}
}

static void a_wrong_conninfo_is_invalid_and_shows_no_secret(void **state)
{
	(void)state;
	struct pg_params params = usual;
	struct error err;
	params.conninfo = "hots=127.0.0.1";
	assert_int_equal(try_open(params, &err), ST_INVALID);
	assert_non_null(strstr(err.text, "hots"));
	params.conninfo = "host=127.0.0.1 password=half swordfish";
	assert_int_equal(try_open(params, &err), ST_INVALID);
	assert_null(strstr(err.text, "swordfish"));
}

static void nobody_listening_is_unavailable_in_one_line(void **state)
{
	(void)state;
	struct pg_params params = usual;
	params.conninfo = "host=127.0.0.1 port=1 user=x dbname=x";
	struct error err;
	assert_int_equal(try_open(params, &err), ST_UNAVAILABLE);
	assert_null(strchr(err.text, '\n'));
	assert_non_null(strstr(err.text, "refused"));
	params.conninfo = "host=no-such-host.invalid user=x dbname=x";
	assert_int_equal(try_open(params, &err), ST_UNAVAILABLE);
}

/* A socket that listens and, being no server, does not say a word. */
static int listen_silently(char *ret_conninfo, size_t size)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	snprintf(ret_conninfo, size,
		 "host=127.0.0.1 port=%d user=x dbname=x sslmode=disable gssencmode=disable connect_timeout=1",
		 ntohs(address.sin_port));
	return fd;
}

static void a_server_that_never_answers_is_given_up_at_connect_timeout(void **state)
{
	(void)state;
	char text[200];
	int fd = listen_silently(text, sizeof(text));
	struct pg_params params = usual;
	params.conninfo = text;
	struct error err;
	int64_t started_ms = clock_mono_ms();
	assert_int_equal(try_open(params, &err), ST_UNAVAILABLE);
	assert_in_range(clock_mono_ms() - started_ms, 950, 3000);
	close(fd);
}

static void *be_postgresql_13(void *listener)
{
	/* an ErrorResponse: its length, severity, code and message, and a NUL at the end */
	static const char refusal[] = "E\0\0\0\x63"
				      "SFATAL\0VFATAL\0C42704\0"
				      "Munrecognized configuration parameter \"client_connection_check_interval\"\0";
	_Static_assert(sizeof(refusal) == 1 + 0x63, "the length counts all but the first byte");
	char greeting[1000];
	int fd = accept(*(int *)listener, NULL, NULL);
	const char *complaint = NULL;
	if (read(fd, greeting, sizeof(greeting)) <= 0 || write(fd, refusal, sizeof(refusal)) < 0)
		complaint = "the client did not talk";
	close(fd);
	return (void *)complaint;
}

static void an_old_server_is_named_as_such(void **state)
{
	(void)state;
	char text[200];
	int fd = listen_silently(text, sizeof(text));
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, be_postgresql_13, &fd), 0);
	struct pg_params params = usual;
	params.conninfo = text;
	struct error err;
	assert_int_equal(try_open(params, &err), ST_INVALID);
	assert_non_null(strstr(err.text, "version 14 or later"));
	void *complaint = NULL;
	pthread_join(thread, &complaint);
	assert_null(complaint);
	close(fd);
}

static void opening_can_be_stopped(void **state)
{
	(void)state;
	struct waiter stopping = { stopping_wait };
	struct pg_params params = usual;
	params.conninfo = conninfo();
	struct pg_session *s = NULL;
	struct error err;
	assert_int_equal(pg_session_open(&s, &params, &stopping, &err), ST_STOPPED);
	assert_null(s);
}

/* ---- flights --------------------------------------------------------------------------------------------------- */

static void statements_are_described_and_the_first_wrong_one_is_named(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct pg_statement statements[] = {
		{ .name = "a", .sql = "INSERT INTO written VALUES ($1)" },
		{ .name = "b", .sql = "SELECT $1::bigint, $2::text" },
		{ .name = "c", .sql = "SELECT nothing_there FROM written" },
		{ .name = "d", .sql = "SELEKT" },
	};
	size_t bad = 99;
	struct error err = { 0 };
	assert_int_equal(pg_prepare(s, statements, ARRAY_LEN(statements), &bad, &err), ST_REFUSED);
	assert_int_equal(bad, 2);
	assert_string_equal(err.sqlstate, "42703");
	assert_int_equal(statements[1].param_count, 2);
	assert_int_equal(statements[1].param_types[0], 20);
	assert_int_equal(statements[1].param_types[1], 25);
	assert_int_equal(statements[1].column_count, 2);
	assert_int_equal(number_of(s, "SELECT 7::bigint"), 7); /* the session lives */
	pg_session_destroy(s);
}

static void an_error_skips_the_rest_of_its_flight_only(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	prepare(s, "one", "SELECT 1::bigint");
	prepare(s, "zero", "SELECT 1 / 0 FROM generate_series(1, 1)");
	struct error err = { 0 };
	for (int flight = 0; flight < 2; flight++) {
		send_named(s, "one");
		if (flight == 0) {
			send_named(s, "zero");
			send_named(s, "one");
		}
		must(pg_sync(s, &err), &err);
	}
	expect_kind(s, PG_ROWS);
	struct pg_result r;
	must(pg_next(s, &r, &err), &err);
	assert_int_equal(r.kind, PG_ERROR);
	assert_string_equal(err.sqlstate, "22012");
	assert_false(err.fatal);
	expect_kind(s, PG_SKIPPED);
	expect_kind(s, PG_SYNC);
	expect_kind(s, PG_ROWS);
	expect_kind(s, PG_SYNC);
	assert_int_equal(pg_next(s, &r, &err), ST_INTERNAL); /* nothing is due */
	assert_int_equal(number_of(s, "SELECT 7::bigint"), 7);
	pg_session_destroy(s);
}

/* Both directions full at once: 100 x 300 kB out while each statement sends 300 kB back. */
static void large_parameters_and_large_results_do_not_deadlock(void **state)
{
	(void)state;
	enum { COUNT = 100, SIZE = 300000 };
	struct pg_session *s = open_usual();
	prepare(s, "echo", "SELECT $1::bytea");
	char *data = malloc(SIZE);
	memset(data, 'x', SIZE);
	const struct pg_values values = { 1, (const char *const[]){ data }, (const int[]){ SIZE }, (const int[]){ 1 } };
	struct error err = { 0 };
	for (int i = 0; i < COUNT; i++)
		must(pg_send(s, "echo", &values, &err), &err);
	must(pg_sync(s, &err), &err);
	for (int i = 0; i < COUNT; i++) {
		struct pg_result r;
		must(pg_next(s, &r, &err), &err);
		assert_int_equal(r.kind, PG_ROWS);
		int len = 0;
		assert_memory_equal(pg_value(&r, 0, 0, &len), data, SIZE);
		assert_int_equal(len, SIZE);
	}
	expect_kind(s, PG_SYNC);
	free(data);
	pg_session_destroy(s);
}

/* The socket is full and the server has nothing to say until it has read all. */
static void a_parameter_larger_than_all_buffers_is_sent(void **state)
{
	(void)state;
	enum { SIZE = 50000000 };
	struct pg_params params = usual;
	params.answer_timeout_ms = 5000;
	struct pg_session *s = open_with(params);
	prepare(s, "length", "SELECT length($1::bytea)::bigint");
	char *data = calloc(1, SIZE);
	const struct pg_values values = { 1, (const char *const[]){ data }, (const int[]){ SIZE }, (const int[]){ 1 } };
	struct error err = { 0 };
	must(pg_send(s, "length", &values, &err), &err);
	must(pg_sync(s, &err), &err);
	struct pg_result r;
	must(pg_next(s, &r, &err), &err);
	assert_int_equal(pg_value_int8(&r, 0, 0), SIZE);
	expect_kind(s, PG_SYNC);
	free(data);
	pg_session_destroy(s);
}

static void affected_rows_and_tags_are_told(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct pg_result r = run(s, "INSERT INTO written SELECT generate_series(1, 3)");
	assert_int_equal(r.affected, 3);
	assert_int_equal(r.kind, PG_DONE);
	assert_string_equal(pg_tag(&r), "INSERT 0 3");
	r = run(s, "UPDATE written SET n = 1 WHERE n = -1 RETURNING n");
	assert_int_equal(r.affected, 0);
	assert_int_equal(r.kind, PG_ROWS);
	assert_int_equal(number_of(s, "SELECT -5::bigint"), -5);
	r = run(s, "SELECT NULL::bigint");
	assert_null(pg_value(&r, 0, 0, NULL));
	pg_session_destroy(s);
}

static void a_failing_row_is_not_shown(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	assert_int_equal(pg_query(s, "INSERT INTO positive VALUES (1, -123456)", NULL, 0, NULL, &err), ST_REFUSED);
	assert_string_equal(err.sqlstate, "23514");
	assert_null(strstr(err.text, "123456"));
	assert_int_equal(pg_query(s, "INSERT INTO positive VALUES (1, 1), (1, 1)", NULL, 0, NULL, &err), ST_REFUSED);
	assert_string_equal(err.sqlstate, "23505");
	assert_non_null(strstr(err.text, "Key (id)=(1)"));
	assert_int_equal(
		pg_query(s, "DO $$BEGIN RAISE 'two\nlines %', repeat('\u00e9', 2000); END$$", NULL, 0, NULL, &err),
		ST_REFUSED);
	assert_null(strchr(err.text, '\n'));
	assert_true(strlen(err.text) > 500);
	pg_session_destroy(s);
}

/* ---- lost sessions --------------------------------------------------------------------------------------------- */

static void a_terminated_idle_session_is_noticed_with_the_servers_last_words(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	struct error err = { 0 };
	must(pg_session_check(s, &err), &err);
	terminate(s);
	int64_t deadline_ms = clock_mono_ms() + 5000;
	while (pg_session_check(s, &err) == ST_OK && clock_mono_ms() < deadline_ms)
		wait_alone.wait(&wait_alone, pg_session_fd(s), POLLIN, deadline_ms);
	assert_int_equal(err.status, ST_UNAVAILABLE);
	assert_string_equal(err.sqlstate, "57P01");
	assert_true(err.fatal);
	assert_int_equal(pg_sync(s, &err), ST_UNAVAILABLE);
	pg_session_destroy(s);
}

static void a_terminated_session_says_why_at_its_next_statement(void **state)
{
	(void)state;
	struct pg_session *s = open_usual();
	begin(s);
	terminate(s);
	struct error err = { 0 };
	assert_int_equal(pg_query(s, "SELECT 1", NULL, 0, NULL, &err), ST_UNAVAILABLE);
	assert_string_equal(err.sqlstate, "57P01");
	pg_session_destroy(s);
}

/* The end is found while answers that came before it are still to be given out: libpq drops its list of what was asked
 * then, and would take the rows for a command that is done. */
static void a_connection_that_ends_while_much_is_sent_is_noticed_at_once_and_nothing_is_misread(void **state)
{
	(void)state;
	enum { SIZE = 20000000 };
	struct pg_session *s = open_usual();
	prepare(s, "talk", "SELECT repeat('x', 5000)"); /* twice that is more than the server keeps to itself */
	prepare(s, "nap", "SELECT pg_sleep(1)");        /* until after our last look at what came */
	prepare(s, "sleep", "SELECT pg_sleep(20)");
	prepare(s, "length", "SELECT length($1::bytea)::bigint");
	char *data = calloc(1, SIZE);
	const struct pg_values values = { 1, (const char *const[]){ data }, (const int[]){ SIZE }, (const int[]){ 1 } };
	struct error err = { 0 };
	static const char *const flight[] = { "nap", "talk", "talk", "sleep" };
	for (size_t i = 0; i < ARRAY_LEN(flight); i++)
		send_named(s, flight[i]);
	must(pg_send(s, "length", &values, &err), &err);
	must(pg_sync(s, &err), &err);
	int64_t started_ms = clock_mono_ms();
	assert_true(wait_alone.wait(&wait_alone, pg_session_fd(s), POLLIN, started_ms + 5000) > 0);
	assert_int_equal(shutdown(pg_session_fd(s), SHUT_RD), 0);
	struct pg_result r;
	enum status st;
	while ((st = pg_next(s, &r, &err)) == ST_OK)
		assert_int_equal(r.kind, PG_ROWS);
	assert_int_equal(st, ST_UNAVAILABLE);
	assert_true(clock_mono_ms() - started_ms < 5000);
	free(data);
	pg_session_destroy(s);
}

static void the_servers_last_words_are_heard_when_sending_finds_its_end(void **state)
{
	(void)state;
	enum { SIZE = 20000000 };
	struct pg_session *s = open_usual();
	prepare(s, "length", "SELECT length($1::bytea)::bigint");
	char *data = calloc(1, SIZE);
	const struct pg_values values = { 1, (const char *const[]){ data }, (const int[]){ SIZE }, (const int[]){ 1 } };
	struct error err = { 0 };
	send_named(s, "pg_begin");
	must(pg_sync(s, &err), &err);
	terminate(s);
	enum status st = pg_send(s, "length", &values, &err);
	if (st == ST_OK)
		st = pg_sync(s, &err);
	for (struct pg_result r; st == ST_OK;)
		st = pg_next(s, &r, &err);
	assert_int_equal(st, ST_UNAVAILABLE);
	assert_string_equal(err.sqlstate, "57P01");
	free(data);
	pg_session_destroy(s);
}

static void a_backend_that_hangs_is_given_up_at_the_deadline(void **state)
{
	(void)state;
	struct pg_params params = usual;
	params.answer_timeout_ms = 300;
	struct pg_session *s = open_with(params);
	stop_backend(s);
	struct error err = { 0 };
	int64_t started_ms = clock_mono_ms();
	assert_int_equal(pg_query(s, "SELECT 1", NULL, 0, NULL, &err), ST_UNAVAILABLE);
	assert_in_range(clock_mono_ms() - started_ms, 290, 2000);
	pg_session_destroy(s);
	assert_true(clock_mono_ms() - started_ms < 2000); /* closing did not wait for it */
}

static void the_servers_own_limit_comes_before_ours(void **state)
{
	(void)state;
	struct pg_params params = usual;
	params.statement_timeout_ms = 200;
	struct pg_session *s = open_with(params);
	struct error err = { 0 };
	assert_int_equal(pg_query(s, "SELECT pg_sleep(60)", NULL, 0, NULL, &err), ST_REFUSED);
	assert_string_equal(err.sqlstate, "57014");
	assert_int_equal(number_of(s, "SELECT 7::bigint"), 7);
	pg_session_destroy(s);
}

int main(void)
{
	if (!conninfo()) {
		fprintf(stderr, "CONNINFO must name an empty database on a private PostgreSQL\n");
		return 2;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_arrive_and_the_users_own_win),
		cmocka_unit_test(unsafe_durability_is_refused_unless_allowed),
		cmocka_unit_test(a_read_only_server_is_unavailable_with_25006),
		cmocka_unit_test(a_wrong_conninfo_is_invalid_and_shows_no_secret),
		cmocka_unit_test(nobody_listening_is_unavailable_in_one_line),
		cmocka_unit_test(a_server_that_never_answers_is_given_up_at_connect_timeout),
		cmocka_unit_test(an_old_server_is_named_as_such),
		cmocka_unit_test(opening_can_be_stopped),
		cmocka_unit_test(statements_are_described_and_the_first_wrong_one_is_named),
		cmocka_unit_test(an_error_skips_the_rest_of_its_flight_only),
		cmocka_unit_test(large_parameters_and_large_results_do_not_deadlock),
		cmocka_unit_test(a_parameter_larger_than_all_buffers_is_sent),
		cmocka_unit_test(affected_rows_and_tags_are_told),
		cmocka_unit_test(a_failing_row_is_not_shown),
		cmocka_unit_test(a_terminated_idle_session_is_noticed_with_the_servers_last_words),
		cmocka_unit_test(a_terminated_session_says_why_at_its_next_statement),
		cmocka_unit_test(a_connection_that_ends_while_much_is_sent_is_noticed_at_once_and_nothing_is_misread),
		cmocka_unit_test(the_servers_last_words_are_heard_when_sending_finds_its_end),
		cmocka_unit_test_teardown(a_backend_that_hangs_is_given_up_at_the_deadline, continue_backend),
		cmocka_unit_test(the_servers_own_limit_comes_before_ours),
	};
	return cmocka_run_group_tests(tests, make_tables, NULL);
}

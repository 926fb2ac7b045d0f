/* core/pg against a real server, faults included; test_pg_session.py starts the server and gives it in CONNINFO.
 *
 * What a slow network or a dying server does is done here to the session's own backend: stopped with SIGSTOP, ended
 * with pg_terminate_backend(), made to warn or to fail inside COMMIT by deferred triggers. */
#include "base/clock.h"
#include "pg/session.h"
#include "pg/transaction.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char *conninfo(void)
{
	return getenv("CONNINFO");
}

static const struct pg_params usual = {
	.application_name = "effectd/test",
	.statement_timeout_ms = 20000,
	.lock_timeout_ms = 2000,
	.idle_in_transaction_ms = 60000,
};

static struct pg_session *open_with(struct pg_params params)
{
	struct pg_session *s = NULL;
	struct error err = { 0 };
	if (!params.conninfo)
		params.conninfo = conninfo();
	if (pg_session_open(&s, &params, &wait_alone, &err) != ST_OK)
		fail_msg("no session: %s", err.text);
	return s;
}

static struct pg_session *open_usual(void)
{
	return open_with(usual);
}

static enum status try_open(struct pg_params params, struct error *err)
{
	struct pg_session *s = NULL;
	*err = (struct error){ 0 };
	enum status st = pg_session_open(&s, &params, &wait_alone, err);
	pg_session_destroy(s);
	return st;
}

/* Runs sql, which must work. */
static struct pg_result run(struct pg_session *s, const char *sql)
{
	struct pg_result r = { 0 };
	struct error err = { 0 };
	if (pg_query(s, sql, NULL, 0, &r, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
	return r;
}

static char *text_of(struct pg_session *s, const char *sql)
{
	static char text[200];
	struct pg_result r = run(s, sql);
	int len = 0;
	const char *value = pg_value(&r, 0, 0, &len);
	snprintf(text, sizeof(text), "%.*s", len, value ? value : "");
	return text;
}

static int64_t number_of(struct pg_session *s, const char *sql)
{
	struct pg_result r = run(s, sql);
	assert_int_equal(r.kind, PG_ROWS);
	return pg_value_int8(&r, 0, 0);
}

static void prepare(struct pg_session *s, const char *name, const char *sql)
{
	struct pg_statement statement = { .name = name, .sql = sql };
	size_t bad = 0;
	struct error err = { 0 };
	if (pg_prepare(s, &statement, 1, &bad, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
}

static void must(enum status st, const struct error *err)
{
	if (st != ST_OK)
		fail_msg("%s", err->text);
}

static void expect_kind(struct pg_session *s, enum pg_kind kind)
{
	struct pg_result r = { 0 };
	struct error err = { 0 };
	must(pg_next(s, &r, &err), &err);
	assert_int_equal(r.kind, kind);
}

static void send_named(struct pg_session *s, const char *name)
{
	struct error err = { 0 };
	must(pg_send(s, name, NULL, &err), &err);
}

static void begin(struct pg_session *s)
{
	struct error err = { 0 };
	must(pg_begin_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	must(pg_begin_read(s, &err), &err);
	must(pg_drain(s, &err), &err);
}

static uint64_t begin_and_write(struct pg_session *s)
{
	begin(s);
	run(s, "INSERT INTO written VALUES (1)");
	return (uint64_t)number_of(s, "SELECT pg_current_xact_id()");
}

static enum pg_fate fate_of(uint64_t xid)
{
	struct pg_session *s = open_usual();
	enum pg_fate fate;
	struct error err = { 0 };
	must(pg_transaction_fate(s, xid, &fate, &err), &err);
	pg_session_destroy(s);
	return fate;
}

static void terminate(struct pg_session *victim)
{
	struct pg_session *s = open_usual();
	char sql[100];
	snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%u, 5000)", pg_session_pid(victim));
	run(s, sql);
	pg_session_destroy(s);
}

static pid_t stopped;

static void stop_backend(const struct pg_session *s)
{
	stopped = (pid_t)pg_session_pid(s);
	assert_int_equal(kill(stopped, SIGSTOP), 0);
}

/* Also behind a test that failed: a stopped backend would keep its server from ending. */
static int continue_backend(void **state)
{
	(void)state;
	if (stopped)
		kill(stopped, SIGCONT);
	stopped = 0;
	return 0;
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

static int stopping_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	(void)self, (void)fd, (void)events, (void)deadline_ms;
	return -1;
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

/* ---- transactions ---------------------------------------------------------------------------------------------- */

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

static int make_tables(void **state)
{
	(void)state;
	static const char *const statements[] = {
		"CREATE TABLE written (n int)",
		"CREATE TABLE positive (id int PRIMARY KEY, n int CHECK (n > 0))",
		"CREATE TABLE parent (id int PRIMARY KEY)",
		"CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TABLE at_commit (what text)",
		"CREATE FUNCTION warn_now() RETURNS int LANGUAGE plpgsql AS"
		" $$BEGIN RAISE WARNING 'warned'; RETURN 1; END$$",
		"CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
		" IF new.what = 'warn' THEN RAISE WARNING 'warned at commit'; ELSE PERFORM pg_sleep(new.what::float8); "
		"END IF;"
		" RETURN NULL; END$$",
		"CREATE CONSTRAINT TRIGGER act AFTER INSERT ON at_commit DEFERRABLE INITIALLY DEFERRED"
		" FOR EACH ROW EXECUTE FUNCTION act()",
	};
	struct pg_session *s = open_usual();
	for (size_t i = 0; i < ARRAY_LEN(statements); i++)
		run(s, statements[i]);
	pg_session_destroy(s);
	return 0;
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
		cmocka_unit_test_teardown(a_backend_that_hangs_is_given_up_at_the_deadline, continue_backend),
		cmocka_unit_test(the_servers_own_limit_comes_before_ours),
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

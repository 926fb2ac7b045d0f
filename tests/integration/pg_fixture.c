#include "pg_fixture.h"

#include <signal.h>
#include <stdio.h>

const char *conninfo(void)
{
	return getenv("CONNINFO");
}

const struct pg_params usual = {
	.application_name = "effectd/test",
	.statement_timeout_ms = 20000,
	.lock_timeout_ms = 2000,
	.idle_in_transaction_ms = 60000,
};

struct pg_session *open_with(struct pg_params params)
{
	struct pg_session *s = NULL;
	struct error err = { 0 };
	if (!params.conninfo)
		params.conninfo = conninfo();
	if (pg_session_open(&s, &params, &wait_alone, &err) != ST_OK)
		fail_msg("no session: %s", err.text);
	return s;
}

struct pg_session *open_usual(void)
{
	return open_with(usual);
}

enum status try_open(struct pg_params params, struct error *err)
{
	struct pg_session *s = NULL;
	*err = (struct error){ 0 };
	enum status st = pg_session_open(&s, &params, &wait_alone, err);
	pg_session_destroy(s);
	return st;
}

struct pg_result run(struct pg_session *s, const char *sql)
{
	struct pg_result r = { 0 };
	struct error err = { 0 };
	if (pg_query(s, sql, NULL, 0, &r, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
	return r;
}

int64_t number_of(struct pg_session *s, const char *sql)
{
	struct pg_result r = run(s, sql);
	assert_int_equal(r.kind, PG_ROWS);
	return pg_value_int8(&r, 0, 0);
}

void prepare(struct pg_session *s, const char *name, const char *sql)
{
	struct pg_statement statement = { .name = name, .sql = sql };
	size_t bad = 0;
	struct error err = { 0 };
	if (pg_prepare(s, &statement, 1, &bad, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
}

void must(enum status st, const struct error *err)
{
	if (st != ST_OK)
		fail_msg("%s", err->text);
}

void expect_kind(struct pg_session *s, enum pg_kind kind)
{
	struct pg_result r = { 0 };
	struct error err = { 0 };
	must(pg_next(s, &r, &err), &err);
	assert_int_equal(r.kind, kind);
}

void send_named(struct pg_session *s, const char *name)
{
	struct error err = { 0 };
	must(pg_send(s, name, NULL, &err), &err);
}

void begin(struct pg_session *s)
{
	struct error err = { 0 };
	must(pg_begin_send(s, &err), &err);
	must(pg_sync(s, &err), &err);
	must(pg_begin_read(s, &err), &err);
	must(pg_drain(s, &err), &err);
}

uint64_t begin_and_write(struct pg_session *s)
{
	begin(s);
	run(s, "INSERT INTO written VALUES (1)");
	return (uint64_t)number_of(s, "SELECT pg_current_xact_id()");
}

enum pg_fate fate_of(uint64_t xid)
{
	struct pg_session *s = open_usual();
	enum pg_fate fate;
	struct error err = { 0 };
	must(pg_transaction_fate(s, xid, &fate, &err), &err);
	pg_session_destroy(s);
	return fate;
}

void terminate(struct pg_session *victim)
{
	struct pg_session *s = open_usual();
	char sql[100];
	snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%u, 5000)", pg_session_pid(victim));
	run(s, sql);
	pg_session_destroy(s);
}

static pid_t stopped;

void stop_backend(const struct pg_session *s)
{
	stopped = (pid_t)pg_session_pid(s);
	assert_int_equal(kill(stopped, SIGSTOP), 0);
}

int continue_backend(void **state)
{
	(void)state;
	if (stopped)
		kill(stopped, SIGCONT);
	stopped = 0;
	return 0;
}

int stopping_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	(void)self, (void)fd, (void)events, (void)deadline_ms;
	return -1;
}

int make_tables(void **state)
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

/* A session's life: open, look at, close. Opening ends with one flight that prepares the three statements of every
 * transaction and asks whether a commit on this server means what it must mean. */
#include "pg/private.h"

#include "base/log.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	OLDEST_SERVER = 140000,
	/* Above the statement's own limits, so that the server's answer about them comes first. */
	ANSWER_SLACK_MS = 15 * 1000,
	/* A commit that waits for a standby must not be given up lightly; still below the time for which RabbitMQ lets
	 * a delivery be (30 minutes). */
	COMMIT_TIMEOUT_MS = 10 * 60 * 1000,
};

/* Schema-qualified: search_path is the plugins'. */
static const char settings_sql[] =
	"SELECT pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes'),"
	" pg_catalog.current_setting('synchronous_commit'), pg_catalog.current_setting('transaction_read_only'),"
	" pg_catalog.current_setting('client_encoding'), pg_catalog.current_setting('server_encoding'),"
	" pg_catalog.current_setting('client_min_messages'),"
	" (SELECT setting::pg_catalog.int8 FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'),"
	" (SELECT setting::pg_catalog.int8 FROM pg_catalog.pg_settings WHERE name = 'lock_timeout')";
enum {
	FSYNC,
	FULL_PAGE_WRITES,
	SYNCHRONOUS_COMMIT,
	READ_ONLY,
	CLIENT_ENCODING,
	SERVER_ENCODING,
	MIN_MESSAGES,
	STATEMENT_TIMEOUT,
	LOCK_TIMEOUT
};

static const struct {
	int column;
	const char *setting, *danger;
} durability[] = {
	{ FSYNC, "fsync", "a crash of its machine can undo or corrupt what it committed" },
	{ FULL_PAGE_WRITES, "full_page_writes", "a crash of its machine can corrupt what it committed" },
	{ SYNCHRONOUS_COMMIT, "synchronous_commit", "a crash can undo what it reported as committed" },
};

/* Called by libpq while it reads. Never prints. */
static void on_notice(void *arg, const PGresult *res)
{
	struct pg_session *s = arg;
	struct error said;
	pg_report_result(res, ST_UNAVAILABLE, &said);
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
	log_debug("postgresql_notice", LOG_STR("severity", severity), LOG_ERR(&said));
	if (severity && !strcmp(severity, "WARNING")) {
		s->warned = true;
		s->warning = said;
	} else if (said.fatal) {
		s->last_words = said;
	}
}

static bool value_is(const struct pg_result *r, int column, const char *text)
{
	int len = 0;
	const char *value = pg_value(r, 0, column, &len);
	return value && (size_t)len == strlen(text) && !memcmp(value, text, (size_t)len);
}

static enum status check_settings(struct pg_session *s, const struct pg_params *params, const struct pg_result *r,
				  struct error *err)
{
	if (!value_is(r, READ_ONLY, "off")) {
		error_set(err, ST_UNAVAILABLE, "the server is read-only: a standby, or a primary that lost its role");
		if (err)
			memcpy(err->sqlstate, "25006", sizeof("25006"));
		return ST_UNAVAILABLE;
	}
	if (!value_is(r, CLIENT_ENCODING, "UTF8"))
		return error_set(err, ST_INVALID,
				 "client_encoding must be UTF8: remove it from conninfo and from its options");
	/* Keys are UTF-8: one that another encoding does not have would stop its consumer at the claim. */
	if (!value_is(r, SERVER_ENCODING, "UTF8"))
		return error_set(err, ST_INVALID,
				 "the database's encoding must be UTF8, because keys and messages are: make it with "
				 "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0");
	for (size_t i = 0; i < ARRAY_LEN(durability) && !params->allow_unsafe_durability; i++)
		if (value_is(r, durability[i].column, "off"))
			return error_set(err, ST_INVALID,
					 "PostgreSQL runs with %s = off: %s, and the message would be gone from its "
					 "queue; set it to on, or set allow_unsafe_durability = yes to accept that",
					 durability[i].setting, durability[i].danger);

	int64_t statement_ms = pg_value_int8(r, 0, STATEMENT_TIMEOUT), lock_ms = pg_value_int8(r, 0, LOCK_TIMEOUT);
	if (params->answer_timeout_ms > 0)
		s->answer_ms = params->answer_timeout_ms;
	else
		s->answer_ms = statement_ms > 0 ? statement_ms + lock_ms + ANSWER_SLACK_MS : WAIT_FOREVER;
	return ST_OK;
}

static enum status prepare_transactions(struct pg_session *s, struct error *err)
{
	struct pg_statement statements[] = {
		{ .name = PG_BEGIN, .sql = s->words->begin },
		{ .name = PG_COMMIT, .sql = s->words->commit },
		{ .name = PG_ROLLBACK, .sql = s->words->rollback },
	};
	size_t bad = 0;
	return pg_prepare(s, statements, ARRAY_LEN(statements), &bad, err);
}

static enum status set_up(struct pg_session *s, const struct pg_params *params, struct error *err)
{
	if (PQserverVersion(s->conn) < OLDEST_SERVER)
		return error_set(err, ST_INVALID, "PostgreSQL %d is too old: version 14 or later is needed",
				 PQserverVersion(s->conn) / 10000);
	PQsetNoticeReceiver(s->conn, on_notice, s);
	if (PQsetnonblocking(s->conn, 1) != 0 || !PQenterPipelineMode(s->conn))
		return pg_session_broken(s, err);
	s->words = params->rehearsal ? &pg_savepoints : &pg_transactions;
	enum status st = prepare_transactions(s, err);
	struct pg_result r;
	if (st == ST_OK)
		st = pg_query(s, settings_sql, NULL, 0, &r, err);
	/* PgBouncer drops them before 1.20, when it is told to, and refuses them else. */
	if (st == ST_OK && !value_is(&r, MIN_MESSAGES, PG_MIN_MESSAGES)) {
		st = pg_apply_settings(s, params, err);
		if (st == ST_OK)
			st = pg_query(s, settings_sql, NULL, 0, &r, err);
	}
	return st == ST_OK ? check_settings(s, params, &r, err) : st;
}

static void destroy(struct pg_session **s)
{
	pg_session_destroy(*s);
}

enum status pg_session_open(struct pg_session **ret, const struct pg_params *params, struct waiter *waiter,
			    struct error *err)
{
	CLEANUP(destroy) struct pg_session *s = calloc(1, sizeof(*s));
	if (!s)
		return error_oom(err);
	s->waiter = waiter;
	s->answer_ms = ANSWER_SLACK_MS; /* until the server's own limits are known */
	s->commit_ms = params->commit_timeout_ms > 0 ? params->commit_timeout_ms : COMMIT_TIMEOUT_MS;
	enum status st = pg_connect(&s->conn, params, waiter, err);
	if (st == ST_OK)
		st = set_up(s, params, err);
	if (st != ST_OK)
		return st;
	*ret = s;
	s = NULL;
	return ST_OK;
}

void pg_session_destroy(struct pg_session *s)
{
	if (!s)
		return;
	PQclear(s->current);
	/* A server that may not read any more, or still works for us, gets the end of the connection instead of a
	 * goodbye that somebody would have to wait for. */
	if (s->conn && (s->dead || s->pending) && PQsocket(s->conn) >= 0)
		shutdown(PQsocket(s->conn), SHUT_RDWR);
	PQfinish(s->conn);
	free(s);
}

uint32_t pg_session_pid(const struct pg_session *s)
{
	return (uint32_t)PQbackendPID(s->conn);
}

int pg_session_fd(const struct pg_session *s)
{
	return PQsocket(s->conn);
}

enum status pg_session_check(struct pg_session *s, struct error *err)
{
	if (s->dead)
		return pg_session_gone(err);
	bool closed = !PQconsumeInput(s->conn);
	(void)PQisBusy(s->conn); /* makes libpq read what came: the server's last words go to on_notice() */
	return closed || s->last_words.fatal ? pg_session_broken(s, err) : ST_OK;
}

bool pg_session_notified(struct pg_session *s)
{
	bool any = false;
	if (!s->dead)
		for (PGnotify *n; (n = PQnotifies(s->conn)); any = true)
			PQfreemem(n);
	return any;
}

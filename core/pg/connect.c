/* From a conninfo to a connection, without ever blocking but for name resolution, which is libpq's.
 *
 * What the user wrote always wins over what is added here, so that anything libpq can do stays possible; what must not
 * be otherwise is looked at on the open session (session.c). */
#include "pg/private.h"

#include "base/buffer.h"
#include "base/clock.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define YOUNGEST_SETTING "client_connection_check_interval" /* since PostgreSQL 14 */

enum { CONNECT_TIMEOUT_S = 20, KEYWORDS_MAX = 96 };

/* Put behind what the user set. A peer that vanished without a word is found by the kernel after 20 to 25 seconds: soon
 * enough to reconnect before anybody notices, late enough for a network that hiccups. Once connected, tcp_user_timeout
 * is what bounds bytes that nobody acknowledges, and keepalives the silence. */
static const struct {
	const char *keyword, *value;
} defaults[] = {
	{ "client_encoding", "UTF8" },
	{ "keepalives", "1" },
	{ "keepalives_idle", "10" },
	{ "keepalives_interval", "5" },
	{ "keepalives_count", "3" },
	{ "tcp_user_timeout", "20000" },
	{ "target_session_attrs", "read-write" }, /* after a failover a name may lead to a standby */
};

struct keywords {
	const char *names[KEYWORDS_MAX], *values[KEYWORDS_MAX]; /* NULL-terminated */
	size_t count;
};

static void conninfo_free(PQconninfoOption **options)
{
	PQconninfoFree(*options);
}

static void finish(PGconn **conn)
{
	PQfinish(*conn);
}

static const char *keyword_value(const struct keywords *k, const char *name)
{
	for (size_t i = 0; i < k->count; i++)
		if (!strcmp(k->names[i], name))
			return k->values[i];
	return NULL;
}

static void keyword_set(struct keywords *k, const char *name, const char *value)
{
	if (k->count + 1 < KEYWORDS_MAX) {
		k->names[k->count] = name;
		k->values[k->count++] = value;
	}
}

static void keyword_default(struct keywords *k, const char *name, const char *value)
{
	if (value && !keyword_value(k, name))
		keyword_set(k, name, value);
}

struct setting {
	const char *name;
	char value[32];
};

enum { SETTINGS_MAX = 10 };

static void add_number(struct setting *settings, size_t *n, const char *name, int64_t number)
{
	if (number <= 0)
		return;
	settings[*n].name = name;
	snprintf(settings[(*n)++].value, sizeof(settings->value), "%" PRId64, number);
}

/* What a session needs besides what the user said. The last one must not be hidden by the user's: a COMMIT that gave up
 * its standby says so only by a warning. */
static size_t session_settings(const struct pg_params *params, struct setting settings[SETTINGS_MAX])
{
	size_t n = 0;
	add_number(settings, &n, "statement_timeout", params->statement_timeout_ms);
	add_number(settings, &n, "lock_timeout", params->lock_timeout_ms);
	add_number(settings, &n, "idle_in_transaction_session_timeout", params->idle_in_transaction_ms);
	/* A statement whose client is gone ends instead of keeping its locks. */
	add_number(settings, &n, YOUNGEST_SETTING, 5000);
	/* The same where the server waits for more of a flight: our machine vanished, and no timeout runs. */
	add_number(settings, &n, "tcp_keepalives_idle", 10);
	add_number(settings, &n, "tcp_keepalives_interval", 5);
	add_number(settings, &n, "tcp_keepalives_count", 3);
	if (params->isolation) {
		settings[n].name = "default_transaction_isolation";
		snprintf(settings[n++].value, sizeof(settings->value), "%s", params->isolation);
	}
	settings[n++] = (struct setting){ "client_min_messages", PG_MIN_MESSAGES };
	return n;
}

static void add_option(struct buffer *options, const struct setting *setting)
{
	buffer_printf(options, " -c %s=", setting->name);
	for (const char *p = setting->value; *p; p++)
		buffer_printf(options, *p == ' ' ? "\\%c" : "%c", *p);
}

/* The options that the server gets when the session starts. The later one of a name counts. */
static void build_options(struct buffer *options, const struct pg_params *params, const char *users)
{
	struct setting settings[SETTINGS_MAX];
	const size_t n = session_settings(params, settings);
	for (size_t i = 0; i + 1 < n; i++)
		add_option(options, &settings[i]);
	if (users)
		buffer_printf(options, " %s", users);
	add_option(options, &settings[n - 1]);
}

enum status pg_apply_settings(struct pg_session *s, const struct pg_params *params, struct error *err)
{
	struct setting settings[SETTINGS_MAX];
	const size_t n = session_settings(params, settings);
	enum status st = ST_OK;
	for (size_t i = 0; i < n && st == ST_OK; i++)
		st = pg_query(s, "SELECT pg_catalog.set_config($1, $2, false)",
			      (const char *const[]){ settings[i].name, settings[i].value }, 2, NULL, err);
	return st;
}

/* libpq's complaint may quote the word that it could not read, which could be a piece of a password. */
static bool may_hold_secret(const char *conninfo)
{
	return strstr(conninfo, "password") || strchr(conninfo, '@');
}

static enum status parse(const char *conninfo, PQconninfoOption **ret, struct error *err)
{
	char *words = NULL;
	*ret = PQconninfoParse(conninfo, &words);
	if (*ret)
		return ST_OK;
	pg_report_connection(may_hold_secret(conninfo) ? "it is neither KEY=VALUE pairs nor a URI" : words, ST_INVALID,
			     "conninfo is wrong: ", err);
	PQfreemem(words);
	return ST_INVALID;
}

/* connect_timeout is for each host, as it is in libpq, whose own clock runs only in the calls that block. */
static int64_t patience_ms(const struct keywords *k)
{
	int64_t hosts = 1;
	const char *list = keyword_value(k, "hostaddr") ? keyword_value(k, "hostaddr") : keyword_value(k, "host");
	for (const char *p = list; p && *p; p++)
		hosts += *p == ',';
	const char *users = keyword_value(k, "connect_timeout");
	int64_t seconds = users ? strtoll(users, NULL, 10) : 0;
	return hosts * (seconds > 0 ? seconds : CONNECT_TIMEOUT_S) * 1000;
}

static bool is_read_only(const PGconn *conn)
{
	static const char *const reported[] = { "in_hot_standby", "default_transaction_read_only" };
	for (size_t i = 0; i < ARRAY_LEN(reported); i++) {
		const char *value = PQparameterStatus(conn, reported[i]);
		if (value && !strcmp(value, "on"))
			return true;
	}
	return false;
}

/* Where in the words the SQLSTATE of a refusal stands: SEVERITY:  XXXXX: what it is. NULL: nowhere. */
static const char *find_sqlstate(const char *words, size_t len)
{
	enum { CODE = 5 };
	for (const char *p = words; len >= CODE + 5 && p <= words + len - CODE - 5; p++)
		if (strncmp(p, ":  ", 3) == 0 && strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == CODE &&
		    strncmp(p + 3 + CODE, ": ", 2) == 0)
			return p + 3;
	return NULL;
}

/* libpq keeps the SQLSTATE of a refused connection to itself, but for its verbose words. Takes it out of them, and the
 * line that says where in PostgreSQL's source it was said. Of several hosts the last one's counts. */
static void read_refusal(const char *verbose, struct buffer *words, char sqlstate[6])
{
	static const char location[] = "LOCATION:  ";
	for (const char *line = verbose; *line;) {
		const size_t len = strcspn(line, "\n");
		const char *code = find_sqlstate(line, len);
		if (code) {
			memcpy(sqlstate, code, 5);
			buffer_add(words, line, (size_t)(code - line));
			buffer_printf(words, "%.*s\n", (int)(line + len - code - 7), code + 7);
		} else if (strncmp(line, location, strlen(location)) != 0) {
			buffer_printf(words, "%.*s\n", (int)len, line);
		}
		line += len + (line[len] == '\n');
	}
}

static enum status failed(const PGconn *conn, struct error *err)
{
	CLEANUP(buffer_finish) struct buffer plain = { 0 };
	char sqlstate[6] = "";
	read_refusal(PQerrorMessage(conn), &plain, sqlstate);
	const char *words = buffer_text(&plain);
	/* The youngest of the settings above: an older server ends the connection before it says its version. */
	if (strstr(words, YOUNGEST_SETTING))
		return error_set(err, ST_INVALID, "PostgreSQL is too old: version 14 or later is needed");
	pg_report_connection(words, ST_UNAVAILABLE, "", err);
	if (err)
		memcpy(err->sqlstate, is_read_only(conn) ? "25006" : sqlstate, sizeof(err->sqlstate));
	return ST_UNAVAILABLE;
}

static enum status poll_connection(PGconn *conn, struct waiter *waiter, int64_t wait_ms, struct error *err)
{
	int64_t deadline_ms = clock_mono_ms() + wait_ms;
	short events = POLLOUT; /* as if PQconnectPoll() had asked for it, says its manual */
	for (;;) {
		int ready = waiter->wait(waiter, PQsocket(conn), events, deadline_ms);
		if (ready < 0)
			return error_set(err, ST_STOPPED, "stopped while connecting to PostgreSQL");
		if (ready == 0)
			return error_set(err, ST_UNAVAILABLE, "PostgreSQL at %s did not answer for %.3g s",
					 PQhost(conn) ? PQhost(conn) : "its address", (double)wait_ms / 1000);
		switch (PQconnectPoll(conn)) {
		case PGRES_POLLING_OK:
			return ST_OK;
		case PGRES_POLLING_FAILED:
			return failed(conn, err);
		case PGRES_POLLING_READING:
			events = POLLIN;
			break;
		default:
			events = POLLOUT;
		}
	}
}

enum status pg_connect(PGconn **ret, const struct pg_params *params, struct waiter *waiter, struct error *err)
{
	CLEANUP(conninfo_free) PQconninfoOption *given = NULL;
	enum status st = parse(params->conninfo, &given, err);
	if (st != ST_OK)
		return st;
	struct keywords k = { .count = 0 };
	for (const PQconninfoOption *o = given; o->keyword; o++)
		if (o->val && strcmp(o->keyword, "options") != 0)
			keyword_set(&k, o->keyword, o->val);
	CLEANUP(buffer_finish) struct buffer options = { 0 };
	const char *users = NULL;
	for (const PQconninfoOption *o = given; o->keyword; o++)
		if (!strcmp(o->keyword, "options"))
			users = o->val;
	build_options(&options, params, users);
	if (options.failed)
		return error_oom(err);
	keyword_set(&k, "options", buffer_text(&options));
	keyword_default(&k, "password", params->password);
	keyword_default(&k, "application_name", params->application_name);
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
		keyword_default(&k, defaults[i].keyword, defaults[i].value);

	CLEANUP(finish) PGconn *conn = PQconnectStartParams(k.names, k.values, 0);
	if (!conn)
		return error_oom(err);
	(void)PQsetErrorVerbosity(conn, PQERRORS_VERBOSE); /* while it is refused: see read_refusal() */
	if (PQstatus(conn) == CONNECTION_BAD)
		return failed(conn, err);
	st = poll_connection(conn, waiter, patience_ms(&k), err);
	if (st != ST_OK)
		return st;
	(void)PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
	*ret = conn;
	conn = NULL;
	return ST_OK;
}

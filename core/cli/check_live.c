/* check --live: what only the databases know; check_broker.c asks the brokers. Nothing is changed anywhere: sessions
 * are opened as a worker opens them, statements are prepared and described but not executed, queues are looked at. */
#include "cli/check.h"
#include "pg/migrate.h"
#include "plugin/instance.h"
#include "retention/registry.h"
#include "run/params.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char server_sql[] = "SELECT current_setting('server_version'), current_database()";

/* What is left for an ordinary role: of the server, of the role, of the database; -1 there is no limit. */
static const char connections_sql[] =
	"SELECT least(current_setting('max_connections')::int8 - "
	"current_setting('superuser_reserved_connections')::int8,"
	"             nullif(r.rolconnlimit, -1), nullif(d.datconnlimit, -1))"
	"  FROM pg_roles AS r, pg_database AS d WHERE r.rolname = current_user AND d.datname = current_database()";

enum { RETENTION_SESSIONS = 2, DAY_MS = 24 * 60 * 60 * 1000 };

/* What the role must be allowed to; $1: whether there is a consumer, $2: whether there is a relay. */
static const char privileges_sql[] =
	"SELECT DISTINCT t.name || ' ' || p.privilege"
	"  FROM (VALUES ($1::bool, 'effectd.processed_messages', '{SELECT,INSERT,DELETE}'::text[]),"
	"               ($1, 'effectd.processed_messages_daily', '{SELECT,INSERT,DELETE}'),"
	"               ($1, 'effectd.consumers', '{SELECT,INSERT,UPDATE}'),"
	"               ($1, 'effectd.claim_days', '{SELECT}'),"
	"               ($1, 'effectd.parked_messages', '{SELECT,INSERT,UPDATE,DELETE}'),"
	"               ($1, 'effectd.outbox', '{SELECT,INSERT}'),"
	"               ($2::bool, 'effectd.outbox', '{SELECT,UPDATE,DELETE}')) AS t (wanted, name, privileges),"
	"       unnest(t.privileges) AS p (privilege)"
	" WHERE t.wanted AND NOT has_table_privilege(t.name, p.privilege)"
	" ORDER BY 1";

/* --- databases --- */

/* Who uses a database. */
struct users {
	bool consumer, relay;
};

static struct users users_of(const struct config *config, const struct config_database *database)
{
	struct users u = { false, false };
	for (size_t i = 0; i < config->consumer_count; i++)
		u.consumer = u.consumer || config->consumers[i].database == database;
	for (size_t i = 0; i < config->relay_count; i++)
		u.relay = u.relay || config->relays[i].database == database;
	return u;
}

static enum status check_privileges(struct check *c, const struct check_subject *s, const struct users *users,
				    struct pg_session *session, struct error *err)
{
	struct pg_result result;
	const char *const params[] = { users->consumer ? "t" : "f", users->relay ? "t" : "f" };
	enum status st = pg_query(session, privileges_sql, params, ARRAY_LEN(params), &result, err);
	for (int row = 0; st == ST_OK && row < result.rows; row++) {
		int len = 0;
		const char *what = pg_value(&result, row, 0, &len);
		check_problem(c, EXIT_PERMISSION, s->place, s->section, NULL,
			      "the role is not allowed: %.*s (sql/roles.sql makes roles that are)", len,
			      what ? what : "");
	}
	return st;
}

static enum status tell_server(struct check *c, const struct check_subject *s, const struct config_database *config,
			       struct pg_session *session, struct error *err)
{
	struct pg_result result;
	enum status st = pg_query(session, server_sql, NULL, 0, &result, err);
	if (st != ST_OK)
		return st;
	int version_len, name_len;
	const char *version = pg_value(&result, 0, 0, &version_len), *name = pg_value(&result, 0, 1, &name_len);
	check_fact(c, s->title, "PostgreSQL %.*s, database %.*s, schema effectd fits, %s", version_len, version,
		   name_len, name,
		   config->allow_unsafe_durability ? "durability not asked for (allow_unsafe_durability)"
						   : "what is committed is durable on this server");
	return ST_OK;
}

static enum status open_session(struct check *c, const struct config_database *config, struct pg_session **ret,
				struct error *err)
{
	struct pg_params params;
	params_of_database(config, &c->config->process, "effectd/check", &params);
	return pg_session_open(ret, &params, &wait_alone, err);
}

static void destroy_session(struct pg_session **s)
{
	pg_session_destroy(*s);
}

/* A relay has a session for each of its targets. */
static size_t relay_sessions(const struct config_relay *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->kinds.count; i++) {
		size_t first = 0;
		while (strcmp(r->kinds.list[first].value, r->kinds.list[i].value) != 0)
			first++;
		n += first == i;
	}
	return n;
}

/* Of one process that runs everything. */
static size_t sessions_needed(const struct config *config, const struct config_database *database)
{
	size_t n = RETENTION_SESSIONS;
	for (size_t i = 0; i < config->consumer_count; i++)
		if (config->consumers[i].database == database)
			n += (size_t)config->consumers[i].workers + 1; /* the one for retries */
	for (size_t i = 0; i < config->relay_count; i++)
		if (config->relays[i].database == database)
			n += relay_sessions(&config->relays[i]);
	return n;
}

static enum status check_connections(struct check *c, const struct check_subject *s,
				     const struct config_database *config, struct pg_session *session,
				     struct error *err)
{
	struct pg_result result;
	const enum status st = pg_query(session, connections_sql, NULL, 0, &result, err);
	if (st != ST_OK)
		return st;
	const int64_t most = pg_value_int8(&result, 0, 0);
	const size_t need = sessions_needed(c->config, config);
	if ((int64_t)need > most)
		check_problem(c, EXIT_CONFIGURATION, s->place, s->section, NULL,
			      "effectd needs up to %zu sessions, the server allows %" PRId64
			      " (max_connections, and the limits of role and database): fewer workers, or raise those",
			      need, most);
	else
		check_fact(c, s->title, "needs up to %zu of the %" PRId64 " sessions that the server allows", need,
			   most);
	return ST_OK;
}

/* What is the same for all who use it; false: reported. */
static bool check_server(struct check *c, const struct config_database *config, const struct users *users)
{
	const struct check_subject s = check_subject_of("database", config->name, config->place);
	struct error err = { 0 };
	CLEANUP(destroy_session) struct pg_session *session = NULL;
	enum status st = open_session(c, config, &session, &err);
	if (st == ST_OK)
		st = migrate_require(session, &err);
	if (st == ST_OK)
		st = check_privileges(c, &s, users, session, &err);
	if (st == ST_OK)
		st = tell_server(c, &s, config, session, &err);
	if (st == ST_OK)
		st = check_connections(c, &s, config, session, &err);
	if (st == ST_OK)
		st = check_outbox(c, config, session, &err);
	if (st != ST_OK)
		check_error(c, &s, s.place, NULL, cli_exit_code(&err), &err);
	return st == ST_OK;
}

/* --- plugins --- */

static void destroy_instance(struct plugin_instance **p)
{
	plugin_instance_destroy(*p);
}

static void tell_guarantee(struct check *c, const struct check_subject *s, const struct config_consumer *config,
			   const struct plugin_instance *instance)
{
	if (config->database->allow_unsafe_durability)
		check_fact(c, s->title,
			   "no guarantee: allow_unsafe_durability lets the server lose what was acknowledged");
	else if (instance->claim == EFFECTD_CLAIM_NONE)
		check_fact(c, s->title, "no claims: the plugin's deciding statement tells duplicates");
	else if (config->retention_ms < 0)
		check_fact(c, s->title, "each key's effect commits at most once, for good");
	else if (config->retention_ms % DAY_MS == 0)
		check_fact(c, s->title, "each key's effect commits at most once within its window of %" PRId64 " days",
			   config->retention_ms / DAY_MS);
	else
		check_fact(c, s->title, "each key's effect commits at most once within its window of %s",
			   check_span(config->retention_ms).text);
}

/* What a start would do to the consumer's row, before it does it. */
static void check_registry(struct check *c, const struct check_subject *s, const struct config_consumer *config,
			   struct pg_session *session)
{
	const struct registration registration = { .consumer = config->name,
						   .daily = config->claims == CLAIMS_DAILY,
						   .window_ms = config->retention_ms };
	CLEANUP(buffer_finish) struct buffer idle = { 0 };
	struct registered before = { 0 };
	struct error err = { 0 };
	enum status st = registry_would_host(session, &registration, &before, &err);
	if (st == ST_OK && !before.known)
		st = registry_idle(session, config->name, &idle, &err);
	if (st != ST_OK)
		check_error(c, s, s->place, st == ST_INVALID ? "claims" : NULL, cli_exit_code(&err), &err);
	if (st == ST_OK && idle.len > 0)
		check_warning(c, s->place, s->section, NULL,
			      "it never ran on this database, and nobody hosts %s: if it is one of these under a new "
			      "name, what was applied already would be applied again",
			      buffer_text(&idle));
	if (st == ST_OK && before.known && registry_shrinks(&before, config->retention_ms))
		check_warning(c, s->place, s->section, "retention",
			      "the window is longer on this database: a start deletes the claims in between");
}

/* On a session of its own, as in a worker. */
static void check_statements(struct check *c, const struct consumer *consumer)
{
	const struct config_consumer *config = consumer->config;
	const struct check_subject s = check_subject_of("consumer", config->name, config->place);
	struct error err = { 0 };
	CLEANUP(destroy_session) struct pg_session *session = NULL;
	CLEANUP(destroy_instance) struct plugin_instance *instance = NULL;
	struct consumer_reporter reporter;
	size_t problems = 0;
	consumer_reporter_init(&reporter, config, check_report, c);
	enum status st = open_session(c, config->database, &session, &err);
	if (st == ST_OK)
		st = plugin_instance_create(&instance, consumer->plugin, config->name, consumer->settings,
					    config->settings.count, &err);
	if (st == ST_OK)
		st = plugin_instance_check_statements(instance, session, consumer_report_setting, &reporter, &problems,
						      &err);
	if (st != ST_OK)
		check_error(c, &s, config->plugin_place, "plugin", cli_exit_code(&err), &err);
	if (st != ST_OK || problems > 0)
		return;
	check_fact(c, s.title, "plugin %s %s, %zu statements prepared and described", config->plugin,
		   consumer->plugin->descriptor.version ? consumer->plugin->descriptor.version : "",
		   instance->statement_count);
	tell_guarantee(c, &s, config, instance);
	check_registry(c, &s, config, session);
}

static void check_database(struct check *c, const struct config_database *config)
{
	const struct users users = users_of(c->config, config);
	if ((!users.consumer && !users.relay) || !check_server(c, config, &users))
		return;
	for (size_t i = 0; i < c->config->consumer_count; i++)
		if (c->consumers[i].config->database == config && c->consumers[i].plugin)
			check_statements(c, &c->consumers[i]);
}

void check_live(struct check *c)
{
	signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error of its session, and libcurl leaves this to us */
	for (size_t i = 0; i < c->config->database_count; i++)
		check_database(c, &c->config->databases[i]);
	for (size_t i = 0; i < c->config->broker_count; i++)
		check_broker(c, &c->config->brokers[i]);
	check_live_targets(c);
}

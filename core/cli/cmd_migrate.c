/* effectd migrate: the schema's versions in every database of the configuration. */
#include "cli/cli.h"
#include "pg/migrate.h"
#include "retention/switch.h"
#include "run/params.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const state_names[] = {
	[MIGRATION_APPLIED] = "applied",
	[MIGRATION_PENDING] = "pending",
	[MIGRATION_CHANGED] = "changed", /* its file is not the one that was applied */
	[MIGRATION_UNKNOWN] = "unknown", /* of a newer effectd */
};

/* What one command gathers over the databases: text, or with --json objects. */
struct report {
	const struct cli *cli;
	const char *database;
	struct buffer text;
	json_t *json; /* NULL without --json */
	size_t lines; /* of this database */
};

static const char heading[] = "DATABASE         MIGRATION                        STATE\n";

static void add_status(void *arg, int version, const char *name, enum migration_state state)
{
	struct report *r = arg;
	r->lines++;
	if (r->json)
		json_array_append_new(r->json, json_pack("{s:s, s:i, s:s, s:s}", "database", r->database, "version",
							 version, "name", name, "state", state_names[state]));
	else
		buffer_printf(&r->text, "%s%-16s %-32s %s\n", r->text.len == 0 ? heading : "", r->database, name,
			      state_names[state]);
}

/* Told at once: a later migration may take an hour, or fail. */
static void add_applied(void *arg, const struct migration *m, int64_t took_ms)
{
	struct report *r = arg;
	r->lines++;
	if (r->json) {
		json_array_append_new(r->json, json_pack("{s:s, s:i, s:s, s:I}", "database", r->database, "version",
							 m->version, "name", m->name, "took_ms", (json_int_t)took_ms));
		return;
	}
	printf("%s: applied %s in %" PRId64 " ms\n", r->database, m->name, took_ms);
	fflush(stdout);
}

static void add_pending_sql(void *arg, int version, const char *name, enum migration_state state)
{
	struct report *r = arg;
	for (size_t i = 0; i < migration_count && state == MIGRATION_PENDING; i++)
		if (migrations[i].version == version) {
			r->lines++;
			buffer_printf(&r->text, "-- database %s: %s.sql\n", r->database, name);
			migrate_print(&migrations[i], &r->text);
		}
}

static enum status show_status(struct pg_session *s, struct report *r, struct error *err)
{
	return migrate_status(s, add_status, r, err);
}

static enum status apply_pending(struct pg_session *s, struct report *r, struct error *err)
{
	enum status st = migrate_up(s, add_applied, r, err);
	if (st == ST_OK && r->lines == 0)
		cli_message(r->cli, "%s: up to date", r->database);
	return st;
}

static enum status print_pending(struct pg_session *s, struct report *r, struct error *err)
{
	enum status st = migrate_status(s, add_pending_sql, r, err);
	if (st == ST_OK && r->lines == 0)
		cli_message(r->cli, "%s: nothing is pending", r->database);
	return st;
}

/* What is done in one database. */
typedef enum status migrate_in(struct pg_session *s, struct report *r, struct error *err);

static enum status run_on(const struct config_database *database, migrate_in *in, struct report *r, struct error *err)
{
	struct pg_params params;
	params_of_owner(database, "effectd/migrate", &params);
	struct pg_session *s = NULL;
	r->database = database->name;
	r->lines = 0;
	enum status st = pg_session_open(&s, &params, &wait_alone, err);
	if (st == ST_OK)
		st = in(s, r, err);
	pg_session_destroy(s);
	if (st != ST_OK)
		error_wrap(err, "database %s", database->name);
	return st;
}

static int print_all(const struct cli *cli)
{
	struct buffer out = { 0 };
	for (size_t i = 0; i < migration_count; i++) {
		buffer_printf(&out, "-- %s.sql\n", migrations[i].name);
		migrate_print(&migrations[i], &out);
	}
	return cli_print(cli, &out);
}

/* What was gathered is printed also when a later database failed. */
static int print_report(const struct cli *cli, struct report *r)
{
	if (r->json) {
		AUTOFREE char *text = json_dumps(r->json, JSON_INDENT(2));
		buffer_printf(&r->text, "%s\n", text ? text : "[]");
		json_decref(r->json);
	}
	return cli_print(cli, &r->text);
}

static int run_on_all(struct cli *cli, migrate_in *in, const struct config *config)
{
	const char *only = cli_option_value(cli, "database", 0);
	struct report r = { .cli = cli, .json = cli->json ? json_array() : NULL };
	struct error err = { 0 };
	enum status st = ST_OK;
	bool found = !only;
	for (size_t i = 0; i < config->database_count && st == ST_OK; i++) {
		if (only && strcmp(only, config->databases[i].name) != 0)
			continue;
		found = true;
		st = run_on(&config->databases[i], in, &r, &err);
	}
	const int printed = print_report(cli, &r);
	if (!found)
		return cli_usage_error(cli, "the configuration has no [database:%s]", only);
	return st == ST_OK ? printed : cli_failure(cli, &err);
}

/* --- claims --- */

static void print_switched(const struct switched *s, const char *consumer, struct buffer *out)
{
	char until[32] = "";
	struct tm tm;
	const time_t at = (time_t)s->until_s;
	if (s->until_s > 0 && gmtime_r(&at, &tm))
		strftime(until, sizeof(until), "%Y-%m-%d %H:%M:%SZ", &tm);
	buffer_printf(out, "%s %s", consumer, s->already ? "claims by day already" : "claims by day from now on");
	if (*until)
		buffer_printf(out, ", and in the table of before as well until %s", until);
	buffer_puts(out, s->already ? ".\n" : ".\nSet claims = daily in its section, then start it.\n");
}

static int switch_claims(struct cli *cli, const char *consumer, const struct config *config)
{
	const struct config_consumer *known = config_find_consumer(config, consumer);
	if (!known)
		return cli_usage_error(cli, "the configuration has no [consumer:%s]", consumer);
	struct pg_params params;
	struct pg_session *s = NULL;
	struct switched switched;
	struct error err = { 0 };
	params_of_owner(known->database, "effectd/migrate", &params);
	enum status st = pg_session_open(&s, &params, &wait_alone, &err);
	if (st == ST_OK)
		st = switch_to_daily(s, consumer, &switched, &err);
	pg_session_destroy(s);
	if (st != ST_OK)
		return cli_failure(cli, &err);
	struct buffer out = { 0 };
	print_switched(&switched, consumer, &out);
	return cli_print(cli, &out);
}

static int run_claims(struct cli *cli, int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "daily") != 0)
		return cli_usage_error(cli, "say `effectd migrate claims CONSUMER daily`");
	if (cli->json)
		return cli_usage_error(cli, "claims has no data to give as JSON");
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	rc = switch_claims(cli, argv[0], config);
	config_destroy(config);
	return rc;
}

/* --- the command --- */

static int run(struct cli *cli, int argc, migrate_in *in)
{
	if (argc > 0)
		return cli_usage_error(cli, "one word is enough: %s", cli->action->name);
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	if (config->database_count == 0) {
		cli_message(cli, "the configuration has no [database:NAME]: add one with its conninfo");
		rc = EXIT_CONFIGURATION;
	} else {
		rc = run_on_all(cli, in, config);
	}
	config_destroy(config);
	return rc;
}

static int run_status(struct cli *cli, int argc, char **argv)
{
	(void)argv;
	return run(cli, argc, show_status);
}

static int run_up(struct cli *cli, int argc, char **argv)
{
	(void)argv;
	return run(cli, argc, apply_pending);
}

static int run_print(struct cli *cli, int argc, char **argv)
{
	(void)argv;
	if (cli->json)
		return cli_usage_error(cli, "print gives SQL, not JSON");
	return argc == 0 && cli_option_given(cli, "all") ? print_all(cli) : run(cli, argc, print_pending);
}

const struct cli_action migrate_actions[] = {
	{ "status", "", "each migration and whether it is applied", run_status },
	{ "up", "", "apply what is missing, each file in one transaction", run_up },
	{ "print", "", "the SQL of what is missing", run_print },
	{ "claims", "CONSUMER daily", "keep a consumer's claims by day from now on", run_claims },
	{ NULL },
};

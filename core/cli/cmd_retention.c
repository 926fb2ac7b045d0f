/* effectd retention: what of the claims is older than its window, in every database; delete it now; forget a consumer.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "pg/migrate.h"
#include "retention/forget.h"
#include "retention/pass.h"
#include "run/params.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, BAR_EVERY_MS = 200 };

/* What the command gathers over the databases: a table, or with --json objects. */
struct report {
	const struct cli *cli;
	struct buffer text;
	json_t *json; /* NULL without --json */
};

/* On a terminal, while claims are deleted. */
struct bar {
	bool shown;
	int64_t total, done, drawn_ms;
};

static void draw(struct bar *bar, bool last)
{
	const int64_t now = clock_mono_ms();
	if (!bar->shown || (!last && now - bar->drawn_ms < BAR_EVERY_MS))
		return;
	bar->drawn_ms = now;
	const int64_t total = bar->total > bar->done ? bar->total : bar->done;
	const int full = total > 0 ? (int)(bar->done * BAR_WIDTH / total) : BAR_WIDTH;
	fprintf(stderr, "\r[%.*s%*s] %" PRId64 " of %" PRId64 " claims%s", full, "##############################",
		BAR_WIDTH - full, "", bar->done, total, last ? "\n" : "");
}

static void progress(void *arg, const char *consumer, int64_t rows)
{
	struct bar *bar = arg;
	(void)consumer;
	bar->done += rows;
	draw(bar, false);
}

static void format_time(int64_t at_s, char *text, size_t size)
{
	struct tm tm;
	const time_t at = (time_t)at_s;
	if (at_s <= 0 || !gmtime_r(&at, &tm) || !strftime(text, size, "%Y-%m-%d %H:%M:%SZ", &tm))
		snprintf(text, size, "none");
}

static void format_window(int64_t window_s, char *text, size_t size)
{
	if (window_s < 0)
		snprintf(text, size, "never");
	else
		text_format_duration(window_s * 1000, text, size);
}

static void report_pass(struct report *r, const struct pass *p, bool looked)
{
	for (size_t i = 0; i < p->consumer_count; i++) {
		const struct pass_consumer *c = &p->consumers[i];
		if (r->json) {
			json_array_append_new(json_object_get(r->json, "consumers"),
					      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b}", "database", p->database,
							"consumer", c->name, "claims", c->claims, "window_s",
							(json_int_t)c->window_s, "oldest_claim_s",
							(json_int_t)c->oldest_s, looked ? "would_delete" : "deleted",
							(json_int_t)c->rows, "busy", c->busy));
			continue;
		}
		char window[32], oldest[32];
		format_window(c->window_s, window, sizeof(window));
		format_time(c->oldest_s, oldest, sizeof(oldest));
		buffer_printf(&r->text, "%-12s %-20s %-7s %-8s %-21s %12" PRId64 "%s\n", p->database, c->name,
			      c->claims, window, oldest, c->rows, c->busy ? " (another process is at it)" : "");
	}
	const struct days *d = &p->days;
	if (!d->used && d->behind == 0)
		return;
	looked |= d->busy;
	if (r->json)
		json_array_append_new(json_object_get(r->json, "days"),
				      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "database", p->database, "floor",
						days_text(d->floor).text, "made", (json_int_t)d->made, "dropped",
						(json_int_t)d->dropped, "missing", (json_int_t)d->missing, "behind",
						(json_int_t)d->behind));
	else if (looked)
		buffer_printf(&r->text, "%-12s days of claims from %s on: %" PRId64 " to make, %" PRId64 " to drop%s\n",
			      p->database, days_text(d->floor).text, d->missing, d->behind,
			      d->busy ? " (another process is at it)" : "");
	else
		buffer_printf(&r->text, "%-12s days of claims from %s on: %" PRId64 " made, %" PRId64 " dropped\n",
			      p->database, days_text(d->floor).text, d->made, d->dropped);
}

static enum status pass_on(const struct config_database *database, bool once, struct report *r, struct error *err)
{
	struct bar bar = { .shown = once && isatty(STDERR_FILENO) };
	struct pass p = {
		.database = database->name,
		.waiter = &wait_alone,
		.batch_rows = database->retention_batch,
		.pause_ms = database->retention_pause_ms,
		.progress = progress,
		.arg = &bar,
	};
	params_of_retention(database, &p.app, &p.owner);
	enum status st = ST_OK;
	if (bar.shown) {
		st = pass_look(&p, err);
		for (size_t i = 0; i < p.consumer_count; i++)
			bar.total += p.consumers[i].rows;
		pass_finish(&p);
	}
	if (st == ST_OK)
		st = once ? pass_run(&p, err) : pass_look(&p, err);
	draw(&bar, true);
	if (!r->json && r->text.len == 0 && (st == ST_OK || p.consumer_count > 0))
		buffer_printf(&r->text, "%-12s %-20s %-7s %-8s %-21s %12s\n", "DATABASE", "CONSUMER", "CLAIMS",
			      "WINDOW", "OLDEST", once ? "DELETED" : "WOULD DELETE");
	report_pass(r, &p, !once);
	pass_finish(&p);
	return st;
}

static enum status forget_on(const struct config_database *database, const char *consumer, struct report *r,
			     struct error *err)
{
	struct pg_params params, owner;
	struct pg_session *s = NULL;
	int64_t rows = 0;
	params_of_retention(database, &params, &owner);
	enum status st = pg_session_open(&s, &params, &wait_alone, err);
	const struct prune prune = {
		.session = s,
		.consumer = consumer,
		.batch_rows = database->retention_batch,
		.pause_ms = database->retention_pause_ms,
		.waiter = &wait_alone,
	};
	if (st == ST_OK)
		st = migrate_require(s, err);
	if (st == ST_OK)
		st = forget_run(&prune, &rows, err);
	pg_session_destroy(s);
	if (st != ST_OK)
		return st;
	if (r->json)
		json_object_set_new(r->json, "forgotten",
				    json_pack("{s:s, s:s, s:I}", "database", database->name, "consumer", consumer,
					      "deleted", (json_int_t)rows));
	else
		buffer_printf(&r->text, "%s: %s is forgotten, %" PRId64 " claims deleted\n", database->name, consumer,
			      rows);
	return ST_OK;
}

/* The one that the consumer's section names, else the one that --database names or the only one. */
static const struct config_database *database_of(const struct config *config, const char *consumer, const char *only)
{
	const struct config_consumer *known = config_find_consumer(config, consumer);
	for (size_t i = 0; only && i < config->database_count; i++)
		if (strcmp(config->databases[i].name, only) == 0)
			return &config->databases[i];
	if (only)
		return NULL;
	return known ? known->database : config->database_count == 1 ? &config->databases[0] : NULL;
}

static int run(struct cli *cli, const struct config *config, struct report *r)
{
	const char *only = cli_option_value(cli, "database", 0), *consumer = cli_option_value(cli, "forget", 0);
	const bool once = cli_option_given(cli, "once") && !cli_option_given(cli, "dry-run");
	struct error err = { 0 };
	enum status st = ST_OK;
	bool found = !only;
	if (consumer) {
		const struct config_database *database = database_of(config, consumer, only);
		if (!database)
			return cli_usage_error(cli, "which database? name one with --database");
		st = forget_on(database, consumer, r, &err);
		return st == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
	}
	int rc = EXIT_FINE;
	for (size_t i = 0; i < config->database_count; i++) {
		if (only && strcmp(only, config->databases[i].name) != 0)
			continue;
		found = true;
		st = pass_on(&config->databases[i], once, r, &err);
		if (st == ST_OK)
			continue;
		error_wrap(&err, "database %s", config->databases[i].name);
		rc = cli_failure(cli, &err);
	}
	return found ? rc : cli_usage_error(cli, "the configuration has no [database:%s]", only);
}

static int print_report(struct report *r)
{
	if (r->json) {
		AUTOFREE char *text = json_dumps(r->json, JSON_INDENT(2));
		buffer_printf(&r->text, "%s\n", text ? text : "{}");
		json_decref(r->json);
	}
	return cli_print(r->cli, &r->text);
}

int cmd_retention(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s: there are only options", argv[0]);
	const bool forget = cli_option_given(cli, "forget");
	if (forget && (cli_option_given(cli, "once") || cli_option_given(cli, "dry-run")))
		return cli_usage_error(cli, "--forget goes alone");
	if (forget && !cli_option_given(cli, "yes"))
		return cli_usage_error(cli,
				       "--forget makes everything applicable again that the queue still holds of %s: "
				       "say --yes",
				       cli_option_value(cli, "forget", 0));
	struct config *config;
	const int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	struct report r = { .cli = cli };
	if (cli->json)
		r.json = json_pack("{s:[], s:[]}", "consumers", "days");
	const int done = run(cli, config, &r);
	config_destroy(config);
	const int printed = print_report(&r);
	return done != EXIT_FINE ? done : printed;
}

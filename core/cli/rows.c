#include "cli/rows.h"
#include "base/text.h"
#include "base/wait.h"
#include "pg/migrate.h"
#include "run/params.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- choosing ---- */

/* An option that may be given once; *ret is NULL without it. */
static int one_value(const struct cli *cli, const char *option, const char **ret)
{
	*ret = cli_option_value(cli, option, 0);
	return cli_option_value(cli, option, 1) ? cli_usage_error(cli, "--%s can be given once", option) : EXIT_FINE;
}

static int one_duration(const struct cli *cli, const char *option, char *ret_ms, size_t size)
{
	const char *text;
	int64_t ms;
	const int rc = one_value(cli, option, &text);
	if (rc != EXIT_FINE || !text)
		return rc;
	if (!text_parse_duration(text, &ms) || ms < 0)
		return cli_usage_error(cli, "--%s %s: a duration is wanted, such as 30min, 12h or 7d", option, text);
	snprintf(ret_ms, size, "%" PRId64, ms);
	return EXIT_FINE;
}

static bool given_before(char **argv, int at)
{
	for (int i = 0; i < at; i++)
		if (strcmp(argv[i], argv[at]) == 0)
			return true;
	return false;
}

static int choose_ids(const struct cli *cli, int argc, char **argv, struct rows_choice *c)
{
	struct buffer ids = { 0 };
	for (int i = 0; i < argc; i++) {
		int64_t id;
		if (given_before(argv, i))
			continue;
		if (!text_parse_int(argv[i], &id) || id <= 0) {
			buffer_finish(&ids);
			return cli_usage_error(cli, "%s is no id: list shows them", argv[i]);
		}
		buffer_printf(&ids, "%c%" PRId64, ids.len ? ',' : '{', id);
		c->id_count++;
	}
	buffer_puts(&ids, argc > 0 ? "}" : "");
	if (ids.failed) {
		buffer_finish(&ids);
		cli_message(cli, "out of memory");
		return EXIT_INTERNAL;
	}
	c->ids = argc > 0 ? ids.data : NULL;
	if (argc == 0)
		buffer_finish(&ids);
	return EXIT_FINE;
}

int rows_choose(const struct cli *cli, const struct rows_table *table, int argc, char **argv, struct rows_choice *ret)
{
	*ret = (struct rows_choice){ 0 };
	int rc = one_value(cli, "consumer", &ret->consumer);
	if (rc == EXIT_FINE)
		rc = one_value(cli, "key", &ret->key);
	if (rc == EXIT_FINE)
		rc = one_value(cli, "database", &ret->database);
	if (rc == EXIT_FINE)
		rc = one_value(cli, "status", &ret->status);
	if (rc == EXIT_FINE)
		rc = one_value(cli, table->kind_option, &ret->kind);
	if (rc == EXIT_FINE)
		rc = one_duration(cli, "older-than", ret->older_ms, sizeof(ret->older_ms));
	if (rc == EXIT_FINE)
		rc = one_duration(cli, "newer-than", ret->newer_ms, sizeof(ret->newer_ms));
	return rc == EXIT_FINE ? choose_ids(cli, argc, argv, ret) : rc;
}

int rows_choose_to_change(const struct cli *cli, const struct rows_table *table, int argc, char **argv,
			  struct rows_choice *ret)
{
	const int rc = rows_choose(cli, table, argc, argv, ret);
	if (rc != EXIT_FINE)
		return rc;
	const bool everything = rows_choice_is_everything(ret), all = cli_option_given(cli, "all");
	if (everything && !all)
		return cli_usage_error(cli, "%s what? Ids, --consumer, --%s, ..., or --all", cli->action->name,
				       table->kind_option);
	return all && !everything ? cli_usage_error(cli, "--all goes with nothing that chooses") : EXIT_FINE;
}

void rows_choice_finish(struct rows_choice *c)
{
	free(c->ids);
	c->ids = NULL;
}

bool rows_choice_is_everything(const struct rows_choice *c)
{
	return !c->ids && !c->consumer && !c->key && !c->status && !c->kind && !c->older_ms[0] && !c->newer_ms[0];
}

/* ---- walking ---- */

enum status rows_walk(struct pg_session *s, const char *sql, const struct rows_choice *choice, const char *const *own,
		      int own_count, rows_each *each, void *arg, struct error *err)
{
	char after[24] = "0";
	const char *params[ROWS_PARAMS_MAX] = {
		after,
		choice->ids,
		choice->consumer,
		choice->key,
		choice->status,
		choice->kind,
		choice->older_ms[0] ? choice->older_ms : NULL,
		choice->newer_ms[0] ? choice->newer_ms : NULL,
	};
	for (int i = 0; i < own_count; i++)
		params[ROWS_CHOICE_PARAMS + i] = own[i];
	for (;;) {
		struct pg_result r;
		const enum status st = pg_query(s, sql, params, ROWS_CHOICE_PARAMS + own_count, &r, err);
		if (st != ST_OK)
			return st;
		for (int row = 0; row < r.rows; row++)
			if (!each(arg, &r, row))
				return ST_OK;
		if (r.rows < ROWS_CHUNK)
			return ST_OK;
		snprintf(after, sizeof(after), "%" PRId64, pg_value_int8(&r, r.rows - 1, 0));
	}
}

static enum status on_one(const struct config *config, const struct config_database *database, rows_on *on, void *arg,
			  struct error *err)
{
	struct pg_params params;
	struct pg_session *s = NULL;
	params_of_database(database, &config->process, "effectd/command", &params);
	params.isolation = "read committed"; /* a chunk that waited for a row goes on with what it is now */
	enum status st = pg_session_open(&s, &params, &wait_alone, err);
	if (st == ST_OK)
		st = migrate_require(s, err);
	if (st == ST_OK)
		st = on(arg, s, &(struct rows_place){ database->name, config->database_count == 1 }, err);
	pg_session_destroy(s);
	if (st != ST_OK && config->database_count > 1)
		error_wrap(err, "database %s", database->name);
	return st;
}

static const struct config_database *find_database(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->database_count; i++)
		if (strcmp(config->databases[i].name, name) == 0)
			return &config->databases[i];
	return NULL;
}

/* The one that is meant: --database, the consumer's, the only one. NULL with EXIT_FINE: all of them. */
static int one_database(const struct cli *cli, const struct rows_table *table, const struct config *config,
			const struct rows_choice *choice, const struct config_database **ret)
{
	const struct config_consumer *consumer =
		choice->consumer ? config_find_consumer(config, choice->consumer) : NULL;
	*ret = NULL;
	if (config->database_count == 0) {
		cli_message(cli, "the configuration has no [database:NAME]: add one with its conninfo");
		return EXIT_CONFIGURATION;
	}
	if (choice->database && !(*ret = find_database(config, choice->database)))
		return cli_usage_error(cli, "the configuration has no [database:%s]", choice->database);
	if (!*ret && consumer)
		*ret = consumer->database;
	if (!*ret && config->database_count == 1)
		*ret = &config->databases[0];
	if (!*ret && choice->ids)
		return cli_usage_error(cli, "each database numbers its %ss by itself: choose one with --database NAME",
				       table->row);
	return EXIT_FINE;
}

int rows_on_databases(const struct cli *cli, const struct rows_table *table, const struct rows_choice *choice,
		      rows_on *on, void *arg)
{
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	const struct config_database *one;
	struct error err = { 0 };
	enum status st = ST_OK;
	rc = one_database(cli, table, config, choice, &one);
	for (size_t i = 0; rc == EXIT_FINE && st == ST_OK && i < config->database_count; i++)
		if (!one || one == &config->databases[i])
			st = on_one(config, &config->databases[i], on, arg, &err);
	config_destroy(config);
	return rc != EXIT_FINE ? rc : st == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
}

struct str rows_text(const struct pg_result *r, int row, int column)
{
	int len = 0;
	const char *data = pg_value(r, row, column, &len);
	return (struct str){ data, data ? (size_t)len : 0 };
}

bool rows_bool(const struct pg_result *r, int row, int column)
{
	const struct str value = rows_text(r, row, column);
	return value.len == 1 && *value.data;
}

/* ---- printing ---- */

static void write_line(struct rows_list *l)
{
	l->failed |= l->line.failed || fwrite(buffer_text(&l->line), 1, l->line.len, stdout) != l->line.len;
	buffer_clear(&l->line);
}

/* Characters, as good as a terminal's columns for what is mostly names. */
static size_t columns(const char *text, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

void rows_list_cell(struct rows_list *l, int width, struct str text)
{
	const size_t start = l->line.len;
	if (text.len > 0)
		cli_add_clean(&l->line, text.data, text.len);
	else
		buffer_puts(&l->line, width > 0 ? "-" : "");
	const int used = (int)columns(buffer_text(&l->line) + start, l->line.len - start);
	if (width > 0)
		buffer_printf(&l->line, "%*s ", used < width ? width - used : 0, "");
}

void rows_list_end_line(struct rows_list *l)
{
	while (l->line.len > 0 && l->line.data[l->line.len - 1] == ' ')
		l->line.data[--l->line.len] = '\0';
	buffer_puts(&l->line, "\n");
	write_line(l);
}

void rows_list_json(struct rows_list *l, struct str object)
{
	buffer_puts(&l->line, l->count++ ? ",\n " : "[");
	buffer_add(&l->line, object.data, object.len);
	write_line(l);
}

int rows_list_end(struct rows_list *l)
{
	if (l->cli->json)
		buffer_puts(&l->line, l->count ? "]\n" : "[]\n");
	write_line(l);
	buffer_finish(&l->line);
	if (fflush(stdout) == 0 && !l->failed)
		return EXIT_FINE;
	cli_message(l->cli, "writing to stdout: %s", strerror(errno));
	return EXIT_FAILED;
}

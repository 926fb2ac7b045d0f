#include "cli/rows_work.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum status walk(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	struct rows_work *w = arg;
	w->at = at;
	const char *own[] = { at->database, w->own };
	return rows_walk(s, w->sql, w->choice, own, w->own ? 2 : 1, w->each, w, err);
}

int rows_work_run(struct rows_work *w)
{
	w->list.cli = w->cli;
	const int walked = rows_on_databases(w->cli, w->table, w->choice, walk, w);
	if (w->quiet || (walked != EXIT_FINE && w->list.count == 0)) {
		buffer_finish(&w->list.line);
		return walked;
	}
	const int printed = rows_list_end(&w->list);
	return walked != EXIT_FINE ? walked : printed;
}

static struct str str_of(const char *s)
{
	return (struct str){ s, strlen(s) };
}

static void print_heading(struct rows_work *w, const struct rows_column *columns)
{
	if (!w->at->only)
		rows_list_cell(&w->list, 12, STR("DATABASE"));
	rows_list_cell(&w->list, 8, STR("ID"));
	for (const struct rows_column *c = columns;; c++) {
		rows_list_cell(&w->list, c->width, str_of(c->name));
		if (c->width == 0)
			break;
	}
	rows_list_end_line(&w->list);
}

static void print_id(struct rows_work *w, const struct pg_result *r, int row)
{
	char id[24];
	const int len = snprintf(id, sizeof(id), "%lld", (long long)pg_value_int8(r, row, ROWS_ID));
	if (!w->at->only)
		rows_list_cell(&w->list, 12, str_of(w->at->database));
	rows_list_cell(&w->list, 8, (struct str){ id, (size_t)len });
}

void rows_work_print(struct rows_work *w, const struct pg_result *r, int row, int json,
		     const struct rows_column *columns)
{
	if (w->cli->json) {
		rows_list_json(&w->list, rows_text(r, row, json));
		return;
	}
	if (w->rows == 1)
		print_heading(w, columns);
	print_id(w, r, row);
	for (const struct rows_column *c = columns;; c++) {
		rows_list_cell(&w->list, c->width, rows_text(r, row, c->at));
		if (c->width == 0)
			break;
	}
	rows_list_end_line(&w->list);
}

void rows_work_count(struct rows_work *w, struct str action)
{
	for (size_t i = 0; i < ROWS_ACTIONS_MAX && w->action_words[i]; i++)
		w->actions[i] += strlen(w->action_words[i]) == action.len &&
				 memcmp(w->action_words[i], action.data, action.len) == 0;
}

int rows_work_tell_missing(const struct rows_work *w)
{
	const size_t ids = w->choice->id_count;
	if (ids > w->rows)
		cli_message(w->cli, "%zu of %zu ids are not there: %s, dropped, or left out by the other options",
			    ids - w->rows, ids, w->table->done);
	else if (w->rows == 0)
		cli_message(w->cli, rows_choice_is_everything(w->choice) ? w->table->nothing : "no %s is like that",
			    w->table->row);
	return ids > w->rows ? EXIT_FAILED : EXIT_FINE;
}

/* Asks before rows go for good: look counts them. *ret: it may be done; else the answer is the exit code. */
static int confirm_drop(struct rows_work *look, bool *ret)
{
	char answer[16] = "";
	*ret = false;
	if (!isatty(STDIN_FILENO))
		return cli_usage_error(look->cli, "drop destroys %ss: say --yes, or look first with --dry-run",
				       look->table->row);
	look->quiet = true;
	const int rc = rows_work_run(look);
	if (rc != EXIT_FINE)
		return rc;
	if (look->rows == 0)
		return rows_work_tell_missing(look);
	fprintf(stderr, "%zu %ss will be gone for good. Drop them? [yes/no] ", look->rows, look->table->row);
	*ret = fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0;
	if (!*ret)
		cli_message(look->cli, "nothing was dropped");
	return *ret ? EXIT_FINE : EXIT_FAILED;
}

int rows_work_drop(struct rows_work *w, const char *look_sql, const char *drop_sql)
{
	const bool dry = cli_option_given(w->cli, "dry-run");
	bool sure = dry || cli_option_given(w->cli, "yes");
	struct rows_work look = *w;
	look.sql = look_sql;
	int rc = sure ? EXIT_FINE : confirm_drop(&look, &sure);
	if (!sure)
		return rc;
	w->sql = dry ? look_sql : drop_sql;
	rc = rows_work_run(w);
	if (rc != EXIT_FINE)
		return rc;
	for (size_t i = 0; w->action_words[i]; i++)
		if (w->actions[i] > 0 && strcmp(w->action_words[i], "drop") == 0)
			cli_message(w->cli, "%zu %s", w->actions[i], dry ? "would be dropped" : "dropped");
	return rows_work_tell_missing(w);
}

/* effectd parked: look at parked messages, give them another try, drop them. The daemon does the applying: a retry only
 * marks rows as due. */
#include "base/text.h"
#include "cli/parked.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const status_words[] = { "retry", "dead", NULL };

static const char *const reason_words[] = {
#define X(id, name) name,
	PARK_REASONS(X)
#undef X
		NULL,
};

const struct rows_table parked_table = {
	.row = "parked message",
	.status_words = status_words,
	.kind_option = "reason",
	.kind_words = reason_words,
};

#define FROM_CHOSEN_SQL " FROM effectd.parked_messages AS p WHERE" ROWS_CHOSEN_SQL("p", "reason", "parked_at")

static const char list_sql[] =
	"SELECT t.id, to_json(t)::text, t.consumer, t.key, t.status, concat_ws(' ', t.reason, t.sqlstate),"
	" t.attempts::text, t.parked_at, t.next_attempt_at, concat_ws(', ', CASE WHEN t.claimed THEN 'claimed' END,"
	"  CASE WHEN t.beyond_window THEN 'beyond window' END, CASE WHEN t.in_work THEN 'in work' END), t.detail"
	" FROM (SELECT $9::text AS database, p.id, p.consumer, p.message_key AS key, p.status, p.reason, p.sqlstate,"
	"  p.detail, p.attempts, p.crashes, p.deliveries, octet_length(p.body) AS body_bytes,"
	"  " ROWS_TIME_SQL("p.first_seen_at") " AS first_seen_at, " ROWS_TIME_SQL(
		"p.parked_at") " AS parked_at,"
			       "  " ROWS_TIME_SQL("p.next_attempt_at") " AS next_attempt_at, " PARKED_IS_CLAIMED_SQL
								       " AS claimed,"
								       "  " PARKED_IS_REFUSED_SQL
								       " AS beyond_window, " PARKED_IS_IN_WORK_SQL
								       " AS in_work" FROM_CHOSEN_SQL
								       " ) AS t ORDER BY t.id";
enum { ID, JSON, CONSUMER, KEY, STATUS, REASON, ATTEMPTS, PARKED_AT, NEXT_ATTEMPT_AT, MARKS, DETAIL };

/* What each row gets, or would get. In work: whoever is at it goes on. */
#define RETRY_CHOSEN_SQL                                                                           \
	"SELECT $9::text AS database, p.id, p.consumer, p.message_key AS key, p.status, p.reason," \
	" CASE WHEN " PARKED_IS_IN_WORK_SQL " THEN 'none'"                                         \
	"  WHEN NOT $10::boolean AND " PARKED_IS_REFUSED_SQL " THEN 'refuse'"                      \
	"  WHEN " PARKED_IS_CLAIMED_SQL " THEN 'remove' ELSE 'apply' END AS action" FROM_CHOSEN_SQL

#define DROP_CHOSEN_SQL                                                                            \
	"SELECT $9::text AS database, p.id, p.consumer, p.message_key AS key, p.status, p.reason," \
	" 'drop' AS action" FROM_CHOSEN_SQL

#define ACTED_SQL                                                                                                    \
	" SELECT t.id, to_json(t)::text, t.consumer, t.key, t.status, t.reason, t.action FROM chosen AS t ORDER BY " \
	"t.id"
enum { ACTION = 6 };

static const char retry_look_sql[] = "WITH chosen AS (" RETRY_CHOSEN_SQL ")" ACTED_SQL;

/* What died starts to count anew. What killed processes goes in alone from the first time on. */
static const char retry_sql[] =
	"WITH chosen AS (" RETRY_CHOSEN_SQL " FOR UPDATE OF p),"
	" due AS (UPDATE effectd.parked_messages AS m SET status = 'retry', next_attempt_at = now(),"
	"  leased_until = NULL, beyond_window = m.beyond_window OR $10::boolean,"
	"  attempts = CASE m.status WHEN 'dead' THEN 0 ELSE m.attempts END,"
	"  crashes = CASE WHEN m.reason = 'crash' THEN 1 ELSE 0 END"
	"  FROM chosen AS c WHERE m.id = c.id AND c.action IN ('apply', 'remove'))" ACTED_SQL;

static const char drop_look_sql[] = "WITH chosen AS (" DROP_CHOSEN_SQL ")" ACTED_SQL;

static const char drop_sql[] =
	"WITH chosen AS (" DROP_CHOSEN_SQL " FOR UPDATE OF p),"
	" gone AS (DELETE FROM effectd.parked_messages AS m USING chosen AS c WHERE m.id = c.id)" ACTED_SQL;

/* The words of the statements above. */
enum { APPLY, REMOVE, REFUSE, NONE, DROP, ACTION_COUNT };
static const char *const action_words[ACTION_COUNT] = { "apply", "remove", "refuse", "none", "drop" };

/* One command on its way through the databases. */
struct work {
	struct cli *cli;
	const struct rows_choice *choice;
	struct rows_list list;
	const struct rows_place *at;
	const char *sql, *beyond; /* beyond: NULL where the statement has no such parameter */
	rows_each *each;
	bool quiet; /* only counts */
	size_t rows, actions[ACTION_COUNT];
};

static enum status walk(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	struct work *w = arg;
	w->at = at;
	const char *own[] = { at->database, w->beyond };
	return rows_walk(s, w->sql, w->choice, own, w->beyond ? 2 : 1, w->each, w, err);
}

static int walk_all(struct work *w)
{
	w->list.cli = w->cli;
	const int walked = rows_on_databases(w->cli, &parked_table, w->choice, walk, w);
	if (w->quiet || (walked != EXIT_FINE && w->list.count == 0)) {
		buffer_finish(&w->list.line);
		return walked;
	}
	const int printed = rows_list_end(&w->list);
	return walked != EXIT_FINE ? walked : printed;
}

static void id_cell(struct work *w, const struct pg_result *r, int row)
{
	char id[24];
	const int len = snprintf(id, sizeof(id), "%lld", (long long)pg_value_int8(r, row, ID));
	if (!w->at->only)
		rows_list_cell(&w->list, 12, (struct str){ w->at->database, strlen(w->at->database) });
	rows_list_cell(&w->list, 8, (struct str){ id, (size_t)len });
}

struct column {
	int at, width;
	const char *name;
};

/* The last one has width 0. */
static void print_row(struct work *w, const struct pg_result *r, int row, const struct column *columns)
{
	if (w->cli->json) {
		rows_list_json(&w->list, rows_text(r, row, JSON));
		return;
	}
	if (w->rows == 1) {
		if (!w->at->only)
			rows_list_cell(&w->list, 12, STR("DATABASE"));
		rows_list_cell(&w->list, 8, STR("ID"));
		for (const struct column *c = columns;; c++) {
			rows_list_cell(&w->list, c->width, (struct str){ c->name, strlen(c->name) });
			if (c->width == 0)
				break;
		}
		rows_list_end_line(&w->list);
	}
	id_cell(w, r, row);
	for (const struct column *c = columns;; c++) {
		rows_list_cell(&w->list, c->width, rows_text(r, row, c->at));
		if (c->width == 0)
			break;
	}
	rows_list_end_line(&w->list);
}

/* ---- list ---- */

static bool list_row(void *arg, const struct pg_result *r, int row)
{
	static const struct column columns[] = {
		{ CONSUMER, 16, "CONSUMER" }, { STATUS, 6, "STATUS" },     { REASON, 18, "REASON" },
		{ ATTEMPTS, 8, "ATTEMPTS" },  { PARKED_AT, 20, "PARKED" }, { NEXT_ATTEMPT_AT, 20, "NEXT ATTEMPT" },
		{ KEY, 28, "KEY" },           { MARKS, 13, "MARKS" },      { DETAIL, 0, "DETAIL" },
	};
	struct work *w = arg;
	w->rows++;
	print_row(w, r, row, columns);
	return !w->list.failed;
}

/* Ids that are not there, or nothing that was meant. */
static int tell_missing(const struct work *w)
{
	const size_t ids = w->choice->id_count;
	if (ids > w->rows)
		cli_message(w->cli, "%zu of %zu ids are not there: applied, dropped, or left out by the other options",
			    ids - w->rows, ids);
	else if (w->rows == 0)
		cli_message(w->cli, rows_choice_is_everything(w->choice) ? "nothing is parked"
									 : "no parked message is like that");
	return ids > w->rows ? EXIT_FAILED : EXIT_FINE;
}

static int run_list(struct cli *cli, const struct rows_choice *choice)
{
	struct work w = { .cli = cli, .choice = choice, .sql = list_sql, .each = list_row };
	const int rc = walk_all(&w);
	return rc == EXIT_FINE ? tell_missing(&w) : rc;
}

/* ---- retry, drop ---- */

static bool acted_row(void *arg, const struct pg_result *r, int row)
{
	static const struct column columns[] = {
		{ CONSUMER, 16, "CONSUMER" }, { STATUS, 6, "STATUS" }, { REASON, 18, "REASON" },
		{ ACTION, 7, "ACTION" },      { KEY, 0, "KEY" },
	};
	struct work *w = arg;
	const struct str action = rows_text(r, row, ACTION);
	w->rows++;
	for (size_t i = 0; i < ACTION_COUNT; i++)
		w->actions[i] += strncmp(action_words[i], action.data, action.len) == 0;
	if (!w->quiet)
		print_row(w, r, row, columns);
	return !w->list.failed;
}

static int run_retry(struct cli *cli, const struct rows_choice *choice)
{
	const bool dry = cli_option_given(cli, "dry-run");
	struct work w = {
		.cli = cli,
		.choice = choice,
		.sql = dry ? retry_look_sql : retry_sql,
		.beyond = cli_option_given(cli, "beyond-window") ? "yes" : "no",
		.each = acted_row,
	};
	int rc = walk_all(&w);
	if (rc != EXIT_FINE)
		return rc;
	rc = tell_missing(&w);
	if (w.actions[APPLY] + w.actions[REMOVE] > 0)
		cli_message(cli, "%zu %s due; the daemon applies them within seconds",
			    w.actions[APPLY] + w.actions[REMOVE], dry ? "would be" : "are");
	if (w.actions[REMOVE] > 0)
		cli_message(cli, "%zu of them change nothing: their key is claimed, so only the row goes",
			    w.actions[REMOVE]);
	if (w.actions[NONE] > 0)
		cli_message(cli, "%zu left: they are being tried at this moment", w.actions[NONE]);
	if (w.actions[REFUSE] > 0)
		cli_message(cli,
			    "%zu left: older than the window, so an earlier copy may have been applied and its claim "
			    "be gone. Look at your tables, then use --beyond-window, or drop them",
			    w.actions[REFUSE]);
	return w.actions[REFUSE] > 0 ? EXIT_FAILED : rc;
}

/* What was chosen is counted before it is asked for, or refused without a terminal. */
static int confirm_drop(struct cli *cli, const struct rows_choice *choice, bool *ret)
{
	struct work w = { .cli = cli, .choice = choice, .sql = drop_look_sql, .each = acted_row, .quiet = true };
	char answer[16] = "";
	*ret = false;
	if (!isatty(STDIN_FILENO))
		return cli_usage_error(cli, "drop destroys messages: say --yes, or look first with --dry-run");
	const int rc = walk_all(&w);
	if (rc != EXIT_FINE)
		return rc;
	if (w.rows == 0)
		return tell_missing(&w);
	fprintf(stderr, "%zu parked messages will be gone for good. Drop them? [yes/no] ", w.rows);
	*ret = fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0;
	if (!*ret)
		cli_message(cli, "nothing was dropped");
	return *ret ? EXIT_FINE : EXIT_FAILED;
}

static int run_drop(struct cli *cli, const struct rows_choice *choice)
{
	const bool dry = cli_option_given(cli, "dry-run");
	bool sure = dry || cli_option_given(cli, "yes");
	int rc = sure ? EXIT_FINE : confirm_drop(cli, choice, &sure);
	if (!sure)
		return rc;
	struct work w = { .cli = cli, .choice = choice, .sql = dry ? drop_look_sql : drop_sql, .each = acted_row };
	rc = walk_all(&w);
	if (rc != EXIT_FINE)
		return rc;
	if (w.rows > 0)
		cli_message(cli, "%zu %s", w.rows, dry ? "would be dropped" : "dropped");
	return tell_missing(&w);
}

static int run_show(struct cli *cli, const struct rows_choice *choice)
{
	const bool body = cli_option_given(cli, "body");
	if (choice->id_count != 1)
		return cli_usage_error(cli, "show takes one id: list shows them");
	if (body && cli->json)
		return cli_usage_error(cli, "--body gives the body as it is, not JSON");
	return parked_show(cli, choice, body);
}

/* ---- the command ---- */

static const struct action {
	const char *name;
	int (*run)(struct cli *cli, const struct rows_choice *choice);
	const char *options[4]; /* beside those that choose */
	bool changes;           /* so it must be said of which rows */
} actions[] = {
	{ "list", run_list, { NULL }, false },
	{ "show", run_show, { "body" }, false },
	{ "retry", run_retry, { "all", "dry-run", "beyond-window" }, true },
	{ "drop", run_drop, { "all", "dry-run", "yes" }, true },
};

static bool takes(const struct action *action, const char *option)
{
	for (size_t i = 0; i < ARRAY_LEN(action->options) && action->options[i]; i++)
		if (strcmp(action->options[i], option) == 0)
			return true;
	return false;
}

/* An option of another action would be ignored in silence. */
static const char *misplaced_option(const struct cli *cli, const struct action *action)
{
	static const char *const options[] = { "all", "body", "dry-run", "beyond-window", "yes" };
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (cli_option_given(cli, options[i]) && !takes(action, options[i]))
			return options[i];
	return NULL;
}

static int run(struct cli *cli, const struct action *action, const struct rows_choice *choice)
{
	const char *misplaced = misplaced_option(cli, action);
	const bool everything = rows_choice_is_everything(choice), all = cli_option_given(cli, "all");
	if (misplaced)
		return cli_usage_error(cli, "--%s does not go with %s", misplaced, action->name);
	if (action->changes && everything && !all)
		return cli_usage_error(cli, "%s what? Ids, --consumer, --reason, ..., or --all", action->name);
	if (all && !everything)
		return cli_usage_error(cli, "--all goes with nothing that chooses");
	return action->run(cli, choice);
}

int cmd_parked(struct cli *cli, int argc, char **argv)
{
	if (argc == 0)
		return cli_usage_error(cli, "list, show, retry or drop?");
	const struct action *action = NULL;
	for (size_t i = 0; i < ARRAY_LEN(actions) && !action; i++)
		if (strcmp(argv[0], actions[i].name) == 0)
			action = &actions[i];
	if (!action)
		return cli_usage_error(cli, "it cannot %s: list, show, retry or drop", argv[0]);
	struct rows_choice choice;
	int rc = rows_choose(cli, &parked_table, argc - 1, argv + 1, &choice);
	if (rc == EXIT_FINE)
		rc = run(cli, action, &choice);
	rows_choice_finish(&choice);
	return rc;
}

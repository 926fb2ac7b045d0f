/* effectd parked: look at parked messages, give them another try, drop them. The daemon does the applying: a retry only
 * marks rows as due. */
#include "base/text.h"
#include "cli/parked.h"
#include "cli/rows_work.h"

const struct rows_table parked_table = {
	.row = "parked message",
	.nothing = "nothing is parked",
	.done = "applied",
	.kind_option = "reason",
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
enum { APPLY, REMOVE, REFUSE, NONE, DROP };
static const char *const action_words[] = { "apply", "remove", "refuse", "none", "drop", NULL };

/* ---- list ---- */

static bool list_row(void *arg, const struct pg_result *r, int row)
{
	static const struct rows_column columns[] = {
		{ CONSUMER, 16, "CONSUMER" }, { STATUS, 6, "STATUS" },     { REASON, 18, "REASON" },
		{ ATTEMPTS, 8, "ATTEMPTS" },  { PARKED_AT, 20, "PARKED" }, { NEXT_ATTEMPT_AT, 20, "NEXT ATTEMPT" },
		{ KEY, 28, "KEY" },           { MARKS, 13, "MARKS" },      { DETAIL, 0, "DETAIL" },
	};
	struct rows_work *w = arg;
	w->rows++;
	rows_work_print(w, r, row, JSON, columns);
	return !w->list.failed;
}

static int run_list(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose(cli, &parked_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	struct rows_work w = {
		.cli = cli, .table = &parked_table, .choice = &choice, .sql = list_sql, .each = list_row
	};
	rc = rows_work_run(&w);
	return rc == EXIT_FINE ? rows_work_tell_missing(&w) : rc;
}

/* ---- retry, drop ---- */

static bool acted_row(void *arg, const struct pg_result *r, int row)
{
	static const struct rows_column columns[] = {
		{ CONSUMER, 16, "CONSUMER" }, { STATUS, 6, "STATUS" }, { REASON, 18, "REASON" },
		{ ACTION, 7, "ACTION" },      { KEY, 0, "KEY" },
	};
	struct rows_work *w = arg;
	w->rows++;
	rows_work_count(w, rows_text(r, row, ACTION));
	if (!w->quiet)
		rows_work_print(w, r, row, JSON, columns);
	return !w->list.failed;
}

static int run_retry(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose_to_change(cli, &parked_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	const bool dry = cli_option_given(cli, "dry-run");
	struct rows_work w = {
		.cli = cli,
		.table = &parked_table,
		.choice = &choice,
		.action_words = action_words,
		.sql = dry ? retry_look_sql : retry_sql,
		.own = cli_option_given(cli, "beyond-window") ? "yes" : "no",
		.each = acted_row,
	};
	rc = rows_work_run(&w);
	if (rc != EXIT_FINE)
		return rc;
	rc = rows_work_tell_missing(&w);
	if (w.actions[APPLY] + w.actions[REMOVE] > 0)
		cli_message(cli, "%zu %sdue; the daemon applies them within seconds",
			    w.actions[APPLY] + w.actions[REMOVE], dry ? "would be " : "");
	if (w.actions[REMOVE] > 0)
		cli_message(
			cli,
			"of these, with a key that is claimed, so that nothing is applied and only the row goes: %zu",
			w.actions[REMOVE]);
	if (w.actions[NONE] > 0)
		cli_message(cli, "left, because a process is at it: %zu", w.actions[NONE]);
	if (w.actions[REFUSE] > 0)
		cli_message(cli,
			    "left, because older than the window: %zu. An earlier copy may have been applied and its "
			    "claim be gone; look at your tables, then use --beyond-window, or drop",
			    w.actions[REFUSE]);
	return w.actions[REFUSE] > 0 ? EXIT_FAILED : rc;
}

static int run_drop(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose_to_change(cli, &parked_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	struct rows_work w = {
		.cli = cli,
		.table = &parked_table,
		.choice = &choice,
		.action_words = action_words,
		.each = acted_row,
	};
	return rows_work_drop(&w, drop_look_sql, drop_sql);
}

static int run_show(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose(cli, &parked_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	const bool body = cli_option_given(cli, "body");
	if (choice.id_count != 1)
		return cli_usage_error(cli, "show takes one id: list shows them");
	if (body && cli->json)
		return cli_usage_error(cli, "--body gives the body as it is, not JSON");
	return parked_show(cli, &choice, body);
}

const struct cli_action parked_actions[] = {
	{ "list", "[ID]...", "what is parked, and why", run_list },
	{ "show", "ID", "one message with all its properties", run_show },
	{ "retry", "[ID]...", "have the daemon try again", run_retry },
	{ "drop", "[ID]...", "remove for good: their effects never happen", run_drop },
	{ NULL },
};

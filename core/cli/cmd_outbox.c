/* effectd outbox: look at outbox rows, give them another try, drop them. A relay does the calling: a retry only makes
 * rows due, with the key that they always had. */
#include "base/text.h"
#include "cli/rows_work.h"
#include "relay/relay.h"
#include <string.h>

static const struct rows_table outbox_table = {
	.row = "outbox row",
	.nothing = "the outbox is empty",
	.done = "sent and gone since",
	.kind_option = "kind",
};

/* Is a relay at it, or was, until it died? */
#define IN_WORK_SQL "(o.status = 'pending' AND coalesce(o.leased_until > now(), false))"

#define FROM_CHOSEN_SQL " FROM effectd.outbox AS o WHERE" ROWS_CHOSEN_SQL("o", "kind", "created_at")

#define ROW_SQL                                                                                               \
	"$9::text AS database, o.id, o.consumer, o.message_key AS key, o.kind, o.status, o.attempts,"         \
	" o.idempotency_key, o.ordering_key, " ROWS_TIME_SQL(                                                 \
		"o.created_at") " AS created_at,"                                                             \
				" " ROWS_TIME_SQL("o.next_attempt_at") " AS next_attempt_at, " ROWS_TIME_SQL( \
					"o.sent_at") " AS sent_at,"                                           \
						     " " IN_WORK_SQL " AS in_work, o.last_error"

static const char list_sql[] = "SELECT t.id, to_json(t)::text, t.kind, t.status, t.attempts::text, t.created_at,"
			       " CASE t.status WHEN 'pending' THEN t.next_attempt_at END, t.idempotency_key,"
			       " CASE WHEN t.in_work THEN 'in work' END, t.last_error"
			       " FROM (SELECT " ROW_SQL FROM_CHOSEN_SQL ") AS t ORDER BY t.id";
enum { JSON = 1, KIND, STATUS, ATTEMPTS, CREATED_AT, NEXT_ATTEMPT_AT, KEY, MARKS, ERROR };

/* What each row gets, or would get. In work: whoever is at it goes on. Sent: it would be another effect. */
#define RETRY_CHOSEN_SQL                                                                         \
	"SELECT $9::text AS database, o.id, o.consumer, o.message_key AS key, o.kind, o.status," \
	" o.idempotency_key, CASE WHEN o.status = 'sent' THEN 'none' WHEN " IN_WORK_SQL          \
	" THEN 'wait' ELSE 'retry' END"                                                          \
	" AS action" FROM_CHOSEN_SQL

#define DROP_CHOSEN_SQL                                                                          \
	"SELECT $9::text AS database, o.id, o.consumer, o.message_key AS key, o.kind, o.status," \
	" o.idempotency_key, o.ordering_key, CASE WHEN " IN_WORK_SQL                             \
	" THEN 'wait' ELSE 'drop' END AS action" FROM_CHOSEN_SQL

#define ACTED_SQL \
	" SELECT t.id, to_json(t)::text, t.kind, t.status, t.action, t.idempotency_key FROM chosen AS t ORDER BY t.id"
enum { ACTION = 4, ACTED_KEY };

static const char retry_look_sql[] = "WITH chosen AS (" RETRY_CHOSEN_SQL ")" ACTED_SQL;

static const char retry_sql[] =
	"WITH chosen AS (" RETRY_CHOSEN_SQL " FOR UPDATE OF o),"
	" due AS (UPDATE effectd.outbox AS m SET status = 'pending', next_attempt_at = now(), leased_until = NULL,"
	"  attempts = CASE m.status WHEN 'dead' THEN 0 ELSE m.attempts END"
	"  FROM chosen AS c WHERE m.id = c.id AND c.action = 'retry')" ACTED_SQL;

static const char drop_look_sql[] = "WITH chosen AS (" DROP_CHOSEN_SQL ")" ACTED_SQL;

/* The next row of an ordering key need not wait for one that is gone. */
static const char drop_sql[] =
	"WITH chosen AS (" DROP_CHOSEN_SQL " FOR UPDATE OF o),"
	" gone AS (DELETE FROM effectd.outbox AS m USING chosen AS c WHERE m.id = c.id AND c.action = 'drop'),"
	" next AS (SELECT DISTINCT ON (m.ordering_key) m.id FROM effectd.outbox AS m"
	"  WHERE m.status = 'pending' AND m.ordering_key IN (SELECT c.ordering_key FROM chosen AS c WHERE c.action = "
	"'drop')"
	"  AND m.id NOT IN (SELECT c.id FROM chosen AS c WHERE c.action = 'drop') ORDER BY m.ordering_key, m.id),"
	" due AS (UPDATE effectd.outbox AS m SET next_attempt_at = least(m.next_attempt_at, now()) FROM next"
	"  WHERE m.id = next.id)" ACTED_SQL;

enum { RETRY, NONE, WAIT, DROP };
static const char *const action_words[] = { "retry", "none", "wait", "drop", NULL };

/* ---- list ---- */

static bool list_row(void *arg, const struct pg_result *r, int row)
{
	static const struct rows_column columns[] = {
		{ KIND, 16, "KIND" },
		{ STATUS, 7, "STATUS" },
		{ ATTEMPTS, 8, "ATTEMPTS" },
		{ CREATED_AT, 20, "CREATED" },
		{ NEXT_ATTEMPT_AT, 20, "NEXT ATTEMPT" },
		{ KEY, 36, "IDEMPOTENCY KEY" },
		{ MARKS, 7, "MARKS" },
		{ ERROR, 0, "LAST ERROR" },
	};
	struct rows_work *w = arg;
	w->rows++;
	rows_work_print(w, r, row, JSON, columns);
	return !w->list.failed;
}

static int run_list(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose(cli, &outbox_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	struct rows_work w = {
		.cli = cli, .table = &outbox_table, .choice = &choice, .sql = list_sql, .each = list_row
	};
	rc = rows_work_run(&w);
	return rc == EXIT_FINE ? rows_work_tell_missing(&w) : rc;
}

/* ---- show ---- */

static const char show_sql[] =
	"SELECT to_json(t)::text FROM (SELECT " ROW_SQL ", o.headers, o.payload" FROM_CHOSEN_SQL ") AS t";
static const char show_lines_sql[] =
	"SELECT 0::bigint, e.key, e.value FROM (SELECT " ROW_SQL
	", o.headers, jsonb_pretty(o.payload) AS payload" FROM_CHOSEN_SQL ") AS t, json_each_text(to_json(t)) AS e";

struct shown {
	struct cli *cli;
	const struct rows_choice *choice;
	struct buffer out;
};

/* A payload has lines, which stay lines. */
static void add_value(struct buffer *out, struct str value)
{
	while (value.len > 0) {
		const char *end = memchr(value.data, '\n', value.len);
		const size_t len = end ? (size_t)(end - value.data) : value.len, gone = len + (end != NULL);
		cli_add_clean(out, value.data, len);
		buffer_puts(out, end ? "\n                       " : "");
		value = (struct str){ value.data + gone, value.len - gone };
	}
	buffer_puts(out, "\n");
}

static enum status show(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	struct shown *v = arg;
	struct pg_result r;
	const char *params[ROWS_CHOICE_PARAMS + 1] = { "0", v->choice->ids };
	params[ROWS_CHOICE_PARAMS] = at->database;
	const enum status st =
		pg_query(s, v->cli->json ? show_sql : show_lines_sql, params, ARRAY_LEN(params), &r, err);
	for (int i = 0; st == ST_OK && i < r.rows; i++) {
		const struct str name = rows_text(&r, i, v->cli->json ? 0 : 1);
		if (v->cli->json) {
			buffer_add(&v->out, name.data, name.len);
			buffer_puts(&v->out, "\n");
		} else if (rows_text(&r, i, 2).data) {
			buffer_printf(&v->out, "  %-20.*s ", (int)name.len, name.data);
			add_value(&v->out, rows_text(&r, i, 2));
		}
	}
	return st;
}

static int run_show(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose(cli, &outbox_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	if (choice.id_count != 1)
		return cli_usage_error(cli, "show takes one id: list shows them");
	struct shown v = { .cli = cli, .choice = &choice };
	rc = rows_on_databases(cli, &outbox_table, &choice, show, &v);
	const bool found = v.out.len > 0;
	const int printed = found && rc == EXIT_FINE ? cli_print(cli, &v.out) : EXIT_FINE;
	buffer_finish(&v.out);
	if (rc != EXIT_FINE)
		return rc;
	if (!found)
		cli_message(cli, "there is no outbox row with this id: it was dropped, or sent and gone since");
	return found ? printed : EXIT_FAILED;
}

/* ---- retry, drop ---- */

static bool acted_row(void *arg, const struct pg_result *r, int row)
{
	static const struct rows_column columns[] = {
		{ KIND, 16, "KIND" },
		{ STATUS, 7, "STATUS" },
		{ ACTION, 7, "ACTION" },
		{ ACTED_KEY, 0, "IDEMPOTENCY KEY" },
	};
	struct rows_work *w = arg;
	w->rows++;
	rows_work_count(w, rows_text(r, row, ACTION));
	if (!w->quiet)
		rows_work_print(w, r, row, JSON, columns);
	return !w->list.failed;
}

static enum status notify(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err)
{
	(void)arg;
	(void)at;
	return pg_query(s, "NOTIFY " RELAY_CHANNEL, NULL, 0, NULL, err);
}

static int run_retry(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose_to_change(cli, &outbox_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	const bool dry = cli_option_given(cli, "dry-run");
	struct rows_work w = {
		.cli = cli,
		.table = &outbox_table,
		.choice = &choice,
		.action_words = action_words,
		.sql = dry ? retry_look_sql : retry_sql,
		.each = acted_row,
	};
	rc = rows_work_run(&w);
	if (rc == EXIT_FINE && !dry && w.actions[RETRY] > 0)
		rc = rows_on_databases(cli, &outbox_table, &choice, notify, NULL);
	if (rc != EXIT_FINE)
		return rc;
	rc = rows_work_tell_missing(&w);
	if (w.actions[RETRY] > 0)
		cli_message(cli, "%zu %sdue; a relay calls them with the key they always had", w.actions[RETRY],
			    dry ? "would be " : "");
	if (w.actions[NONE] > 0)
		cli_message(cli, "%zu left: they are sent", w.actions[NONE]);
	if (w.actions[WAIT] > 0)
		cli_message(cli, "%zu left: they are being called at this moment", w.actions[WAIT]);
	return rc;
}

static int run_drop(struct cli *cli, int argc, char **argv)
{
	CLEANUP(rows_choice_finish) struct rows_choice choice = { 0 };
	int rc = rows_choose_to_change(cli, &outbox_table, argc, argv, &choice);
	if (rc != EXIT_FINE)
		return rc;
	struct rows_work w = {
		.cli = cli,
		.table = &outbox_table,
		.choice = &choice,
		.action_words = action_words,
		.each = acted_row,
	};
	rc = rows_work_drop(&w, drop_look_sql, drop_sql);
	if (w.actions[WAIT] > 0)
		cli_message(cli, "%zu left: they are being called at this moment, try again", w.actions[WAIT]);
	return rc;
}

const struct cli_action outbox_actions[] = {
	{ "list", "[ID]...", "what waits, what is sent, what failed", run_list },
	{ "show", "ID", "one row with its payload", run_show },
	{ "retry", "[ID]...", "have a relay call again, with the same idempotency keys", run_retry },
	{ "drop", "[ID]...", "remove for good: their calls never happen", run_drop },
	{ NULL },
};

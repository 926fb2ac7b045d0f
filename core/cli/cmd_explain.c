/* effectd explain: the story of one key, as far as the database still knows it. Looks only; changes nothing. */
#include "base/text.h"
#include "base/wait.h"
#include "cli/rows.h"
#include "pg/migrate.h"
#include "run/params.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* What happened when, each line a time, a word and a sentence. $1 the consumer, $2 the key. */
static const char story_sql[] = "SELECT " ROWS_TIME_SQL(
	"t.at") ", t.what, t.says FROM ("
		" SELECT processed_at AS at, 'claimed' AS what, 'applied, in the transaction of this claim' AS says"
		"  FROM effectd.processed_messages WHERE consumer = $1 AND message_key = $2"
		" UNION ALL SELECT processed_at, 'claimed',"
		"  'applied, in the transaction of this claim; its event''s day is ' || event_day"
		"  FROM effectd.processed_messages_daily WHERE consumer = $1 AND message_key = $2"
		" UNION ALL SELECT first_seen_at, 'parked',"
		"  format('row %s, %s for %s%s: %s; attempts: %s, crashes: %s, deliveries: %s%s', id, status, reason,"
		"   ' ' || sqlstate, coalesce(detail, 'no detail'), attempts, crashes, deliveries,"
		"   '; next attempt at ' || " ROWS_TIME_SQL(
			"next_attempt_at") ")"
					   "  FROM effectd.parked_messages WHERE consumer = $1 AND message_key = $2"
					   " UNION ALL SELECT a.first_seen_at, 'inside',"
					   "  format('inside the plugin %s times when a process died, or now', "
					   "a.crashes)"
					   "  FROM effectd.attempts AS a WHERE a.consumer = $1 AND EXISTS (SELECT FROM "
					   "effectd.parked_messages AS p"
					   "   WHERE p.consumer = $1 AND p.message_key = $2 AND p.fingerprint = "
					   "a.fingerprint)"
					   " UNION ALL SELECT created_at, 'outbox', format('row %s, %s, %s; attempts: "
					   "%s%s%s', id, kind, status, attempts,"
					   "   '; sent at ' || " ROWS_TIME_SQL(
						   "sent_at") ", '; ' || last_error)"
							      "  FROM effectd.outbox WHERE consumer = $1 AND "
							      "message_key = $2"
							      ") AS t ORDER BY t.at, t.what";
enum { AT, WHAT, SAYS };

/* How long this database keeps claims of the consumer, in ms, -1: for good; no row: it never ran here. */
static const char window_sql[] = "SELECT coalesce(extract(epoch FROM \"window\") * 1000, -1)::int8"
				 " FROM effectd.consumers WHERE consumer = $1";

static const char days_sql[] = "SELECT count(*) FROM effectd.processed_messages_daily"
			       " WHERE consumer = $1 AND message_key = $2";

/* What the lines come to, the gravest of what was found. */
static const char *verdict(bool claimed, bool parked, int64_t days)
{
	if (days > 1)
		return "claimed on more than one day, so perhaps applied more than once: its plugin gave it two event "
		       "days, and with claims = daily a key must have one";
	if (claimed && parked)
		return "applied; the parked row is of another copy, and a retry would only remove it";
	if (claimed)
		return "applied: another delivery of it would be a duplicate";
	if (parked)
		return "parked and not applied: `effectd parked show ID` has all of it";
	return "not known: no claim and no parked row. It never came, it is in its queue still, its consumer makes no "
	       "claims, or its claim went with the window";
}

static enum status tell(const struct cli *cli, struct pg_session *s, const char *consumer, const char *key,
			struct buffer *out, struct error *err)
{
	struct pg_result r;
	enum status st = pg_query(s, window_sql, (const char *const[]){ consumer }, 1, &r, err);
	if (st != ST_OK)
		return st;
	char window[64] = "";
	const int64_t window_ms = r.rows > 0 ? pg_value_int8(&r, 0, 0) : 0;
	if (window_ms > 0)
		text_format_duration(window_ms, window, sizeof(window));
	else if (window_ms < 0)
		snprintf(window, sizeof(window), "for good");
	if ((st = pg_query(s, days_sql, (const char *const[]){ consumer, key }, 2, &r, err)) != ST_OK)
		return st;
	const int64_t days = pg_value_int8(&r, 0, 0);
	if ((st = pg_query(s, story_sql, (const char *const[]){ consumer, key }, 2, &r, err)) != ST_OK)
		return st;
	bool claimed = false, parked = false;
	json_t *story = json_array();
	for (int row = 0; row < r.rows; row++) {
		const struct str at = rows_text(&r, row, AT), what = rows_text(&r, row, WHAT),
				 says = rows_text(&r, row, SAYS);
		claimed |= what.len == 7 && memcmp(what.data, "claimed", 7) == 0;
		parked |= what.len == 6 && memcmp(what.data, "parked", 6) == 0;
		json_array_append_new(story, json_pack("{ss% ss% ss%}", "at", at.data, at.len, "what", what.data,
						       what.len, "text", says.data, says.len));
		if (cli->json)
			continue;
		cli_add_clean(out, at.data, at.len);
		buffer_printf(out, "  %-8.*s ", (int)what.len, what.data);
		cli_add_clean(out, says.data, says.len);
		buffer_puts(out, "\n");
	}
	json_t *all =
		json_pack("{ss ss sb sb ss ss so}", "consumer", consumer, "key", key, "claimed", (int)claimed, "parked",
			  (int)parked, "window", window, "verdict", verdict(claimed, parked, days), "story", story);
	AUTOFREE char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	if (!text)
		return error_oom(err);
	if (cli->json)
		buffer_printf(out, "%s\n", text);
	else
		buffer_printf(out, "%s\n%s%s\n", verdict(claimed, parked, days),
			      window[0] ? "claims are kept: " : "the consumer never ran on this database", window);
	return ST_OK;
}

static int explain(const struct cli *cli, const struct config *config, const char *key)
{
	const struct config_consumer *section;
	const int rc = cli_find_consumer(cli, config, &section);
	if (rc != EXIT_FINE)
		return rc;
	struct pg_params params;
	struct pg_session *s = NULL;
	struct error err = { 0 };
	struct buffer out = { 0 };
	params_of_database(section->database, &config->process, "effectd/explain", &params);
	enum status st = pg_session_open(&s, &params, &wait_alone, &err);
	if (st == ST_OK)
		st = migrate_require(s, &err);
	if (st == ST_OK)
		st = tell(cli, s, section->name, key, &out, &err);
	pg_session_destroy(s);
	if (st == ST_OK)
		return cli_print(cli, &out);
	buffer_finish(&out);
	return cli_failure(cli, &err);
}

int cmd_explain(struct cli *cli, int argc, char **argv)
{
	if (argc != 1)
		return cli_usage_error(cli, "one key at a time, as the plugin makes it: order-completed:17");
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	rc = explain(cli, config, argv[0]);
	config_destroy(config);
	return rc;
}

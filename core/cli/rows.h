/* Rows of effectd's tables, as commands choose, walk and print them: parked messages, outbox rows.
 *
 * A table may hold millions of rows: they are read in chunks by id and printed as they come, never all in memory. */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include "cli/cli.h"
#include "pg/session.h"

/* What can be chosen by. */
struct rows_table {
	const char *row;         /* what messages call one row */
	const char *nothing;     /* the sentence for no row at all */
	const char *done;        /* what became of a row that went away as it should */
	const char *kind_option; /* the option that compares the table's own column, "reason" */
};

/* Options of every command on rows; the table's own one is added by the verb. */
#define ROWS_OPTIONS(statuses)                                                                                   \
	{ "consumer", "NAME", "only rows of this consumer" }, { "key", "KEY", "only rows of this message key" }, \
		{ "status", "STATUS", "only rows with this status", .words = (statuses) },                       \
		{ "older-than", "TIME", "only rows that are there for longer: 30min 12h 7d" },                   \
		{ "newer-than", "TIME", "only rows that came since then" },                                      \
	{                                                                                                        \
		"database", "NAME", "only [database:NAME]; else that of --consumer, else each"                   \
	}

/* What was chosen; absent parts choose nothing away. The strings are argv's but ids. */
struct rows_choice {
	char *ids; /* an array's literal */
	size_t id_count;
	const char *consumer, *key, *status, *kind, *database;
	char older_ms[24], newer_ms[24];
};

/* From ids among the arguments and from options. EXIT_USAGE with a message when they are wrong; *ret is to be finished
 * all the same. rows_choose_to_change() wants it said of which rows, be it all. */
int rows_choose(const struct cli *cli, const struct rows_table *table, int argc, char **argv,
		struct rows_choice *ret) MUST_USE;
int rows_choose_to_change(const struct cli *cli, const struct rows_table *table, int argc, char **argv,
			  struct rows_choice *ret) MUST_USE;
void rows_choice_finish(struct rows_choice *c);
bool rows_choice_is_everything(const struct rows_choice *c); /* nothing was said */

/* The condition of a choice and the order and size of a chunk, in SQL. $1: the id to go on after; $2 to $8: the choice;
 * a statement's own parameters come behind. */
#define ROWS_CHOSEN_SQL(alias, kind_column, time_column)                                                            \
	" " alias ".id > $1::bigint AND ($2::bigint[] IS NULL OR " alias ".id = ANY ($2::bigint[]))"                \
	" AND ($3::text IS NULL OR " alias ".consumer = $3) AND ($4::text IS NULL OR " alias ".message_key = $4)"   \
	" AND ($5::text IS NULL OR " alias ".status = $5) AND ($6::text IS NULL OR " alias "." kind_column " = $6)" \
	" AND ($7::bigint IS NULL OR " alias "." time_column " < now() - $7::bigint * interval '1 millisecond')"    \
	" AND ($8::bigint IS NULL OR " alias "." time_column " >= now() - $8::bigint * interval '1 millisecond')"   \
	" ORDER BY " alias ".id LIMIT 500"
enum { ROWS_CHUNK = 500, ROWS_CHOICE_PARAMS = 8, ROWS_PARAMS_MAX = 12 };

/* One row, until it returns. False: enough. */
typedef bool rows_each(void *arg, const struct pg_result *r, int row);

/* Runs the statement chunk after chunk, each in a transaction of its own; its first column is the id (int8), by which
 * its rows are ordered, and it returns every row that it chose. own: own_count more parameters, text or NULL. */
enum status rows_walk(struct pg_session *s, const char *sql, const struct rows_choice *choice, const char *const *own,
		      int own_count, rows_each *each, void *arg, struct error *err) MUST_USE;

struct rows_place {
	const char *database;
	bool only; /* the configuration has no other */
};

/* Connects to each database that the choice leaves and calls on(); the exit code. Ids need one database. */
typedef enum status rows_on(void *arg, struct pg_session *s, const struct rows_place *at, struct error *err);
int rows_on_databases(const struct cli *cli, const struct rows_table *table, const struct rows_choice *choice,
		      rows_on *on, void *arg) MUST_USE;

/* Values of a row by column: text, absent for NULL; bool. Times are printed by the SQL. */
struct str rows_text(const struct pg_result *r, int row, int column);
bool rows_bool(const struct pg_result *r, int row, int column);

#define ROWS_TIME_SQL(time) "to_char(" time " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"

/* A list on stdout, row by row: lines with aligned cells, or an array of JSON objects. */
struct rows_list {
	const struct cli *cli;
	struct buffer line;
	size_t count; /* of JSON objects */
	bool failed;
};

void rows_list_cell(struct rows_list *l, int width, struct str text); /* cleaned; the last of a line has width 0 */
void rows_list_end_line(struct rows_list *l);
void rows_list_json(struct rows_list *l, struct str object);
int rows_list_end(struct rows_list *l); /* EXIT_FAILED with a message when stdout did not take it all */

#endif

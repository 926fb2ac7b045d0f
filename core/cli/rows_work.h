/* What commands on rows share beyond choosing and walking: the list that is printed, what is asked before something
 * goes for good. */
#ifndef CLI_ROWS_WORK_H
#define CLI_ROWS_WORK_H

#include "cli/rows.h"

enum { ROWS_ID = 0, ROWS_ACTIONS_MAX = 8 };

/* One column of a list; the last one has width 0. */
struct rows_column {
	int at, width; /* at: of the statement's result */
	const char *name;
};

/* One command on its way through the databases. */
struct rows_work {
	struct cli *cli;
	const struct rows_table *table;
	const struct rows_choice *choice;
	const char *sql;                 /* $9 is the database's name */
	const char *own;                 /* $10; NULL: the statement has none */
	rows_each *each;                 /* called with the work */
	bool quiet;                      /* only counts */
	const char *const *action_words; /* what becomes of a row, as the statement says it; ends with NULL */

	struct rows_list list;
	const struct rows_place *at;
	size_t rows, actions[ROWS_ACTIONS_MAX];
};

int rows_work_run(struct rows_work *w);

/* Prints a row, with the heading before the first; json is the column that holds it as an object. */
void rows_work_print(struct rows_work *w, const struct pg_result *r, int row, int json,
		     const struct rows_column *columns);
void rows_work_count(struct rows_work *w, struct str action);

/* Ids that are not there, or nothing that was meant: said, and the exit code. */
int rows_work_tell_missing(const struct rows_work *w);

/* Drops what is chosen, with --yes or once a person agreed: both statements say what goes, as the action `drop`, and
 * the second one does it. With --dry-run nothing does. */
int rows_work_drop(struct rows_work *w, const char *look_sql, const char *drop_sql);

#endif

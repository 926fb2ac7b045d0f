/* What the files of this folder know of a session, and nobody else does: libpq stays in here. */
#ifndef PG_PRIVATE_H
#define PG_PRIVATE_H

#include "pg/session.h"
#include <libpq-fe.h>

/* What client_min_messages must be; by it is known that the startup options arrived. */
#define PG_MIN_MESSAGES "warning"

/* Prepared on every session when it opens. */
#define PG_BEGIN    "pg_begin"
#define PG_COMMIT   "pg_commit"
#define PG_ROLLBACK "pg_rollback"

/* A transaction, or in a rehearsal a savepoint, in SQL; and the tags that answer. */
struct pg_words {
	const char *begin, *commit, *rollback;
	const char *begun, *committed, *rolled_back;
};
extern const struct pg_words pg_transactions, pg_savepoints;

struct pg_session {
	PGconn *conn;
	const struct pg_words *words;
	struct waiter *waiter;
	int64_t answer_ms; /* the longest silence while an answer is due; WAIT_FOREVER: only the network's limits */
	int64_t commit_ms; /* the same while a COMMIT is on its way */

	PGresult *current; /* what the last pg_next() gave out */
	unsigned pending;  /* answers due, those of Syncs included */
	unsigned syncs;    /* Syncs among them */
	bool unsynced;     /* something was sent since the last Sync */

	unsigned commit_due; /* a COMMIT was sent: its answer is this many answers away; 0: none */
	bool failed;         /* an error was read in the flight that is being read */
	bool dead;

	bool warned;             /* a WARNING came since the last result was given out */
	struct error warning;    /* it */
	struct error last_words; /* fatal, said while no answer was due: why the server ends the session */
};

/* PostgreSQL's own words: SQLSTATE, severity, one line of text. */
enum status pg_report_result(const PGresult *res, enum status status, struct error *err);

/* libpq's words about a connection, as one line behind `what`. */
enum status pg_report_connection(const char *words, enum status status, const char *what, struct error *err);

/* Connects by params; what libpq would wait for, waits. On failure *ret is untouched. */
enum status pg_connect(PGconn **ret, const struct pg_params *params, struct waiter *waiter, struct error *err) MUST_USE;

/* Sets by SQL what the startup options say, where a pooler has dropped those. */
enum status pg_apply_settings(struct pg_session *s, const struct pg_params *params, struct error *err) MUST_USE;

/* Marks the session dead for the reason in err. Returns status, or ST_IN_DOUBT when a COMMIT may have happened. */
enum status pg_session_lost(struct pg_session *s, enum status status, struct error *err);

/* The same where libpq found the connection broken, or had no memory, and knows why. */
enum status pg_session_broken(struct pg_session *s, struct error *err);

/* The answer of every function to a dead session. */
enum status pg_session_gone(struct error *err);

/* Waits until libpq has a result to give out, reading and writing as the socket allows. */
enum status pg_session_await(struct pg_session *s, struct error *err) MUST_USE;

/* Runs a text of several statements in the simple protocol and drops what they return: inside the open transaction, or,
 * without one, as a transaction of its own. No answer may be due. *ret_position is the character, counted from 1, where
 * PostgreSQL found the mistake, 0 when it named none. */
enum status pg_script(struct pg_session *s, const char *sql, int *ret_position, struct error *err) MUST_USE;

static inline void pg_result_clear(PGresult **res)
{
	PQclear(*res);
}

#endif

/* One connection to PostgreSQL, always in pipeline mode, never blocking: what would wait, waits with the waiter.
 *
 * Statements are sent in *flights*: any number of pg_send() calls, one pg_sync(), then pg_next() until PG_SYNC. libpq's
 * buffer is sent on as it fills, so the server works while a flight is still being queued.
 * A session that answered ST_UNAVAILABLE, ST_IN_DOUBT or ST_STOPPED is dead: destroy it. */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include "base/error.h"
#include "base/wait.h"
#include <stddef.h>
#include <stdint.h>

struct pg_params {
	const char *conninfo;         /* key=value or URI; the defaults below are put behind it, never over it */
	const char *password;         /* NULL: none */
	const char *application_name; /* "effectd/NAME" */
	const char *isolation;        /* "read committed", "repeatable read", "serializable"; NULL: server's default */
	int64_t statement_timeout_ms, lock_timeout_ms,
		idle_in_transaction_ms; /* startup options; 0: server's default */
	int64_t answer_timeout_ms; /* silence after which a session counts as lost; 0: statement and lock timeout and
				      some    more, or, where these are unlimited, only the network's own limits */
	int64_t commit_timeout_ms; /* the same while a COMMIT is on its way, which nothing cancels; 0: 10 minutes */
	bool rehearsal; /* transactions are savepoints: the caller's own BEGIN goes around them, and its ROLLBACK */
	bool allow_unsafe_durability; /* else fsync, full_page_writes or synchronous_commit = off refuse the session */
};

struct pg_session;

enum { PG_MAX_PARAMS = 64 };

/* A prepared statement: name and sql are the caller's, what PostgreSQL described is filled in. */
struct pg_statement {
	const char *name; /* unique within the session, at most 62 bytes */
	const char *sql;
	uint16_t param_count, column_count;
	uint32_t param_types[PG_MAX_PARAMS]; /* type OIDs */
};

/* Connects, checks server version, durability and that the server is writable. ST_UNAVAILABLE: try again later;
 * ST_REFUSED: the server refused (sqlstate); ST_INVALID: conninfo is wrong, or the server must not be used. */
enum status pg_session_open(struct pg_session **ret, const struct pg_params *params, struct waiter *waiter,
			    struct error *err) MUST_USE;

/* Closes without waiting for anybody. NULL is fine. */
void pg_session_destroy(struct pg_session *s);

uint32_t pg_session_pid(const struct pg_session *s);
int pg_session_fd(const struct pg_session *s);

/* Looks whether the server ended an idle session (restart, failover, termination): ST_UNAVAILABLE with its last words.
 */
enum status pg_session_check(struct pg_session *s, struct error *err) MUST_USE;

/* Did a notification come on a channel that the session listens to, since the last question? What was read only; ask
 * after pg_session_check(), and after a flight. */
bool pg_session_notified(struct pg_session *s);

/* Prepares and describes n statements in one flight. On ST_REFUSED *ret_bad is the first one that is wrong. */
enum status pg_prepare(struct pg_session *s, struct pg_statement *statements, size_t n, size_t *ret_bad,
		       struct error *err) MUST_USE;

/* Parameters of one execution: parallel arrays as libpq takes them; formats 1 binary, 0 text; value NULL is SQL NULL.
 */
struct pg_values {
	int count;
	const char *const *data;
	const int *lengths;
	const int *formats;
};

/* Queues one execution of a prepared statement; results come in binary. values may be NULL: no parameters. */
enum status pg_send(struct pg_session *s, const char *name, const struct pg_values *values, struct error *err) MUST_USE;

/* Ends the flight and begins to send it. A backend that was only flushed counts as active and no server timeout would
 * end its transaction; a synced one idles in transaction. */
enum status pg_sync(struct pg_session *s, struct error *err) MUST_USE;

enum pg_kind {
	PG_ROWS,    /* rows, maybe none */
	PG_DONE,    /* a command tag without rows */
	PG_ERROR,   /* error is filled: the first failure of the flight, or of the session */
	PG_SKIPPED, /* not executed: one before it failed */
	PG_SYNC,    /* the flight is over */
};

struct pg_result {
	enum pg_kind kind;
	int rows;         /* that came back */
	int64_t affected; /* the number in the command tag: rows inserted, updated, deleted, selected; 0 without one */
	void *handle;     /* the session's, until the next pg_next() */
};

/* The next result of the flights sent, in order; waits for it. ST_OK with kind PG_ERROR: err is filled and the session
 * lives. ST_UNAVAILABLE: the session is gone. */
enum status pg_next(struct pg_session *s, struct pg_result *ret, struct error *err) MUST_USE;

/* A value of a PG_ROWS result, binary; NULL for SQL NULL. */
const char *pg_value(const struct pg_result *r, int row, int column, int *ret_len);
int64_t pg_value_int8(const struct pg_result *r, int row, int column); /* int8 or xid8 columns */

/* Command tag of PG_DONE and PG_ROWS, e.g. "COMMIT". */
const char *pg_tag(const struct pg_result *r);

/* Reads and drops results up to the end of the flight; err gets the first PG_ERROR's, its status is then ST_REFUSED. */
enum status pg_drain(struct pg_session *s, struct error *err) MUST_USE;

/* One statement, one flight: sends, syncs, reads all. For what is not the hot path. ST_REFUSED when it failed. result
 * may be NULL; its handle lives until the next call on the session. sql is not prepared; parameters are text. */
enum status pg_query(struct pg_session *s, const char *sql, const char *const *text_values, int count,
		     struct pg_result *ret, struct error *err) MUST_USE;

#endif

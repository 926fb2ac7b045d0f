/* BEGIN, COMMIT and ROLLBACK, and the three answers that a COMMIT can have. */
#ifndef PG_TRANSACTION_H
#define PG_TRANSACTION_H

#include "pg/session.h"

/* Queues BEGIN as part of the flight that follows; its result must be read first (pg_begin_read). */
enum status pg_begin_send(struct pg_session *s, struct error *err) MUST_USE;
enum status pg_begin_read(struct pg_session *s, struct error *err) MUST_USE;

/* BEGIN in a flight of its own, for what is not the hot path. */
enum status pg_begin(struct pg_session *s, struct error *err) MUST_USE;

/* Sends COMMIT with a Sync and reads its answer.
 * ST_OK        tag COMMIT, no warning: it is durable.
 * ST_REFUSED   tag ROLLBACK or severity ERROR: nothing happened (sqlstate set where the server gave one).
 * ST_IN_DOUBT  anything else: a warning, a FATAL, silence. Nothing is cancelled, nobody may be acknowledged. */
enum status pg_commit(struct pg_session *s, struct error *err) MUST_USE;

/* The same in two steps, where COMMIT rides in a flight with other statements: pg_commit_send() queues it without a
 * Sync; after all results before it are read, pg_commit_read() reads its answer and the Sync. */
enum status pg_commit_send(struct pg_session *s, struct error *err) MUST_USE;
enum status pg_commit_read(struct pg_session *s, struct error *err) MUST_USE;

/* Rolls back and leaves the session clean. Anything but ST_OK: destroy the session. */
enum status pg_rollback(struct pg_session *s, struct error *err) MUST_USE;

/* What became of a transaction whose COMMIT is in doubt, asked on a fresh session of the same server. */
enum pg_fate { PG_FATE_COMMITTED, PG_FATE_ABORTED, PG_FATE_IN_PROGRESS, PG_FATE_UNKNOWN /* too old */ };
enum status pg_transaction_fate(struct pg_session *s, uint64_t xid, enum pg_fate *ret, struct error *err) MUST_USE;

/* Waits until whatever this server shows as committed is as durable as a COMMIT makes it: a backend that was ended
 * while it waited for a standby leaves a transaction that is committed here alone. No transaction may be open. */
enum status pg_wait_durable(struct pg_session *s, struct error *err) MUST_USE;

#endif

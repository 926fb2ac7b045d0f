/* BEGIN, COMMIT, ROLLBACK. The promise of the whole program hangs on pg_commit_read(): it must never take for committed
 * what may not be, nor for refused what may have happened. */
#include "pg/transaction.h"
#include "pg/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Leaves nothing but a record in the write-ahead log, behind all that was committed before. */
static const char record_sql[] = "SELECT pg_catalog.pg_logical_emit_message(true, 'effectd', '')";
static const char fate_sql[] = "SELECT pg_catalog.pg_xact_status($1::pg_catalog.xid8)";

const struct pg_words pg_transactions = { "BEGIN", "COMMIT", "ROLLBACK", "BEGIN", "COMMIT", "ROLLBACK" };
const struct pg_words pg_savepoints = {
	"SAVEPOINT effectd", "RELEASE SAVEPOINT effectd", "ROLLBACK TO SAVEPOINT effectd", "SAVEPOINT", "RELEASE",
	"ROLLBACK",
};

enum status pg_begin_send(struct pg_session *s, struct error *err)
{
	return pg_send(s, PG_BEGIN, NULL, err);
}

enum status pg_begin_read(struct pg_session *s, struct error *err)
{
	struct pg_result r;
	enum status st = pg_next(s, &r, err);
	if (st != ST_OK)
		return st;
	if (r.kind == PG_ERROR)
		return ST_REFUSED;
	if (r.kind != PG_DONE || strcmp(pg_tag(&r), s->words->begun) != 0)
		return error_set(err, ST_INTERNAL, "BEGIN was not answered by BEGIN");
	if (s->warned) { /* inside another transaction it is only a warning, and its COMMIT would commit both */
		error_set(err, ST_INTERNAL, "BEGIN: %s", s->warning.text);
		return pg_session_lost(s, ST_INTERNAL, err);
	}
	return ST_OK;
}

enum status pg_begin(struct pg_session *s, struct error *err)
{
	enum status st = pg_begin_send(s, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_begin_read(s, err);
	return st == ST_OK ? pg_drain(s, err) : st;
}

enum status pg_commit_send(struct pg_session *s, struct error *err)
{
	enum status st = pg_send(s, PG_COMMIT, NULL, err);
	if (st == ST_OK)
		s->commit_due = s->pending;
	return st;
}

static enum status judge(struct pg_session *s, const struct pg_result *r, struct error *err)
{
	switch (r->kind) {
	case PG_ERROR:
		return ST_REFUSED;
	case PG_SKIPPED:
		return error_set(err, ST_REFUSED, "COMMIT was skipped after the error of a statement before it");
	case PG_DONE:
		if (!strcmp(pg_tag(r), s->words->rolled_back))
			return error_set(err, ST_REFUSED, "COMMIT was answered by ROLLBACK: a statement had failed");
		if (strcmp(pg_tag(r), s->words->committed) != 0)
			break;
		if (!s->warned)
			return ST_OK;
		/* Committed here, but what was promised with it (a synchronous standby) was given up. */
		error_set(err, ST_IN_DOUBT, "COMMIT came with a warning: %s", s->warning.text);
		if (err)
			memcpy(err->sqlstate, s->warning.sqlstate, sizeof(err->sqlstate));
		return ST_IN_DOUBT;
	default:
		break;
	}
	return error_set(err, ST_IN_DOUBT, "COMMIT had an answer that it cannot have");
}

enum status pg_commit_read(struct pg_session *s, struct error *err)
{
	struct pg_result r;
	enum status st = pg_next(s, &r, err);
	if (st != ST_OK)
		return pg_session_lost(s, st, err);
	st = judge(s, &r, err);
	if (st == ST_IN_DOUBT)
		return pg_session_lost(s, st, err);
	/* The answer stands whatever becomes of the session now; one that is lost here says so at its next use. */
	struct error after;
	if (pg_next(s, &r, &after) == ST_OK && r.kind != PG_SYNC)
		pg_session_lost(s, error_set(&after, ST_INTERNAL, "COMMIT did not end its flight"), &after);
	return st;
}

enum status pg_commit(struct pg_session *s, struct error *err)
{
	enum status st = pg_commit_send(s, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	return st == ST_OK ? pg_commit_read(s, err) : st;
}

enum status pg_rollback(struct pg_session *s, struct error *err)
{
	/* A Sync first where a flight is open: after an error in it the server would skip ROLLBACK too. */
	enum status st = s->unsynced ? pg_sync(s, err) : ST_OK;
	if (st == ST_OK)
		st = pg_send(s, PG_ROLLBACK, NULL, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	bool rolled_back = false;
	while (st == ST_OK && s->pending) {
		struct pg_result r;
		bool of_commit = s->commit_due == 1;
		st = pg_next(s, &r, err);
		if (st != ST_OK)
			break;
		if (of_commit && r.kind == PG_DONE && strcmp(pg_tag(&r), s->words->rolled_back) != 0)
			st = error_set(err, ST_IN_DOUBT, "ROLLBACK came too late: COMMIT was sent before it");
		if (s->pending == 1)
			rolled_back = r.kind == PG_DONE && !strcmp(pg_tag(&r), s->words->rolled_back);
	}
	if (st == ST_OK && !rolled_back)
		st = error_set(err, ST_INTERNAL, "ROLLBACK was not answered by ROLLBACK");
	return st == ST_OK ? ST_OK : pg_session_lost(s, st, err);
}

enum status pg_transaction_fate(struct pg_session *s, uint64_t xid, enum pg_fate *ret, struct error *err)
{
	static const struct {
		const char *answer;
		enum pg_fate fate;
	} fates[] = {
		{ "committed", PG_FATE_COMMITTED },
		{ "aborted", PG_FATE_ABORTED },
		{ "in progress", PG_FATE_IN_PROGRESS },
	};
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, xid);
	struct pg_result r;
	struct error e;
	enum status st = pg_query(s, fate_sql, (const char *const[]){ text }, 1, &r, &e);
	*ret = PG_FATE_UNKNOWN;
	/* 22023: in the future. This server never got that far: another timeline, on which the claims tell. */
	if (st == ST_REFUSED && !strcmp(e.sqlstate, "22023"))
		return ST_OK;
	if (st != ST_OK && err)
		*err = e;
	if (st != ST_OK)
		return st;
	int len = 0;
	const char *answer = r.rows == 1 ? pg_value(&r, 0, 0, &len) : NULL;
	for (size_t i = 0; answer && i < ARRAY_LEN(fates); i++)
		if ((size_t)len == strlen(fates[i].answer) && !memcmp(answer, fates[i].answer, (size_t)len))
			*ret = fates[i].fate;
	return ST_OK;
}

enum status pg_wait_durable(struct pg_session *s, struct error *err)
{
	enum status st = pg_begin_send(s, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_begin_read(s, err);
	if (st == ST_OK)
		st = pg_drain(s, err);
	if (st == ST_OK)
		st = pg_query(s, record_sql, NULL, 0, NULL, err);
	if (st == ST_OK)
		st = pg_commit(s, err);
	/* Whether this one committed does not matter, only that it did not say so. */
	return st == ST_IN_DOUBT ? error_set(err, ST_UNAVAILABLE, "what was committed is not known to be durable") : st;
}

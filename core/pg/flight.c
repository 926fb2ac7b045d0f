/* Flights: statements out, a Sync, results in. The hot path.
 *
 * Nothing here blocks in libpq. While a result is awaited, the socket is read whenever it can be read and written
 * whenever something is left to write: a server that stops reading until its own answers are read is never waited for
 * (the pipeline's write/read deadlock). Every wait has a deadline of ours, and no answer is read twice or skipped. */
#include "pg/private.h"

#include "base/clock.h"
#include <endian.h>
#include <string.h>

enum status pg_session_gone(struct error *err)
{
	return error_set(err, ST_UNAVAILABLE, "the session with PostgreSQL is over");
}

enum status pg_session_lost(struct pg_session *s, enum status status, struct error *err)
{
	s->dead = true;
	/* After an error in its own flight the server skips COMMIT; otherwise nobody here knows. */
	if (s->commit_due && !s->failed)
		status = ST_IN_DOUBT;
	if (err)
		err->status = status;
	return status;
}

/* Reads what libpq still holds of a closed connection, for the server's last words. Nothing else of it may be believed:
 * with the connection libpq dropped its list of what was asked, and takes rows for a command that is done. */
static void hear_last_words(struct pg_session *s)
{
	for (unsigned i = 0; i <= 2 * s->pending && !PQisBusy(s->conn) && !s->last_words.fatal; i++) {
		CLEANUP(pg_result_clear) PGresult *res = PQgetResult(s->conn);
		struct error said = { 0 };
		if (res && PQresultStatus(res) == PGRES_FATAL_ERROR)
			pg_report_result(res, ST_UNAVAILABLE, &said);
		if (said.fatal)
			s->last_words = said;
	}
}

enum status pg_session_broken(struct pg_session *s, struct error *err)
{
	bool closed = PQstatus(s->conn) == CONNECTION_BAD;
	if (closed)
		hear_last_words(s);
	if (s->last_words.fatal) {
		if (err)
			*err = s->last_words;
		return pg_session_lost(s, ST_UNAVAILABLE, err);
	}
	enum status status = closed ? ST_UNAVAILABLE : ST_INTERNAL;
	pg_report_connection(PQerrorMessage(s->conn), status,
			     closed ? "the connection to PostgreSQL broke: " : "libpq failed: ", err);
	return pg_session_lost(s, status, err);
}

static enum status wait_for_server(struct pg_session *s, bool to_write, struct error *err)
{
	/* Any sign of life starts the clock again: one answer may take longer than a deadline. */
	int64_t patience_ms = s->commit_due ? s->commit_ms : s->answer_ms;
	int64_t deadline_ms = patience_ms == WAIT_FOREVER ? WAIT_FOREVER : clock_mono_ms() + patience_ms;
	int ready = s->waiter->wait(s->waiter, PQsocket(s->conn), to_write ? POLLIN | POLLOUT : POLLIN, deadline_ms);
	if (ready > 0)
		return ST_OK;
	enum status st = ready < 0 ? error_set(err, ST_STOPPED, "stopped while PostgreSQL was working")
				   : error_set(err, ST_UNAVAILABLE, "PostgreSQL gave no answer for %.3g s",
					       (double)patience_ms / 1000);
	return pg_session_lost(s, st, err);
}

enum status pg_session_await(struct pg_session *s, struct error *err)
{
	if (PQstatus(s->conn) == CONNECTION_BAD)
		return pg_session_broken(s, err);
	while (PQisBusy(s->conn)) {
		int unwritten = PQflush(s->conn);
		if (unwritten < 0)
			return pg_session_broken(s, err);
		enum status st = wait_for_server(s, unwritten > 0, err);
		if (st != ST_OK)
			return st;
		if (!PQconsumeInput(s->conn))
			return pg_session_broken(s, err);
	}
	return ST_OK;
}

enum status pg_send(struct pg_session *s, const char *name, const struct pg_values *values, struct error *err)
{
	static const struct pg_values none;
	const struct pg_values *v = values ? values : &none;
	if (s->dead)
		return pg_session_gone(err);
	if (!PQsendQueryPrepared(s->conn, name, v->count, v->data, v->lengths, v->formats, 1))
		return pg_session_broken(s, err);
	s->pending++;
	s->unsynced = true;
	return ST_OK;
}

enum status pg_sync(struct pg_session *s, struct error *err)
{
	if (s->dead)
		return pg_session_gone(err);
	if (!PQpipelineSync(s->conn))
		return pg_session_broken(s, err);
	s->pending++;
	s->syncs++;
	s->unsynced = false;
	return ST_OK;
}

/* The next PGresult. libpq puts a NULL behind the results of each statement, which says nothing new; a second one in a
 * row means that it expects nothing any more while we do. */
static enum status take(struct pg_session *s, PGresult **ret, struct error *err)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		enum status st = pg_session_await(s, err);
		if (st != ST_OK)
			return st;
		*ret = PQgetResult(s->conn);
		if (*ret)
			return ST_OK;
	}
	return pg_session_broken(s, err);
}

static enum status take_error(struct pg_session *s, struct error *err)
{
	struct error said;
	pg_report_result(s->current, ST_REFUSED, &said);
	if (!said.sqlstate[0]) /* libpq's own words, not the server's */
		return pg_session_broken(s, err);
	if (err)
		*err = said;
	if (said.fatal)
		return pg_session_lost(s, ST_UNAVAILABLE, err);
	s->failed = true;
	return ST_OK;
}

enum status pg_next(struct pg_session *s, struct pg_result *ret, struct error *err)
{
	PQclear(s->current);
	s->current = NULL;
	if (s->dead)
		return pg_session_gone(err);
	if (!s->syncs)
		return error_set(err, ST_INTERNAL, "a result was asked for that no flight will bring");

	s->warned = false;
	enum status st = take(s, &s->current, err);
	if (st != ST_OK)
		return st;
	s->pending--;
	struct pg_result r = { .kind = PG_DONE, .handle = s->current };
	ExecStatusType status = PQresultStatus(s->current);
	switch (status) {
	case PGRES_TUPLES_OK:
		r.kind = PG_ROWS;
		r.rows = PQntuples(s->current);
		r.affected = strtoll(PQcmdTuples(s->current), NULL, 10);
		break;
	case PGRES_COMMAND_OK:
	case PGRES_EMPTY_QUERY:
		r.affected = strtoll(PQcmdTuples(s->current), NULL, 10); /* "" where the tag has no number */
		break;
	case PGRES_PIPELINE_ABORTED:
		r.kind = PG_SKIPPED;
		break;
	case PGRES_PIPELINE_SYNC:
		r.kind = PG_SYNC;
		s->syncs--;
		s->failed = false;
		break;
	case PGRES_FATAL_ERROR:
		r.kind = PG_ERROR;
		st = take_error(s, err);
		if (st != ST_OK)
			return st;
		break;
	default:
		error_set(err, ST_INTERNAL, "PostgreSQL answered with %s, which nothing here asks for",
			  PQresStatus(status));
		return pg_session_lost(s, ST_INTERNAL, err);
	}
	if (s->commit_due)
		s->commit_due--;
	*ret = r;
	return ST_OK;
}

enum status pg_drain(struct pg_session *s, struct error *err)
{
	enum status first = ST_OK;
	for (;;) {
		struct pg_result r = { .kind = PG_SYNC };
		struct error e;
		enum status st = pg_next(s, &r, &e);
		bool failed = st == ST_OK && r.kind == PG_ERROR && first == ST_OK;
		if (err && (failed || st != ST_OK))
			*err = e;
		if (st != ST_OK)
			return st;
		if (failed)
			first = ST_REFUSED;
		if (r.kind == PG_SYNC)
			return first;
	}
}

const char *pg_value(const struct pg_result *r, int row, int column, int *ret_len)
{
	if (PQgetisnull(r->handle, row, column))
		return NULL;
	if (ret_len)
		*ret_len = PQgetlength(r->handle, row, column);
	return PQgetvalue(r->handle, row, column);
}

int64_t pg_value_int8(const struct pg_result *r, int row, int column)
{
	uint64_t big_endian = 0;
	if (PQgetlength(r->handle, row, column) == sizeof(big_endian))
		memcpy(&big_endian, PQgetvalue(r->handle, row, column), sizeof(big_endian));
	return (int64_t)be64toh(big_endian);
}

const char *pg_tag(const struct pg_result *r)
{
	return PQcmdStatus(r->handle);
}

/* What is not the hot path: preparing and describing, single queries, scripts. */
#include "pg/private.h"

static enum status send_prepare(struct pg_session *s, const struct pg_statement *statement, struct error *err)
{
	if (!PQsendPrepare(s->conn, statement->name, statement->sql, 0, NULL) ||
	    !PQsendDescribePrepared(s->conn, statement->name))
		return pg_session_broken(s, err);
	s->pending += 2;
	s->unsynced = true;
	return ST_OK;
}

static enum status take_description(struct pg_statement *statement, const PGresult *res, struct error *err)
{
	int params = PQnparams(res);
	if (params > PG_MAX_PARAMS)
		return error_set(err, ST_REFUSED, "it has %d parameters, and %d are possible", params, PG_MAX_PARAMS);
	statement->param_count = (uint16_t)params;
	statement->column_count = (uint16_t)PQnfields(res);
	for (int i = 0; i < params; i++)
		statement->param_types[i] = PQparamtype(res, i);
	return ST_OK;
}

enum status pg_prepare(struct pg_session *s, struct pg_statement *statements, size_t n, size_t *ret_bad,
		       struct error *err)
{
	if (s->dead)
		return pg_session_gone(err);
	enum status st = ST_OK, first = ST_OK;
	for (size_t i = 0; i < n && st == ST_OK; i++)
		st = send_prepare(s, &statements[i], err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st != ST_OK)
		return st;

	/* Two answers a statement: prepared, described. */
	for (size_t answer = 0;; answer++) {
		struct pg_result r;
		struct error e;
		st = pg_next(s, &r, &e);
		bool gone = st != ST_OK;
		if (!gone && r.kind == PG_SYNC)
			return first;
		if (!gone && r.kind == PG_ERROR)
			st = ST_REFUSED;
		else if (!gone && r.kind == PG_DONE && answer % 2)
			st = take_description(&statements[answer / 2], r.handle, &e);
		if (st != ST_OK && (gone || first == ST_OK)) {
			first = st;
			*ret_bad = answer / 2;
			if (err)
				*err = e;
		}
		if (gone)
			return st;
	}
}

enum status pg_query(struct pg_session *s, const char *sql, const char *const *text_values, int count,
		     struct pg_result *ret, struct error *err)
{
	if (s->dead)
		return pg_session_gone(err);
	if (!PQsendQueryParams(s->conn, sql, count, NULL, text_values, NULL, NULL, 1))
		return pg_session_broken(s, err);
	s->pending++;
	struct pg_result r;
	enum status st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_next(s, &r, err);
	if (st != ST_OK)
		return st;

	/* Kept out of pg_next()'s reach while the Sync is read, then the session's again. */
	PGresult *answer = s->current;
	s->current = NULL;
	struct error e;
	st = pg_drain(s, &e);
	PQclear(s->current);
	s->current = answer;
	if (st != ST_OK && err)
		*err = e;
	if (st != ST_OK)
		return st;
	if (r.kind == PG_ERROR)
		return ST_REFUSED;
	if (ret)
		*ret = r;
	return ST_OK;
}

/* One result of a script. Everything up to the end must be read, whatever it says. */
static enum status judge(struct pg_session *s, const PGresult *res, int *ret_position, struct error *err)
{
	switch (PQresultStatus(res)) {
	case PGRES_COMMAND_OK:
	case PGRES_TUPLES_OK:
	case PGRES_EMPTY_QUERY:
		return ST_OK;
	case PGRES_FATAL_ERROR:
		break;
	default: /* COPY would wait for us for ever */
		error_set(err, ST_INTERNAL, "a script answered with %s", PQresStatus(PQresultStatus(res)));
		return pg_session_lost(s, ST_INTERNAL, err);
	}
	if (!PQresultErrorField(res, PG_DIAG_SQLSTATE))
		return pg_session_broken(s, err);
	struct error said;
	pg_report_result(res, ST_REFUSED, &said);
	if (err)
		*err = said;
	if (said.fatal)
		return pg_session_lost(s, ST_UNAVAILABLE, err);
	const char *position = PQresultErrorField(res, PG_DIAG_STATEMENT_POSITION);
	*ret_position = position ? atoi(position) : 0;
	return ST_REFUSED;
}

enum status pg_script(struct pg_session *s, const char *sql, int *ret_position, struct error *err)
{
	*ret_position = 0;
	if (s->dead)
		return pg_session_gone(err);
	if (!PQexitPipelineMode(s->conn) || !PQsendQuery(s->conn, sql))
		return pg_session_broken(s, err);
	enum status outcome = ST_OK;
	while (!s->dead) {
		enum status st = pg_session_await(s, err);
		if (st != ST_OK)
			return st;
		CLEANUP(pg_result_clear) PGresult *res = PQgetResult(s->conn);
		if (!res && !PQenterPipelineMode(s->conn))
			return pg_session_broken(s, err);
		if (!res)
			break;
		st = judge(s, res, ret_position, err);
		if (st != ST_OK)
			outcome = st;
	}
	return outcome;
}

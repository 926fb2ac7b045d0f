#include "source/journal.h"
#include <string.h>

static const char enter_sql[] =
	"WITH message AS (SELECT sha256(sha256($2::bytea) || $3::bytea) AS fingerprint),"
	" entered AS (INSERT INTO effectd.attempts AS a (consumer, fingerprint, crashes)"
	"  SELECT $1, fingerprint, 1 FROM message"
	"  ON CONFLICT (consumer, fingerprint) DO UPDATE SET crashes = a.crashes + 1 RETURNING crashes)"
	" SELECT (crashes - 1)::int8, (SELECT count(*) FROM effectd.parked_messages AS p, message"
	"  WHERE p.consumer = $1 AND p.fingerprint = message.fingerprint AND p.reason = 'crash')"
	" FROM entered";

static const char leave_sql[] = "DELETE FROM effectd.attempts"
				" WHERE consumer = $1 AND fingerprint = sha256(sha256($2::bytea) || $3::bytea)";

const struct pg_statement journal_statements[JOURNAL_STATEMENT_COUNT] = {
	{ .name = "journal_enter", .sql = enter_sql },
	{ .name = "journal_leave", .sql = leave_sql },
};

static enum status send(struct pg_session *s, const char *statement, const char *consumer, const struct message *m,
			struct arena *arena, struct error *err)
{
	const struct str identity = park_identity(m, arena);
	if (!identity.data)
		return error_oom(err);
	const struct pg_values values = {
		.count = 3,
		.data = (const char *const[]){ consumer, m->body.data ? m->body.data : "", identity.data },
		.lengths = (const int[]){ (int)strlen(consumer), (int)m->body.len, (int)identity.len },
		.formats = (const int[]){ 1, 1, 1 },
	};
	return pg_send(s, statement, &values, err);
}

enum status journal_enter(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			  bool *ret_culprit, struct error *err)
{
	enum status st = send(s, "journal_enter", consumer, m, arena, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	struct pg_result result;
	if (st == ST_OK)
		st = pg_next(s, &result, err);
	if (st != ST_OK)
		return st;
	bool culprit = false;
	if (result.kind == PG_ROWS && result.rows == 1)
		culprit = pg_value_int8(&result, 0, 0) >= JOURNAL_CRASHES || pg_value_int8(&result, 0, 1) > 0;
	const bool refused = result.kind == PG_ERROR;
	struct error ignored;
	st = pg_drain(s, refused ? &ignored : err);
	if (st != ST_OK)
		return st;
	*ret_culprit = culprit;
	return refused ? ST_REFUSED : ST_OK;
}

enum status journal_leave_send(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			       struct error *err)
{
	return send(s, "journal_leave", consumer, m, arena, err);
}

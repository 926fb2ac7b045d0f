#include "source/journal.h"
#include <string.h>

/* A suspect that is not let in is looked at, not counted. A crash is a crash also when the message is not known here
 * any more but parked for it. */
static const char enter_sql[] =
	"WITH message AS (SELECT sha256(sha256($2::bytea) || $3::bytea) AS fingerprint),"
	" entered AS (INSERT INTO effectd.attempts AS a (consumer, fingerprint, crashes)"
	"  SELECT $1, fingerprint, 1 FROM message"
	"  ON CONFLICT (consumer, fingerprint) DO UPDATE SET crashes = a.crashes + 1"
	"   WHERE $4 OR a.crashes NOT BETWEEN 1 AND $5 - 1"
	"  RETURNING crashes)"
	" SELECT fingerprint, (SELECT crashes FROM entered)::int8,"
	"  EXISTS (SELECT FROM effectd.parked_messages AS p"
	"   WHERE p.consumer = $1 AND p.fingerprint = message.fingerprint AND p.reason = 'crash')"
	" FROM message";
enum { FINGERPRINT, ENTERED, PARKED };

static const char leave_sql[] = "WITH gone AS (DELETE FROM effectd.attempts"
				"  WHERE consumer = $1 AND fingerprint = $2 AND crashes <= 1)"
				" UPDATE effectd.attempts SET crashes = crashes - 1"
				"  WHERE consumer = $1 AND fingerprint = $2 AND crashes > 1";

static const char forget_sql[] = "DELETE FROM effectd.attempts WHERE consumer = $1 AND fingerprint = $2";

static const char sweep_sql[] = "DELETE FROM effectd.attempts"
				" WHERE consumer = $1 AND first_seen_at < now() - interval '1 day'";

const struct pg_statement journal_statements[JOURNAL_STATEMENT_COUNT] = {
	{ .name = "journal_enter", .sql = enter_sql },
	{ .name = "journal_leave", .sql = leave_sql },
	{ .name = "journal_forget", .sql = forget_sql },
};

static enum status enter_send(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			      bool suspects, struct error *err)
{
	const struct str identity = park_identity(m, arena);
	if (!identity.data)
		return error_oom(err);
	const char let_in = (char)suspects, crashes[4] = { 0, 0, 0, JOURNAL_CRASHES }; /* bool and int4, binary */
	const struct pg_values values = {
		.count = 5,
		.data = (const char *const[]){ consumer, m->body.data ? m->body.data : "", identity.data, &let_in,
					       crashes },
		.lengths = (const int[]){ (int)strlen(consumer), (int)m->body.len, (int)identity.len, sizeof(let_in),
					  sizeof(crashes) },
		.formats = (const int[]){ 1, 1, 1, 1, 1 },
	};
	const enum status st = pg_send(s, "journal_enter", &values, err);
	return st == ST_OK ? pg_sync(s, err) : st;
}

static enum status enter_read(const struct pg_result *r, struct journal_entry *entry, enum entry *ret,
			      struct error *err)
{
	int len = 0, parked_len = 0;
	const char *fingerprint = pg_value(r, 0, FINGERPRINT, &len), *parked = pg_value(r, 0, PARKED, &parked_len);
	if (r->kind != PG_ROWS || r->rows != 1 || !fingerprint || len != sizeof(entry->fingerprint) || !parked)
		return error_set(err, ST_INTERNAL, "effectd.attempts gave an answer of another form");
	memcpy(entry->fingerprint, fingerprint, sizeof(entry->fingerprint));
	entry->counted = pg_value(r, 0, ENTERED, &len) != NULL;
	if (*parked || (entry->counted && pg_value_int8(r, 0, ENTERED) > JOURNAL_CRASHES))
		*ret = ENTRY_CULPRIT;
	else
		*ret = entry->counted ? ENTRY_GO : ENTRY_SUSPECT;
	return ST_OK;
}

enum status journal_enter(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			  bool suspects, struct journal_entry *entry, enum entry *ret, struct error *err)
{
	struct pg_result result;
	enum status st = enter_send(s, consumer, m, arena, suspects, err);
	if (st == ST_OK)
		st = pg_next(s, &result, err);
	if (st != ST_OK)
		return st;
	const enum status answer = result.kind == PG_ERROR ? ST_REFUSED : enter_read(&result, entry, ret, err);
	struct error ignored;
	st = pg_drain(s, answer == ST_OK ? err : &ignored);
	return st == ST_OK || st == ST_REFUSED ? answer : st;
}

static enum status send(struct pg_session *s, const char *statement, const char *consumer,
			const struct journal_entry *entry, struct error *err)
{
	const struct pg_values values = {
		.count = 2,
		.data = (const char *const[]){ consumer, entry->fingerprint },
		.lengths = (const int[]){ (int)strlen(consumer), sizeof(entry->fingerprint) },
		.formats = (const int[]){ 1, 1 },
	};
	return pg_send(s, statement, &values, err);
}

enum status journal_leave(struct pg_session *s, const char *consumer, struct journal_entry *entry, struct error *err)
{
	enum status st = send(s, "journal_leave", consumer, entry, err);
	if (st == ST_OK)
		st = pg_sync(s, err);
	if (st == ST_OK)
		st = pg_drain(s, err);
	if (st == ST_OK)
		entry->counted = false;
	return st;
}

enum status journal_forget_send(struct pg_session *s, const char *consumer, const struct journal_entry *entry,
				struct error *err)
{
	return send(s, "journal_forget", consumer, entry, err);
}

enum status journal_sweep(struct pg_session *s, const char *consumer, struct error *err)
{
	return pg_query(s, sweep_sql, (const char *const[]){ consumer }, 1, NULL, err);
}

#include "relay/outbox.h"
#include "base/clock.h"
#include "base/fault.h"
#include "pg/binary.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The plans of a queue must not hang on statistics, which are always of another hour: one row of one kind in an index
 * that is nearly empty, beside millions that are sent. Every access is by an index, every join a loop over few rows. */
static const char planner_sql[] = "SELECT pg_catalog.set_config(name, 'off', false) FROM pg_catalog.unnest("
				  "ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_bitmapscan',"
				  " 'enable_sort', 'jit']) AS name";

static const char listen_sql[] = "LISTEN " RELAY_CHANNEL;

/* $1 kind, $2 how many, $3 lease in ms, $4 bytes above which a key needs a digest, $5 wants an envelope.
 *
 * `seen` is the row as this statement's snapshot has it, `due` as it is now that it is locked: where they differ,
 * somebody has just made the row due after the one before it ended, which the snapshot does not show yet. Such a row is
 * left alone. */
static const char lease_sql[] =
	"WITH due AS MATERIALIZED ("
	" SELECT id, ordering_key, next_attempt_at FROM effectd.outbox"
	" WHERE status = 'pending' AND kind = $1 AND next_attempt_at <= now()"
	"  AND (leased_until IS NULL OR leased_until <= now())"
	" ORDER BY next_attempt_at, id LIMIT $2 FOR UPDATE SKIP LOCKED"
	"), judged AS MATERIALIZED ("
	" SELECT due.id, before.id IS NULL AS free, CASE"
	"  WHEN before.leased_until > now() THEN before.leased_until"
	"  WHEN before.next_attempt_at > now() THEN before.next_attempt_at"
	"  ELSE now() + $3::int8 * interval '1 millisecond' END AS later"
	" FROM due LEFT JOIN LATERAL ("
	"  SELECT id, leased_until, next_attempt_at FROM effectd.outbox"
	"  WHERE status = 'pending' AND ordering_key = due.ordering_key AND id < due.id ORDER BY id LIMIT 1"
	" ) AS before ON due.ordering_key IS NOT NULL"
	" WHERE due.ordering_key IS NULL OR EXISTS ("
	"  SELECT FROM effectd.outbox AS seen WHERE seen.id = due.id AND seen.next_attempt_at = due.next_attempt_at)"
	") UPDATE effectd.outbox AS o SET"
	"  leased_until = CASE WHEN judged.free THEN now() + $3::int8 * interval '1 millisecond' ELSE o.leased_until "
	"END,"
	"  attempts = o.attempts + judged.free::int4,"
	"  next_attempt_at = CASE WHEN judged.free THEN o.next_attempt_at ELSE judged.later END"
	" FROM judged WHERE o.id = judged.id"
	" RETURNING o.id, judged.free, o.leased_until, o.attempts::int8, o.idempotency_key,"
	"  CASE WHEN octet_length(o.idempotency_key) > $4 THEN encode(sha256(convert_to(o.idempotency_key, 'UTF8')), "
	"'hex') END,"
	"  CASE WHEN NOT judged.free THEN NULL WHEN $5 THEN jsonb_build_object('id', o.id, 'kind', o.kind,"
	"   'consumer', o.consumer, 'message_key', o.message_key, 'idempotency_key', o.idempotency_key,"
	"   'created_at', o.created_at, 'payload', o.payload)::text ELSE o.payload::text END,"
	"  o.headers::text, o.ordering_key";
enum { ID, FREE, LEASED_UNTIL, ATTEMPTS, KEY, DIGEST, BODY, HEADERS, ORDERING_KEY };

/* Arrays: ids, leases, what the row becomes, ms until the next attempt (null: as it was, and the attempt that was
 * counted by the lease did not happen), why. */
static const char mark_sql[] =
	"UPDATE effectd.outbox AS o SET status = m.status, leased_until = NULL,"
	"  sent_at = CASE m.status WHEN 'sent' THEN now() END,"
	"  attempts = o.attempts - (m.delay_ms IS NULL)::int4,"
	"  next_attempt_at = coalesce(now() + m.delay_ms * interval '1 millisecond', o.next_attempt_at),"
	"  last_error = CASE WHEN m.delay_ms IS NULL THEN o.last_error ELSE m.error END"
	" FROM unnest($1::int8[], $2::timestamptz[], $3::text[], $4::int8[], $5::text[])"
	"  AS m (id, lease, status, delay_ms, error)"
	" WHERE o.id = m.id AND o.leased_until = m.lease AND o.status = 'pending'";

/* The first pending row of each key, whatever it waited for. Also where it is due already: whoever is about to put it
 * off behind the row that has just ended must find it changed. */
static const char release_sql[] =
	"UPDATE effectd.outbox AS o SET next_attempt_at = now()"
	" FROM unnest($1::text[]) AS key CROSS JOIN LATERAL ("
	"  SELECT id FROM effectd.outbox WHERE ordering_key = key AND status = 'pending' ORDER BY id LIMIT 1) AS next"
	" WHERE o.id = next.id AND (o.leased_until IS NULL OR o.leased_until <= now())";

static const char count_sql[] = "SELECT (SELECT count(*) FROM effectd.outbox WHERE kind = $1 AND status = 'pending'),"
				" (SELECT count(*) FROM effectd.outbox WHERE kind = $1 AND status = 'dead'),"
				" (SELECT extract(epoch FROM min(created_at))::int8 FROM effectd.outbox WHERE kind = "
				"$1 AND status = 'pending')";

enum { PRUNE_ROWS = 2000 /* a few ms; calls under way are served meanwhile */ };
static const char prune_sql[] =
	"DELETE FROM effectd.outbox WHERE id IN (SELECT id FROM effectd.outbox"
	" WHERE status = 'sent' AND kind = $1 AND sent_at < now() - $2::int8 * interval '1 millisecond'"
	" ORDER BY sent_at LIMIT 2000 FOR UPDATE SKIP LOCKED)";

enum { OID_INT8 = 20, OID_TIMESTAMPTZ = 1184 };

enum status outbox_attach(struct pg_session *s, struct error *err)
{
	struct pg_statement statements[] = {
		{ .name = "lease", .sql = lease_sql },
		{ .name = "mark", .sql = mark_sql },
		{ .name = "release", .sql = release_sql },
	};
	size_t bad = 0;
	enum status st = pg_query(s, planner_sql, NULL, 0, NULL, err);
	if (st == ST_OK)
		st = pg_prepare(s, statements, ARRAY_LEN(statements), &bad, err);
	/* Before the first look: what commits after it is told, what committed before it is seen. */
	return st == ST_OK ? pg_query(s, listen_sql, NULL, 0, NULL, err) : st;
}

/* --- marks --- */

static const char *status_of(enum fate fate)
{
	return fate == FATE_SENT ? "sent" : fate == FATE_DEAD ? "dead" : "pending";
}

/* The parameters of one statement, in the arena. */
struct arrays {
	struct str *texts, *errors, *keys;
	int64_t *ids, *leases, *delays;
	bool *no_delay;
	size_t count, key_count;
};

static bool arrays_fill(struct arrays *a, struct arena *arena, const struct rows *marks)
{
	const size_t n = marks->count;
	*a = (struct arrays){
		.texts = arena_alloc(arena, n * sizeof(struct str)),
		.errors = arena_alloc(arena, n * sizeof(struct str)),
		.keys = arena_alloc(arena, n * sizeof(struct str)),
		.ids = arena_alloc(arena, n * sizeof(int64_t)),
		.leases = arena_alloc(arena, n * sizeof(int64_t)),
		.delays = arena_alloc(arena, n * sizeof(int64_t)),
		.no_delay = arena_alloc(arena, n * sizeof(bool)),
	};
	if (!a->texts || !a->errors || !a->keys || !a->ids || !a->leases || !a->delays || !a->no_delay)
		return false;
	for (const struct row *row = marks->first; row; row = row->next) {
		const size_t i = a->count++;
		const char *status = status_of(row->fate);
		a->ids[i] = row->id;
		a->leases[i] = row->lease;
		a->texts[i] = (struct str){ status, strlen(status) };
		a->no_delay[i] = row->fate == FATE_BACK;
		a->delays[i] = row->fate == FATE_RETRY ? row->delay_ms : 0;
		a->errors[i] = (struct str){ row->error, row->error ? strlen(row->error) : 0 };
		if (row->ordering_key.data && (row->fate == FATE_SENT || row->fate == FATE_DEAD))
			a->keys[a->key_count++] = row->ordering_key;
	}
	return true;
}

static enum status send_arrays(struct pg_session *s, const char *statement, const struct str *arrays, int count,
			       struct error *err)
{
	const char *data[8];
	int lengths[8], formats[8];
	for (int i = 0; i < count; i++) {
		data[i] = arrays[i].data;
		lengths[i] = (int)arrays[i].len;
		formats[i] = 1;
	}
	return pg_send(s, statement, &(struct pg_values){ count, data, lengths, formats }, err);
}

static enum status send_marks(struct pg_session *s, struct arena *arena, struct outbox_exchange *x, struct error *err)
{
	struct arrays a;
	struct str p[5], keys;
	if (!arrays_fill(&a, arena, x->marks) || !pg_int8_array(arena, OID_INT8, a.ids, NULL, a.count, &p[0]) ||
	    !pg_int8_array(arena, OID_TIMESTAMPTZ, a.leases, NULL, a.count, &p[1]) ||
	    !pg_text_array(arena, a.texts, a.count, &p[2]) ||
	    !pg_int8_array(arena, OID_INT8, a.delays, a.no_delay, a.count, &p[3]) ||
	    !pg_text_array(arena, a.errors, a.count, &p[4]) || !pg_text_array(arena, a.keys, a.key_count, &keys))
		return error_oom(err);
	x->released = a.key_count > 0;
	enum status st = send_arrays(s, "mark", p, 5, err);
	if (st == ST_OK && x->released)
		st = send_arrays(s, "release", &keys, 1, err);
	return st;
}

/* --- leases --- */

static enum status send_lease(struct pg_session *s, const struct outbox_exchange *x, const struct outbox_lease *lease,
			      struct error *err)
{
	char most[8], ms[8], key_most[4];
	const char envelope = (char)x->envelope;
	pg_put64(most, lease->most);
	pg_put64(ms, (uint64_t)x->lease_ms);
	pg_put32(key_most, (uint32_t)x->key_most);
	const char *const data[] = { lease->kind->name, most, ms, key_most, &envelope };
	const int lengths[] = { (int)strlen(lease->kind->name), sizeof(most), sizeof(ms), sizeof(key_most), 1 };
	static const int formats[] = { 1, 1, 1, 1, 1 };
	return pg_send(s, "lease", &(struct pg_values){ ARRAY_LEN(lengths), data, lengths, formats }, err);
}

static struct str copy(char **at, const struct pg_result *r, int i, int column)
{
	int len = 0;
	const char *value = pg_value(r, i, column, &len);
	if (!value)
		return (struct str){ NULL, 0 };
	struct str s = { *at, (size_t)len };
	memcpy(*at, value, s.len);
	(*at)[s.len] = '\0';
	*at += s.len + 1;
	return s;
}

static struct row *read_row(const struct pg_result *r, int i, struct relay_kind *kind, int64_t until_ms)
{
	static const int texts[] = { KEY, DIGEST, BODY, HEADERS, ORDERING_KEY };
	size_t bytes = sizeof(struct row);
	for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
		int len = 0;
		if (pg_value(r, i, texts[t], &len))
			bytes += (size_t)len + 1;
	}
	struct row *row = malloc(bytes);
	if (!row)
		return NULL;
	*row = (struct row){
		.kind = kind,
		.id = pg_value_int8(r, i, ID),
		.lease = pg_value_int8(r, i, LEASED_UNTIL),
		.until_ms = until_ms,
		.attempts = pg_value_int8(r, i, ATTEMPTS),
		.bytes = bytes,
	};
	char *at = (char *)(row + 1);
	row->key = copy(&at, r, i, KEY);
	row->digest = copy(&at, r, i, DIGEST);
	row->body = copy(&at, r, i, BODY);
	row->headers = copy(&at, r, i, HEADERS);
	row->ordering_key = copy(&at, r, i, ORDERING_KEY);
	return row;
}

static enum status read_leased(const struct pg_result *r, struct outbox_lease *lease, int64_t until_ms,
			       struct rows *ret, struct error *err)
{
	for (int i = 0; i < r->rows; i++) {
		if (!*pg_value(r, i, FREE, NULL)) {
			lease->late++;
			continue;
		}
		struct row *row = read_row(r, i, lease->kind, until_ms);
		if (!row)
			return error_oom(err);
		rows_add(ret, row);
		lease->taken++;
	}
	return ST_OK;
}

/* --- the flight --- */

static enum status send_all(struct pg_session *s, struct arena *arena, struct outbox_exchange *x, struct error *err)
{
	enum status st = x->marks->count > 0 ? send_marks(s, arena, x, err) : ST_OK;
	for (size_t i = 0; st == ST_OK && i < x->lease_count; i++)
		if (x->leases[i].most > 0)
			st = send_lease(s, x, &x->leases[i], err);
	return st == ST_OK ? pg_sync(s, err) : st;
}

static enum status next(struct pg_session *s, struct pg_result *r, enum status first, struct error *err)
{
	struct error later;
	struct error *const to = first == ST_OK ? err : &later;
	const enum status st = pg_next(s, r, to);
	if (st != ST_OK && to == &later && err)
		*err = later;
	return st;
}

/* Reads all up to the Sync, whatever fails first. */
static enum status read_all(struct pg_session *s, struct outbox_exchange *x, int64_t until_ms, struct error *err)
{
	enum status first = ST_OK;
	struct pg_result r = { .kind = PG_SYNC };
	size_t due = x->marks->count > 0 ? 1 + x->released : 0, lease = 0;
	for (size_t answer = 0;; answer++) {
		const enum status st = next(s, &r, first, err);
		if (st != ST_OK)
			return st;
		if (r.kind == PG_SYNC)
			return first;
		if (r.kind == PG_ERROR && first == ST_OK)
			first = ST_REFUSED;
		if (first != ST_OK)
			continue;
		if (answer == 0 && due > 0)
			x->fenced = x->marks->count - (size_t)r.affected;
		if (answer < due)
			continue;
		while (x->leases[lease].most == 0)
			lease++;
		first = read_leased(&r, &x->leases[lease++], until_ms, &x->leased, err);
	}
}

enum status outbox_exchange(struct pg_session *s, struct arena *arena, struct outbox_exchange *x, struct error *err)
{
	const int64_t until_ms = clock_mono_ms() + x->lease_ms;
	x->released = false;
	x->fenced = 0;
	for (size_t i = 0; i < x->lease_count; i++)
		x->leases[i].taken = x->leases[i].late = 0;
	if (x->marks->count > 0 && FAULT_POINT("outbox_before_mark"))
		return error_set(err, ST_UNAVAILABLE, "fault point outbox_before_mark");
	enum status st = send_all(s, arena, x, err);
	if (st == ST_OK)
		st = read_all(s, x, until_ms, err);
	arena_reset(arena);
	if (st == ST_OK && x->marks->count > 0 && FAULT_POINT("outbox_after_mark"))
		st = error_set(err, ST_UNAVAILABLE, "fault point outbox_after_mark");
	if (st == ST_OK && x->leased.count > 0 && FAULT_POINT("outbox_leased"))
		st = error_set(err, ST_UNAVAILABLE, "fault point outbox_leased");
	if (st != ST_OK)
		rows_free(&x->leased);
	return st;
}

enum status outbox_count(struct pg_session *s, struct relay_kind *kind, struct error *err)
{
	struct pg_result r;
	const enum status st = pg_query(s, count_sql, (const char *const[]){ kind->name }, 1, &r, err);
	if (st != ST_OK)
		return st;
	atomic_store(&kind->pending, pg_value_int8(&r, 0, 0));
	atomic_store(&kind->dead, pg_value_int8(&r, 0, 1));
	atomic_store(&kind->oldest_s, pg_value_int8(&r, 0, 2)); /* null reads as 0 */
	return ST_OK;
}

enum status outbox_prune(struct pg_session *s, const struct relay_kind *kind, int64_t retention_ms, bool *ret_more,
			 struct error *err)
{
	char ms[24];
	struct pg_result r;
	snprintf(ms, sizeof(ms), "%" PRId64, retention_ms);
	const enum status st = pg_query(s, prune_sql, (const char *const[]){ kind->name, ms }, 2, &r, err);
	*ret_more = st == ST_OK && r.affected == PRUNE_ROWS;
	return st;
}

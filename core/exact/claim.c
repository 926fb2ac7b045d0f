/* Claims: (consumer, key) rows that say "this effect is applied, or being applied in this very transaction".
 *
 * One INSERT for a whole set, its keys sorted by bytes so that two batches never wait for each other in a circle. A
 * concurrent twin waits on our row and then finds the conflict, or inherits the work when we roll back. What came back
 * is matched by key, never by position. */
#include "exact/heart.h"
#include "pg/binary.h"
#include <string.h>

static const char claim_sql[] = "INSERT INTO effectd.processed_messages (consumer, message_key)"
				" SELECT $1, k FROM unnest($2::text[]) AS k"
				" ON CONFLICT (consumer, message_key) DO NOTHING"
				" RETURNING message_key, pg_current_xact_id()";

static const char unclaim_sql[] = "DELETE FROM effectd.processed_messages"
				  " WHERE consumer = $1 AND message_key = ANY ($2::text[])";

static const char outbox_sql[] =
	"INSERT INTO effectd.outbox (consumer, message_key, kind, payload, headers, ordering_key, idempotency_key)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7)";

/* stop_on_dead: what is parked, and waits for a person or for its next attempt, came before what is in hand. */
static const char parked_before_sql[] = "SELECT FROM effectd.parked_messages WHERE consumer = $1 LIMIT 1";

const struct pg_statement exact_statements[EXACT_STATEMENT_COUNT] = {
	{ .name = "claim", .sql = claim_sql },
	{ .name = "unclaim", .sql = unclaim_sql },
	{ .name = "outbox", .sql = outbox_sql },
	{ .name = "park", .sql = park_sql },
	{ .name = "parked_before", .sql = parked_before_sql },
};

/* The keys of those items of the set for which chosen() holds, as one binary text[] parameter. */
static enum status send_keys(struct exact *x, size_t n, const char *statement, bool (*chosen)(const struct item *),
			     struct error *err)
{
	struct str *keys = arena_alloc(&x->arena, n * sizeof(*keys));
	if (!keys)
		return error_oom(err);
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		if (chosen(x->set[i]))
			keys[count++] = x->set[i]->key;
	struct str array;
	if (!pg_text_array(&x->arena, keys, count, &array))
		return error_oom(err);
	const struct pg_values values = {
		.count = 2,
		.data = (const char *const[]){ x->params.consumer, array.data },
		.lengths = (const int[]){ (int)strlen(x->params.consumer), (int)array.len },
		.formats = (const int[]){ 1, 1 },
	};
	return pg_send(x->session, statement, &values, err);
}

static bool claims(const struct item *item)
{
	return item->claims;
}

static bool unclaims(const struct item *item)
{
	return item->unclaims;
}

enum status claim_send(struct exact *x, size_t n, struct error *err)
{
	return send_keys(x, n, "claim", claims, err);
}

enum status claim_undo_send(struct exact *x, size_t n, struct error *err)
{
	return send_keys(x, n, "unclaim", unclaims, err);
}

enum status parked_before_send(struct exact *x, struct error *err)
{
	const struct pg_values values = {
		.count = 1,
		.data = (const char *const[]){ x->params.consumer },
		.lengths = (const int[]){ (int)strlen(x->params.consumer) },
		.formats = (const int[]){ 1 },
	};
	return pg_send(x->session, "parked_before", &values, err);
}

enum status parked_before_read(struct exact *x, bool *ret, struct error *err)
{
	struct pg_result result;
	enum status st = pg_next(x->session, &result, err);
	if (st == ST_OK && result.kind == PG_ERROR)
		return ST_REFUSED;
	*ret = st == ST_OK && result.rows > 0;
	return st;
}

enum status claim_read(struct exact *x, size_t n, struct error *err)
{
	struct pg_result result;
	enum status st = pg_next(x->session, &result, err);
	if (st != ST_OK)
		return st;
	if (result.kind != PG_ROWS)
		return result.kind == PG_ERROR ? ST_REFUSED : error_set(err, ST_INTERNAL, "the claim gave no rows");
	if (result.rows > 0)
		x->xid = (uint64_t)pg_value_int8(&result, 0, 1);
	/* Both sides are in the order of their bytes, but only equal bytes count. */
	size_t i = 0;
	for (int row = 0; row < result.rows; row++) {
		int len;
		const char *key = pg_value(&result, row, 0, &len);
		while (i < n && !(x->set[i]->claims && x->set[i]->key.len == (size_t)len &&
				  memcmp(x->set[i]->key.data, key, (size_t)len) == 0))
			i++;
		if (i == n)
			return error_set(err, ST_INTERNAL, "a claim came back that was not asked for");
		x->set[i++]->won = true;
	}
	return ST_OK;
}

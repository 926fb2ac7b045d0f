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

static const char claim_daily_sql[] = "INSERT INTO effectd.processed_messages_daily (consumer, message_key, event_day)"
				      " SELECT $1, k, d FROM unnest($2::text[], $3::date[]) AS u (k, d)"
				      " ON CONFLICT (consumer, message_key, event_day) DO NOTHING"
				      " RETURNING message_key, pg_current_xact_id()";

static const char unclaim_sql[] = "DELETE FROM effectd.processed_messages"
				  " WHERE consumer = $1 AND message_key = ANY ($2::text[])";

static const char unclaim_daily_sql[] = "DELETE FROM effectd.processed_messages_daily AS c"
					" USING unnest($2::text[], $3::date[]) AS u (k, d)"
					" WHERE c.consumer = $1 AND c.message_key = u.k AND c.event_day = u.d";

/* Of these keys by day, those that are claimed on another day: one key, two days, a fault of the plugin. Key by key,
 * each looked up in every day, which costs more than the claims themselves: only redeliveries are asked about. */
static const char elsewhere_sql[] = "SELECT u.k FROM unnest($2::text[], $3::date[]) AS u (k, d) WHERE (SELECT true"
				    " FROM effectd.processed_messages_daily AS c"
				    " WHERE c.consumer = $1 AND c.message_key = u.k AND c.event_day <> u.d LIMIT 1)";

static const char outbox_sql[] =
	"INSERT INTO effectd.outbox (consumer, message_key, kind, payload, headers, ordering_key, idempotency_key)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7)";

/* stop_on_dead: what is parked, and waits for a person or for its next attempt, came before what is in hand. */
static const char parked_before_sql[] = "SELECT FROM effectd.parked_messages WHERE consumer = $1 LIMIT 1";

const struct pg_statement exact_statements[EXACT_STATEMENT_COUNT] = {
	{ .name = "claim", .sql = claim_sql },
	{ .name = "claim_daily", .sql = claim_daily_sql },
	{ .name = "claimed_elsewhere", .sql = elsewhere_sql },
	{ .name = "unclaim", .sql = unclaim_sql },
	{ .name = "unclaim_daily", .sql = unclaim_daily_sql },
	{ .name = "outbox", .sql = outbox_sql },
	{ .name = "park", .sql = park_sql },
	{ .name = "parked_before", .sql = parked_before_sql },
};

/* In this order everywhere: who claims in both tables never waits in a circle. */
static const struct {
	unsigned in;
	const char *claim, *unclaim;
} tables[] = {
	{ CLAIM_IN_TABLE, "claim", "unclaim" },
	{ CLAIM_IN_DAYS, "claim_daily", "unclaim_daily" },
};

enum { DATE_OID = 1082, DATE_ZERO_DAY = 10957 /* 2000-01-01, since 1970 */ };

static bool claims(const struct item *item, unsigned in)
{
	return item->claims && (item->claims_in & in);
}

static bool unclaims(const struct item *item, unsigned in)
{
	return item->unclaims && (item->claims_in & in);
}

static bool comes_again(const struct item *item, unsigned in)
{
	return claims(item, in) && item->d->message.redelivered;
}

/* The days of the chosen items as a binary date[]. */
static bool date_array(struct exact *x, struct item *const *chosen, size_t count, struct str *ret)
{
	char *start = arena_alloc(&x->arena, PG_ARRAY_HEADER + 8 * count);
	if (!start)
		return false;
	char *p = pg_put_array_header(start, DATE_OID, (uint32_t)count, false);
	for (size_t i = 0; i < count; i++)
		p = pg_put32(pg_put32(p, 4), (uint32_t)(int32_t)(chosen[i]->day - DATE_ZERO_DAY));
	*ret = (struct str){ start, (size_t)(p - start) };
	return true;
}

/* Sends the statement for those items of the set for which chosen() holds, if there is one. */
static enum status send_keys(struct exact *x, size_t n, const char *statement, unsigned in,
			     bool (*chosen)(const struct item *, unsigned), int *ret_sent, struct error *err)
{
	struct str *keys = arena_alloc(&x->arena, n * sizeof(*keys)), key_array, day_array = { 0 };
	struct item **items = arena_alloc(&x->arena, n * sizeof(struct item *));
	if (!keys || !items)
		return error_oom(err);
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (!chosen(x->set[i], in))
			continue;
		items[count] = x->set[i];
		keys[count++] = x->set[i]->key;
	}
	if (count == 0)
		return ST_OK;
	if (!pg_text_array(&x->arena, keys, count, &key_array) ||
	    (in == CLAIM_IN_DAYS && !date_array(x, items, count, &day_array)))
		return error_oom(err);
	const struct pg_values values = {
		.count = in == CLAIM_IN_DAYS ? 3 : 2,
		.data = (const char *const[]){ x->params.consumer, key_array.data, day_array.data },
		.lengths = (const int[]){ (int)strlen(x->params.consumer), (int)key_array.len, (int)day_array.len },
		.formats = (const int[]){ 1, 1, 1 },
	};
	*ret_sent += 1;
	return pg_send(x->session, statement, &values, err);
}

enum status claim_send(struct exact *x, size_t n, struct error *err)
{
	enum status st = ST_OK;
	int sent = 0, asked = 0;
	for (size_t i = 0; i < ARRAY_LEN(tables) && st == ST_OK; i++)
		if (x->set_claims_in & tables[i].in)
			st = send_keys(x, n, tables[i].claim, tables[i].in, claims, &sent, err);
	if (st == ST_OK && (x->set_claims_in & CLAIM_IN_DAYS))
		st = send_keys(x, n, "claimed_elsewhere", CLAIM_IN_DAYS, comes_again, &asked, err);
	x->asked_elsewhere = asked > 0;
	return st;
}

enum status claim_undo_send(struct exact *x, size_t n, int *ret_sent, struct error *err)
{
	enum status st = ST_OK;
	for (size_t i = 0; i < ARRAY_LEN(tables) && st == ST_OK; i++)
		if (x->set_claims_in & tables[i].in)
			st = send_keys(x, n, tables[i].unclaim, tables[i].in, unclaims, ret_sent, err);
	return st;
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

static enum status read_one(struct exact *x, size_t n, unsigned in, struct error *err)
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
		while (i < n && !(claims(x->set[i], in) && x->set[i]->key.len == (size_t)len &&
				  memcmp(x->set[i]->key.data, key, (size_t)len) == 0))
			i++;
		if (i == n)
			return error_set(err, ST_INTERNAL, "a claim came back that was not asked for");
		x->set[i++]->won_in |= in;
	}
	return ST_OK;
}

/* What is claimed on another day, and won here: its effect would be there twice. */
static enum status read_elsewhere(struct exact *x, size_t n, struct error *err)
{
	struct pg_result result;
	const enum status st = pg_next(x->session, &result, err);
	if (st != ST_OK)
		return st;
	if (result.kind != PG_ROWS)
		return result.kind == PG_ERROR ? ST_REFUSED : error_set(err, ST_INTERNAL, "the days gave no rows");
	for (int row = 0; row < result.rows; row++) {
		int len;
		const char *key = pg_value(&result, row, 0, &len);
		for (size_t i = 0; i < n; i++)
			if (x->set[i]->won && x->set[i]->key.len == (size_t)len &&
			    memcmp(x->set[i]->key.data, key, (size_t)len) == 0)
				x->torn = x->set[i];
	}
	return ST_OK;
}

enum status claim_read(struct exact *x, size_t n, struct error *err)
{
	x->torn = NULL;
	enum status st = ST_OK;
	for (size_t i = 0; i < ARRAY_LEN(tables) && st == ST_OK; i++)
		if (x->set_claims_in & tables[i].in)
			st = read_one(x, n, tables[i].in, err);
	for (size_t i = 0; i < n && st == ST_OK; i++)
		x->set[i]->won = x->set[i]->claims && x->set[i]->won_in == x->set[i]->claims_in;
	return st == ST_OK && x->asked_elsewhere ? read_elsewhere(x, n, err) : st;
}

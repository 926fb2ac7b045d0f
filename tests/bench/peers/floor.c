/* floor QUEUE COUNT BATCH rows|set: the floor, what the loyalty job costs on one connection. Hard-coded: batches of
 * what has arrived, one pipelined transaction a batch (sorted claims, then effects and COMMIT), one ack a batch.
 *
 * It looks at no row count, sends COMMIT behind statements whose results it has not seen, and ends at any error: it
 * shows what the work costs, not how to do it safely. */
#include "broker.h"
#include <jansson.h>
#include <libpq-fe.h>

enum { MAX_BATCH = 4096, KEY_SIZE = 48, NUMBER_SIZE = 24 };

static const char claim_sql[] = "INSERT INTO processed_messages (consumer, message_key)"
				" SELECT 'loyalty', k FROM unnest($1::text[]) AS k"
				" ON CONFLICT (consumer, message_key) DO NOTHING RETURNING message_key";

static const char entry_sql[] = "INSERT INTO point_ledger (order_id, customer_id, points) VALUES ($1, $2, $3)"
				" ON CONFLICT (order_id) DO NOTHING";

static const char balance_sql[] = "UPDATE balances SET points = points + $2 WHERE customer_id = $1";

static const char set_sql[] = "WITH entries AS ("
			      "  INSERT INTO point_ledger (order_id, customer_id, points)"
			      "  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])"
			      "  ON CONFLICT (order_id) DO NOTHING RETURNING customer_id, points),"
			      " earned AS (SELECT customer_id, sum(points) AS points FROM entries GROUP BY customer_id)"
			      " UPDATE balances SET points = balances.points + earned.points"
			      " FROM earned WHERE balances.customer_id = earned.customer_id";

struct order {
	long order_id, customer_id, points;
	int claimed;
	char key[KEY_SIZE];
};

static struct order orders[MAX_BATCH];
static struct order *sorted[MAX_BATCH];
static PGconn *pg;

static void require_pg(int holds, const char *what)
{
	if (!holds)
		fprintf(stderr, "%s", PQerrorMessage(pg));
	require(holds, what);
}

static void prepare(const char *name, const char *sql)
{
	PGresult *result = PQprepare(pg, name, sql, 0, NULL);
	require_pg(PQresultStatus(result) == PGRES_COMMAND_OK, name);
	PQclear(result);
}

static void send(const char *name, int count, const char *const *values)
{
	require_pg(PQsendQueryPrepared(pg, name, count, values, NULL, NULL, 0), name);
}

static void send_command(const char *sql)
{
	require_pg(PQsendQueryParams(pg, sql, 0, NULL, NULL, NULL, NULL, 0), sql);
}

static PGresult *next_result(ExecStatusType expected, const char *what)
{
	PGresult *result = PQgetResult(pg);
	require_pg(PQresultStatus(result) == expected, what);
	if (expected != PGRES_PIPELINE_SYNC)
		require_pg(PQgetResult(pg) == NULL, "one result a statement");
	return result;
}

static void read_order(amqp_bytes_t body, struct order *ret)
{
	json_error_t error;
	json_t *json = json_loadb(body.bytes, body.len, 0, &error);
	ret->order_id = json_integer_value(json_object_get(json, "order_id"));
	ret->customer_id = json_integer_value(json_object_get(json, "customer_id"));
	ret->points = json_integer_value(json_object_get(json, "total_cents")) / 100;
	ret->claimed = 0;
	snprintf(ret->key, sizeof(ret->key), "order-completed:%ld", ret->order_id);
	json_decref(json);
}

/* Waits for one delivery, then takes what is there already. */
static int collect(amqp_connection_state_t conn, int most, uint64_t *ret_last_tag)
{
	int n = 0;
	while (n < most) {
		amqp_envelope_t envelope;
		struct timeval no_wait = { 0, 0 };
		amqp_maybe_release_buffers(conn);
		amqp_rpc_reply_t reply = amqp_consume_message(conn, &envelope, n ? &no_wait : NULL, 0);
		if (n && reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
		    reply.library_error == AMQP_STATUS_TIMEOUT)
			break;
		require_reply(reply, "consume a message");
		read_order(envelope.message.body, &orders[n]);
		sorted[n] = &orders[n];
		*ret_last_tag = envelope.delivery_tag;
		amqp_destroy_envelope(&envelope);
		n++;
	}
	return n;
}

static int by_key(const void *a, const void *b)
{
	return strcmp((*(struct order *const *)a)->key, (*(struct order *const *)b)->key);
}

static int claim(int n)
{
	static char keys[MAX_BATCH * (KEY_SIZE + 3)];
	char *p = keys;
	qsort(sorted, (size_t)n, sizeof(*sorted), by_key);
	for (int i = 0; i < n; i++)
		p += sprintf(p, "%c\"%s\"", i ? ',' : '{', sorted[i]->key);
	strcpy(p, "}");
	send_command("BEGIN");
	send("claim", 1, (const char *[]){ keys });
	require_pg(PQsendFlushRequest(pg) && PQflush(pg) >= 0, "flush");
	PQclear(next_result(PGRES_COMMAND_OK, "begin"));
	PGresult *result = next_result(PGRES_TUPLES_OK, "claim");
	const int claimed = PQntuples(result);
	for (int i = 0, row = 0; i < n && row < claimed; i++)
		if (strcmp(PQgetvalue(result, row, 0), sorted[i]->key) == 0) {
			sorted[i]->claimed = 1;
			row++;
		}
	PQclear(result);
	return claimed;
}

static int send_rows(int n)
{
	int statements = 0;
	for (int i = 0; i < n; i++) {
		if (!orders[i].claimed)
			continue;
		char order_id[NUMBER_SIZE], customer_id[NUMBER_SIZE], points[NUMBER_SIZE];
		sprintf(order_id, "%ld", orders[i].order_id);
		sprintf(customer_id, "%ld", orders[i].customer_id);
		sprintf(points, "%ld", orders[i].points);
		send("entry", 3, (const char *[]){ order_id, customer_id, points });
		send("balance", 2, (const char *[]){ customer_id, points });
		statements += 2;
	}
	return statements;
}

static int send_set(int n, int claimed)
{
	static char order_ids[MAX_BATCH * NUMBER_SIZE], customer_ids[MAX_BATCH * NUMBER_SIZE],
		points[MAX_BATCH * NUMBER_SIZE];
	char *o = order_ids, *c = customer_ids, *p = points;
	if (claimed == 0)
		return 0;
	for (int i = 0; i < n; i++) {
		if (!orders[i].claimed)
			continue;
		const char separator = o == order_ids ? '{' : ',';
		o += sprintf(o, "%c%ld", separator, orders[i].order_id);
		c += sprintf(c, "%c%ld", separator, orders[i].customer_id);
		p += sprintf(p, "%c%ld", separator, orders[i].points);
	}
	strcpy(o, "}");
	strcpy(c, "}");
	strcpy(p, "}");
	send("set", 3, (const char *[]){ order_ids, customer_ids, points });
	return 1;
}

static void commit(int statements)
{
	send_command("COMMIT");
	require_pg(PQpipelineSync(pg) && PQflush(pg) >= 0, "sync");
	for (int i = 0; i <= statements; i++)
		PQclear(next_result(PGRES_COMMAND_OK, "effect"));
	PQclear(next_result(PGRES_PIPELINE_SYNC, "sync"));
}

int main(int argc, char **argv)
{
	require(argc == 5, "usage: floor QUEUE COUNT BATCH rows|set");
	const long count = atol(argv[2]);
	const int batch = atoi(argv[3]), set = strcmp(argv[4], "set") == 0;
	require(batch >= 1 && batch <= MAX_BATCH, "a batch of 1 to 4096");
	pg = PQconnectdb("");
	require_pg(PQstatus(pg) == CONNECTION_OK, "connect to PostgreSQL");
	prepare("claim", claim_sql);
	prepare("entry", entry_sql);
	prepare("balance", balance_sql);
	prepare("set", set_sql);
	require_pg(PQenterPipelineMode(pg), "enter pipeline mode");
	amqp_connection_state_t conn = broker_open();
	broker_consume(conn, argv[1], batch * 3);
	long done = 0, duplicates = 0, batches = 0;
	double start = 0;
	while (done < count) {
		uint64_t last_tag = 0;
		const long left = count - done;
		const int n = collect(conn, left < batch ? (int)left : batch, &last_tag);
		if (start == 0)
			start = seconds_now();
		const int claimed = claim(n);
		commit(set ? send_set(n, claimed) : send_rows(n));
		require(!amqp_basic_ack(conn, 1, last_tag, 1), "acknowledge");
		duplicates += n - claimed;
		done += n;
		batches++;
	}
	printf("deliveries=%ld duplicates=%ld seconds=%.4f batches=%ld\n", done, duplicates, seconds_now() - start,
	       batches);
	require_reply(amqp_connection_close(conn, AMQP_REPLY_SUCCESS), "close the connection");
	return 0;
}

/* publish QUEUE ORDERS DUPLICATE_EVERY [RATE [TIMES]]: publishes OrderCompleted events 1..ORDERS persistently with
 * confirms, every DUPLICATE_EVERY-th twice (0: none), RATE a second (0: flat out), and returns when all are confirmed.
 * TIMES gets the time at which each order was first published: int64 microseconds since 1970, order 1 first. */
#include "broker.h"

struct publisher {
	amqp_connection_state_t conn;
	const char *queue;
	char completed_at[32]; /* of all orders, so that both copies of one agree */
	uint64_t sent;
};

static void publish(struct publisher *p, long order)
{
	const amqp_basic_properties_t properties = {
		._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG,
		.delivery_mode = AMQP_DELIVERY_PERSISTENT,
		.content_type = amqp_cstring_bytes("application/json"),
		.timestamp = (uint64_t)time(NULL),
	};
	char body[256];
	const int len = snprintf(body, sizeof(body),
				 "{\"event\":\"OrderCompleted\",\"order_id\":%ld,\"customer_id\":%ld,"
				 "\"total_cents\":%ld,\"currency\":\"EUR\",\"completed_at\":\"%s\","
				 "\"items\":[{\"sku\":\"A-1\",\"qty\":2}]}",
				 order, order * 7919 % 10000 + 1, 1000 + order % 5000, p->completed_at);
	const int failed = amqp_basic_publish(p->conn, 1, amqp_empty_bytes, amqp_cstring_bytes(p->queue), 0, 0,
					      &properties, (amqp_bytes_t){ (size_t)len, body });
	require(!failed, "publish");
	p->sent++;
}

/* Confirms come in any order; a multiple one covers every lower tag. */
static void wait_for_confirms(const struct publisher *p)
{
	char *confirmed = calloc(p->sent + 1, 1);
	require(confirmed != NULL, "have memory");
	uint64_t all_below = 1, count = 0;
	while (count < p->sent) {
		amqp_frame_t frame;
		amqp_maybe_release_buffers(p->conn);
		require(amqp_simple_wait_frame(p->conn, &frame) == AMQP_STATUS_OK, "read a confirm");
		require(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD,
			"the broker confirms");
		const amqp_basic_ack_t *ack = frame.payload.method.decoded;
		for (uint64_t tag = ack->multiple ? all_below : ack->delivery_tag; tag <= ack->delivery_tag; tag++) {
			count += !confirmed[tag];
			confirmed[tag] = 1;
		}
		if (ack->multiple && ack->delivery_tag >= all_below)
			all_below = ack->delivery_tag + 1;
	}
	free(confirmed);
}

static int64_t unix_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	require(argc >= 4 && argc <= 6, "usage: publish QUEUE ORDERS DUPLICATE_EVERY [RATE [TIMES]]");
	const long orders = atol(argv[2]), duplicate_every = atol(argv[3]), rate = argc > 4 ? atol(argv[4]) : 0;
	FILE *times = argc > 5 ? fopen(argv[5], "w") : NULL;
	require(argc <= 5 || times, "open the file of times");
	struct publisher p = { .conn = broker_open(), .queue = argv[1] };
	const time_t now = time(NULL);
	struct tm utc;
	require(gmtime_r(&now, &utc) && strftime(p.completed_at, sizeof(p.completed_at), "%Y-%m-%dT%H:%M:%SZ", &utc),
		"write the time");
	amqp_confirm_select(p.conn, 1);
	require_reply(amqp_get_rpc_reply(p.conn), "switch confirms on");
	const double start = seconds_now();
	for (long order = 1; order <= orders; order++) {
		const int64_t published_us = times ? unix_us() : 0;
		require(!times || fwrite(&published_us, sizeof(published_us), 1, times) == 1, "write a time");
		publish(&p, order);
		if (duplicate_every && order % duplicate_every == 0)
			publish(&p, order);
		while (rate && (double)p.sent > (seconds_now() - start) * (double)rate)
			nanosleep(&(struct timespec){ 0, 200000 }, NULL);
	}
	require(!times || fclose(times) == 0, "write the times");
	wait_for_confirms(&p);
	printf("published=%llu\n", (unsigned long long)p.sent);
	require_reply(amqp_connection_close(p.conn, AMQP_REPLY_SUCCESS), "close the connection");
	return 0;
}

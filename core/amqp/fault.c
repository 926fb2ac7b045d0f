/* What a failure to open or to consume means. What may pass by itself is tried again every few seconds; what only a
 * person can mend stops the consumer, which loses nothing. */
#include "amqp/session.h"
#include <amqp.h>
#include <amqp_framing.h>

/* Every other code says that we speak wrongly, or ask for what this queue is not or cannot. */
static const int environment[] = {
	AMQP_CONNECTION_FORCED, /* the broker goes down, or somebody closed our connection */
	AMQP_ACCESS_REFUSED,    /* passwords rotate; another process consumes exclusively */
	AMQP_NOT_FOUND,         /* a queue that was deleted is declared again */
	AMQP_RESOURCE_LOCKED,   /* its exclusive owner goes away */
	AMQP_RESOURCE_ERROR,    /* a limit of the broker */
	AMQP_NOT_ALLOWED,       /* the virtual host is not there yet, or has all the connections that it may */
	AMQP_INTERNAL_ERROR,    /* a queue without a leader */
};

bool amqp_is_program_fault(enum status st, const struct error *err)
{
	/* Without a code it is the network's fault, or the library's about it. */
	bool program = st == ST_INVALID || err->code != 0;
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		program &= err->code != environment[i];
	return program;
}

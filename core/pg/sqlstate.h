/* What a SQLSTATE of a plugin's statement means for the message that brought it. One table; section 2 of the contract.
 */
#ifndef PG_SQLSTATE_H
#define PG_SQLSTATE_H

#include "base/error.h"

enum fault_class {
	FAULT_ENVIRONMENT, /* nobody's fault: roll back, back off, try the same batch again */
	FAULT_MESSAGE,     /* this message will never work: park it */
	FAULT_PROGRAM,     /* code, schema or privileges are wrong: stop the consumer, keep its queue */
};

/* More that the table knows of a code. */
enum fault_trait {
	FAULT_TRAIT_OWN = 1, /* environment, but a message's own statement can bring it about: 57014 53200 55P03 */
	FAULT_TRAIT_CONTENTION = 2, /* 40001 40P01: halve the batch after three in a row */
	FAULT_TRAIT_TWICE = 4,      /* message, but only when it happens again alone: 23505 23P01 */
	FAULT_TRAIT_SESSION = 8,    /* a fresh session may cure it: 26000 0A000 once, 25006 as often as it comes */
};

struct fault_kind {
	enum fault_class class;
	unsigned traits;
};

/* Of an error that PostgreSQL reported (sqlstate set). FATAL and PANIC are environment whatever the code. */
struct fault_kind pg_sqlstate_kind(const struct error *err);

#endif

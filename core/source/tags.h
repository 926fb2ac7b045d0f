/* Which acknowledgements to send, for deliveries of one channel that are settled in any order.
 *
 * A multiple ack covers every lower tag, so it may only reach up to the first unsettled one; what is settled behind
 * that is acknowledged alone. Never an unsettled tag, never one twice, never tag 0 (that is: everything). */
#ifndef SOURCE_TAGS_H
#define SOURCE_TAGS_H

#include "base/macros.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tag;

struct tags {
	struct tag *ring; /* ascending from head, wrapping */
	size_t capacity;  /* a power of two, or 0 */
	size_t head, count;
	size_t settled; /* of count: settled, not yet acknowledged */
	size_t single;  /* before this many from head there is no such one */
};

void tags_init(struct tags *t);
void tags_finish(struct tags *t);
void tags_reset(struct tags *t); /* a new channel: its tags start anew */

/* Each tag is above the last one. false: not above, or no memory. */
bool tags_add(struct tags *t, uint64_t tag) MUST_USE;

/* false: never added, or settled before. */
bool tags_settle(struct tags *t, uint64_t tag);

/* The next ack to send; it counts as sent. false: none is due. */
bool tags_next_ack(struct tags *t, uint64_t *ret_tag, bool *ret_multiple);

#endif

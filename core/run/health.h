/* Is the process alive, is it ready? Answered from vitals alone: no server is asked, nothing is waited for.
 *
 * *Live* says that every loop turns. A daemon whose servers are away is live, and must not be restarted for it.
 * *Ready* says that every consumer does its work; if not, one line a reason: a stable word and a sentence. */
#ifndef RUN_HEALTH_H
#define RUN_HEALTH_H

#include "base/buffer.h"
#include "run/vitals.h"

/* False: out holds the reasons. */
bool health_is_live(const struct view *view, struct buffer *out);
bool health_is_ready(const struct view *view, struct buffer *out);

/* A consumer in one word: the gravest reason of its workers, `waiting` in probation, else `running`. */
struct consumer;
const char *health_consumer_word(const struct view *view, const struct consumer *c);

#endif

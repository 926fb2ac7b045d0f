/* Deliveries from a RabbitMQ queue, over one AMQP session.
 *
 * settle() marks, flush() acknowledges: one multiple ack up to the last tag before the first unsettled delivery, single
 * acks for settled ones behind it. Acks carry their epoch; after a reconnect stale ones are dropped, and the redelivery
 * finds its claim. give_back() only forgets: the broker takes unacknowledged deliveries back when the channel closes.
 */
#ifndef SOURCE_QUEUE_H
#define SOURCE_QUEUE_H

#include "amqp/session.h"
#include "exact/source.h"

struct queue_source;

enum status queue_source_create(struct queue_source **ret, const char *consumer, struct consumer_counters *counters,
				struct error *err) MUST_USE;
void queue_source_destroy(struct queue_source *q); /* NULL is fine; the session stays its owner's */

struct source *queue_source_base(struct queue_source *q);

/* From now on deliveries come from this session (NULL: from none). The heart must hold none of the old one's: give back
 * first, then attach NULL, then destroy the session. */
enum status queue_source_attach(struct queue_source *q, struct amqp_session *s, struct error *err) MUST_USE;

size_t queue_source_unsettled(const struct queue_source *q);

#endif

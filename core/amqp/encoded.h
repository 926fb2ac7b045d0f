/* Encoded properties, decoded by rabbitmq-c for the length of one call: what the files of the codec share. */
#ifndef AMQP_ENCODED_H
#define AMQP_ENCODED_H

#include "base/buffer.h"
#include "base/text.h"
#include <amqp.h>
#include <amqp_framing.h>
#include <stdbool.h>

struct arena;

/* pool must be zeroed; empty_amqp_pool() it afterwards, whatever the answer. The result points into pool and into
 * encoded. NULL: these are no basic properties. */
amqp_basic_properties_t *encoded_decode(struct str encoded, amqp_pool_t *pool);

/* The headers, an empty table when there are none. */
amqp_table_t encoded_headers(const amqp_basic_properties_t *p);

void encoded_headers_json(struct str encoded, struct arena *arena, struct buffer *out);
void encoded_identity(struct str encoded, struct arena *arena, struct buffer *out);

#endif

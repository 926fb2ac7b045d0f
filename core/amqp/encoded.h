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

/* JSON for people, see headers_json.c: where a text is cut, and after how many bytes no member is begun. */
struct json_limits {
	size_t text, all;
};
extern const struct json_limits json_limits_row, json_limits_none;

void encoded_text_json(struct buffer *out, amqp_bytes_t bytes, const struct json_limits *limits);
void encoded_time_json(struct buffer *out, uint64_t seconds);
void encoded_value_json(struct buffer *out, const amqp_field_value_t *v, const struct json_limits *limits);

void encoded_headers_json(struct str encoded, struct arena *arena, struct buffer *out);
void encoded_identity(struct str encoded, struct arena *arena, struct buffer *out);

#endif

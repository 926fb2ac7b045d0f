/* Memory of deliveries: blocks are reused, so that a steady stream allocates nothing.
 *
 * Small blocks stay on the free list up to a bound; large ones go back to the system with their delivery. */
#include "amqp/link.h"
#include <stdlib.h>

enum {
	BLOCK_STEP = 512,           /* sizes are multiples of it; holds the longest exchange and routing key together */
	BLOCK_KEEP = 16 * 1024,     /* larger ones are not kept */
	FREE_MAX = 2 * 1024 * 1024, /* bytes that the free list keeps */
};

struct held *held_get(struct amqp_session *s)
{
	struct held *h = s->free;
	if (h) {
		s->free = h->next;
		s->free_bytes -= h->capacity;
	} else {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		h->all = s->all;
		s->all = h;
	}
	h->next = NULL;
	h->body_got = 0;
	s->held_bytes += sizeof(*h) + h->capacity;
	return h;
}

bool held_reserve(struct amqp_session *s, struct held *h, size_t bytes)
{
	if (bytes <= h->capacity)
		return true;
	size_t capacity = (bytes + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
	char *data = realloc(h->data, capacity);
	if (!data)
		return false;
	s->held_bytes += capacity - h->capacity;
	h->data = data;
	h->capacity = capacity;
	return true;
}

void held_put(struct amqp_session *s, struct held *h)
{
	s->held_bytes -= sizeof(*h) + h->capacity;
	if (h->capacity > BLOCK_KEEP || s->free_bytes + h->capacity > FREE_MAX) {
		free(h->data);
		h->data = NULL;
		h->capacity = 0;
	}
	s->free_bytes += h->capacity;
	h->next = s->free;
	s->free = h;
}

void held_drop_pending(struct amqp_session *s)
{
	if (s->building)
		held_put(s, s->building);
	s->building = NULL;
	s->has_header = false;
	while (s->pending) {
		struct held *h = s->pending;
		s->pending = h->next;
		held_put(s, h);
	}
	s->pending_end = &s->pending;
}

void held_free_all(struct amqp_session *s)
{
	while (s->all) {
		struct held *h = s->all;
		s->all = h->all;
		free(h->data);
		free(h);
	}
}

struct amqp_delivery *amqp_session_peek(struct amqp_session *s)
{
	return s->pending ? &s->pending->pub : NULL;
}

struct amqp_delivery *amqp_session_take(struct amqp_session *s)
{
	struct held *h = s->pending;
	if (!h)
		return NULL;
	s->pending = h->next;
	if (!s->pending)
		s->pending_end = &s->pending;
	h->next = NULL;
	return &h->pub;
}

void amqp_session_return(struct amqp_session *s, struct amqp_delivery *d)
{
	held_put(s, (struct held *)d);
}

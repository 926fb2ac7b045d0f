/* Memory of an instance: a pool for what configure() makes, and text that grows. */
#include "sql_effect.h"
#include <stdlib.h>

struct pool_block {
	struct pool_block *next;
	max_align_t memory[];
};

void *pool_alloc(struct pool *pool, size_t size)
{
	struct pool_block *block = calloc(1, sizeof(*block) + size);
	if (!block) {
		pool->exhausted = true;
		return NULL;
	}
	block->next = pool->blocks;
	pool->blocks = block;
	return block->memory;
}

char *pool_text(struct pool *pool, const char *text, size_t len)
{
	char *copy = pool_alloc(pool, len + 1);
	return copy ? memcpy(copy, text, len) : NULL;
}

void pool_free(struct pool *pool)
{
	while (pool->blocks) {
		struct pool_block *block = pool->blocks;
		pool->blocks = block->next;
		free(block);
	}
}

void text_add(struct text *t, const char *data, size_t len)
{
	if (t->len + len > t->room) {
		const size_t room = 2 * (t->len + len) + 64;
		char *more = realloc(t->data, room);
		if (!more) {
			t->failed = true;
			return;
		}
		t->data = more;
		t->room = room;
	}
	if (len > 0)
		memcpy(t->data + t->len, data, len);
	t->len += len;
}

void text_add_json_string(struct text *t, struct effectd_str s)
{
	text_add(t, "\"", 1);
	for (size_t i = 0; i < s.len; i++) {
		char escape[8] = { '\\', s.data[i] };
		if ((unsigned char)s.data[i] < 0x20)
			text_add(t, escape, (size_t)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)s.data[i]));
		else if (s.data[i] == '"' || s.data[i] == '\\')
			text_add(t, escape, 2);
		else
			text_add(t, s.data + i, 1);
	}
	text_add(t, "\"", 1);
}

bool because(struct reason *why, const char *fmt, ...)
{
	va_list ap;
	if (!why)
		return false;
	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
	return false;
}

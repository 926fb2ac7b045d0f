/* A byte buffer that grows. For text that is built piece by piece; always NUL-terminated. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/macros.h"
#include <stdbool.h>
#include <stddef.h>

struct buffer {
	char *data; /* NULL while empty */
	size_t len, capacity;
	bool failed; /* out of memory once: what follows is dropped, ask at the end */
};

void buffer_finish(struct buffer *b); /* frees and zeroes */
void buffer_clear(struct buffer *b);  /* keeps the memory */
void buffer_add(struct buffer *b, const void *data, size_t len);
void buffer_puts(struct buffer *b, const char *s);
void buffer_printf(struct buffer *b, const char *fmt, ...) PRINTF(2, 3);

/* Words of text from column on, broken at spaces before the column `columns`; a new line begins with indent. */
void buffer_wrap(struct buffer *b, const char *text, size_t column, const char *indent, size_t columns);

const char *buffer_text(const struct buffer *b); /* "" while empty */

#endif

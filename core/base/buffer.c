/* A byte buffer that grows by doubling.
 *
 * Out of memory is remembered, not returned, so that text can be built without a check behind each piece; whoever
 * uses the result asks `failed` once. A buffer that failed stays as it was: half a piece is never in it. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CAPACITY_MIN ((size_t)64)

/* Room for len more bytes and the NUL. */
static bool buffer_grow(struct buffer *b, size_t len)
{
	if (b->failed)
		return false;
	if (len < b->capacity - b->len) /* also false while there is no memory at all: 0 - 0 */
		return true;
	if (len >= SIZE_MAX / 2 - b->len) {
		b->failed = true;
		return false;
	}

	size_t capacity = b->capacity < CAPACITY_MIN ? CAPACITY_MIN : b->capacity;
	while (capacity <= b->len + len)
		capacity *= 2;

	char *data = realloc(b->data, capacity);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->capacity = capacity;
	return true;
}

void buffer_finish(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){ 0 };
}

void buffer_clear(struct buffer *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

void buffer_add(struct buffer *b, const void *data, size_t len)
{
	if (len == 0 || !buffer_grow(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buffer_puts(struct buffer *b, const char *s)
{
	buffer_add(b, s, strlen(s));
}

void buffer_printf(struct buffer *b, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	const int len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (len < 0)
		b->failed = true;
	if (len <= 0 || !buffer_grow(b, (size_t)len))
		return;

	va_start(args, fmt);
	vsnprintf(b->data + b->len, (size_t)len + 1, fmt, args);
	va_end(args);
	b->len += (size_t)len;
}

const char *buffer_text(const struct buffer *b)
{
	return b->data ? b->data : "";
}

void buffer_wrap(struct buffer *b, const char *text, size_t column, const char *indent, size_t columns)
{
	const size_t indented = strlen(indent);
	bool first = true; /* of its line */
	while (*text) {
		const size_t len = strcspn(text, " ");
		if (!first && column + 1 + len > columns) {
			buffer_puts(b, "\n");
			buffer_puts(b, indent);
			column = indented;
			first = true;
		}
		buffer_puts(b, first ? "" : " ");
		buffer_add(b, text, len);
		column += len + (first ? 0 : 1);
		first = false;
		text += len;
		text += *text == ' ';
	}
}

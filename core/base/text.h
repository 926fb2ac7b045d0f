/* Questions about text: UTF-8, numbers with units, near misses. None of them allocates. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/macros.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
	const char *data; /* not NUL-terminated; NULL and 0 when absent */
	size_t len;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })

bool text_is_utf8(const char *data, size_t len); /* strict: no overlong forms, no surrogates; NUL is allowed */

/* Bytes of the character at the start of data: 1 to 4, 0 when it is not UTF-8 or in pieces. */
size_t text_utf8_len(const char *data, size_t len);
bool text_is_control(const char *data, size_t char_len); /* of one such character: C0, DEL, C1 */

/* How many bytes of data, at most max, end on a character boundary: where a text may be cut. */
size_t text_utf8_cut(const char *data, size_t len, size_t max);

/* Replaces what is not UTF-8 and control bytes by \xHH, cut to fit; always NUL-terminated. Returns the length. */
size_t text_escape(char *dst, size_t dst_size, const char *data, size_t len);

/* Writes \xHH, no NUL; returns 4. */
size_t text_hex_escape(char dst[4], unsigned char c);

/* Whole strings only; false when there is anything else in them or the value does not fit. */
bool text_parse_int(const char *s, int64_t *ret) MUST_USE;
bool text_parse_bool(const char *s, bool *ret) MUST_USE;           /* yes no */
bool text_parse_duration(const char *s, int64_t *ret_ms) MUST_USE; /* 250ms 30s 5min 12h 30d */
bool text_parse_size(const char *s, int64_t *ret_bytes) MUST_USE;  /* 512 64KiB 1MiB 2GiB */

/* The way back: in the largest unit that divides it. Not negative. */
void text_format_duration(int64_t ms, char *text, size_t size); /* 0 is "0" */
void text_format_size(int64_t bytes, char *text, size_t size);

/* [a-z][a-z0-9_-]{0,62} */
bool text_is_name(const char *s);

/* The word of a NULL-terminated list that s was most likely meant to be, or NULL if none is near. */
const char *text_nearest(const char *s, const char *const *words);

/* Writes "a, b or c" of a NULL-terminated list, cut to fit; always NUL-terminated. */
void text_enumerate(const char *const *words, char *text, size_t size);

#endif

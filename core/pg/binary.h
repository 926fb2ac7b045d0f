/* PostgreSQL's binary parameter formats, as far as more than one module writes them. Network byte order; layout as in
 * the server's array_recv() and documented for COPY BINARY. */
#ifndef PG_BINARY_H
#define PG_BINARY_H

#include "base/arena.h"
#include "base/text.h"
#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline char *pg_put32(char *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static inline char *pg_put64(char *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

enum { PG_ARRAY_HEADER = 20 }; /* bytes, of a one-dimensional array */

/* The header of a one-dimensional array of count elements; an empty array has no dimension. */
static inline char *pg_put_array_header(char *p, uint32_t element_type, uint32_t count, bool has_nulls)
{
	p = pg_put32(p, count > 0);
	p = pg_put32(p, has_nulls);
	p = pg_put32(p, element_type);
	if (count == 0)
		return p;
	p = pg_put32(p, count);
	return pg_put32(p, 1); /* lower bound */
}

/* A text[] of the given strings, in the arena. An element whose data is NULL is SQL NULL. False: out of memory. */
bool pg_text_array(struct arena *arena, const struct str *elements, size_t count, struct str *ret) MUST_USE;

/* The same of 8-byte numbers: element_type is int8's OID, or timestamptz's with what the server counts. nulls may be
 * NULL: none. */
bool pg_int8_array(struct arena *arena, uint32_t element_type, const int64_t *elements, const bool *nulls, size_t count,
		   struct str *ret) MUST_USE;

#endif

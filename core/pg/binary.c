/* Arrays, written once for the claims and whoever else sends many values in one parameter. */
#include "pg/binary.h"

enum { OID_TEXT = 25 };

bool pg_text_array(struct arena *arena, const struct str *elements, size_t count, struct str *ret)
{
	size_t bytes = PG_ARRAY_HEADER;
	bool has_nulls = false;
	for (size_t i = 0; i < count; i++) {
		bytes += sizeof(uint32_t) + elements[i].len;
		has_nulls |= !elements[i].data;
	}
	char *start = arena_alloc(arena, bytes);
	if (!start)
		return false;
	char *p = pg_put_array_header(start, OID_TEXT, (uint32_t)count, has_nulls);
	for (size_t i = 0; i < count; i++) {
		const struct str *e = &elements[i];
		p = pg_put32(p, e->data ? (uint32_t)e->len : UINT32_MAX);
		if (e->data)
			p = mempcpy(p, e->data, e->len);
	}
	*ret = (struct str){ start, (size_t)(p - start) };
	return true;
}

bool pg_int8_array(struct arena *arena, uint32_t element_type, const int64_t *elements, const bool *nulls, size_t count,
		   struct str *ret)
{
	bool has_nulls = false;
	for (size_t i = 0; nulls && i < count; i++)
		has_nulls |= nulls[i];
	char *start = arena_alloc(arena, PG_ARRAY_HEADER + count * (sizeof(uint32_t) + sizeof(int64_t)));
	if (!start)
		return false;
	char *p = pg_put_array_header(start, element_type, (uint32_t)count, has_nulls);
	for (size_t i = 0; i < count; i++) {
		const bool null = nulls && nulls[i];
		p = pg_put32(p, null ? UINT32_MAX : sizeof(int64_t));
		if (!null)
			p = pg_put64(p, (uint64_t)elements[i]);
	}
	*ret = (struct str){ start, (size_t)(p - start) };
	return true;
}

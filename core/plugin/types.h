/* PostgreSQL's types, and which kind of value each takes. Nothing outside core/plugin includes this. */
#ifndef PLUGIN_TYPES_H
#define PLUGIN_TYPES_H

#include "effectd/plugin.h"

enum { OID_TEXT = 25, OID_JSONB = 3802 };

struct value_type {
	uint32_t oid;
	effectd_type value; /* the one kind that fits; 0: the ABI has none of its own, text serves */
	uint32_t element;   /* of arrays: the type of elements */
	const char *name;   /* for people; NULL: not a type of this table */
};

/* Never NULL: a type that is not in the table takes text, as PostgreSQL reads it. */
const struct value_type *value_find_type(uint32_t oid);

#endif

/* The table behind types.h. OIDs of built-in types are the same in every PostgreSQL. */
#include "plugin/types.h"
#include "base/macros.h"

/* The usual ones first: a statement's parameters are looked up for each message. */
static const struct value_type types[] = {
	{ 20, EFFECTD_TYPE_INT8, 0, "bigint" },
	{ OID_TEXT, EFFECTD_TYPE_TEXT, 0, "text" },
	{ 23, EFFECTD_TYPE_INT4, 0, "integer" },
	{ OID_JSONB, EFFECTD_TYPE_JSON, 0, "jsonb" },
	{ 1700, EFFECTD_TYPE_NUMERIC, 0, "numeric" },
	{ 1184, EFFECTD_TYPE_TIMESTAMPTZ, 0, "timestamptz" },
	{ 1016, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT8, 20, "bigint[]" },
	{ 1009, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, OID_TEXT, "text[]" },
	{ 1231, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_NUMERIC, 1700, "numeric[]" },
	{ 1007, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT4, 23, "integer[]" },
	{ 1043, EFFECTD_TYPE_TEXT, 0, "varchar" },
	{ 16, EFFECTD_TYPE_BOOL, 0, "boolean" },
	{ 1082, EFFECTD_TYPE_DATE, 0, "date" },
	{ 17, EFFECTD_TYPE_BYTEA, 0, "bytea" },
	{ 21, EFFECTD_TYPE_INT2, 0, "smallint" },
	{ 1042, EFFECTD_TYPE_TEXT, 0, "char(n)" },
	{ 19, EFFECTD_TYPE_TEXT, 0, "name" },
	{ 114, EFFECTD_TYPE_JSON, 0, "json" },
	{ 1000, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_BOOL, 16, "boolean[]" },
	{ 1005, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT2, 21, "smallint[]" },
	{ 1182, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_DATE, 1082, "date[]" },
	{ 1185, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TIMESTAMPTZ, 1184, "timestamptz[]" },
	{ 1001, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_BYTEA, 17, "bytea[]" },
	{ 1015, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, 1043, "varchar[]" },
	{ 1014, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, 1042, "char(n)[]" },
	{ 1003, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, 19, "name[]" },
	{ 3807, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_JSON, OID_JSONB, "jsonb[]" },
	{ 199, EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_JSON, 114, "json[]" },
	/* named for people only */
	{ 700, 0, 0, "real" },
	{ 701, 0, 0, "double precision" },
	{ 1083, 0, 0, "time" },
	{ 1114, 0, 0, "timestamp without time zone" },
	{ 1186, 0, 0, "interval" },
	{ 2950, 0, 0, "uuid" },
	{ 2951, 0, 0, "uuid[]" },
	{ 869, 0, 0, "inet" },
};

static const struct value_type other_type = { 0, 0, 0, NULL };

const struct value_type *value_find_type(uint32_t oid)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (types[i].oid == oid)
			return &types[i];
	return &other_type;
}

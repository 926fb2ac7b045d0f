/* A statement's arguments, from what a plugin gives to what PostgreSQL gets.
 *
 * PostgreSQL believes the bytes it is sent: a binary int8 bound to a float8 is silent garbage. So every value is
 * compared with the type that PostgreSQL described, and nothing is ever converted from one to another. A wrong type or
 * count is the program's mistake (BROKEN); bytes that the type cannot take are the message's (REJECT, or PostgreSQL
 * says so itself). Two passes, one allocation: measure and judge, then write. */
#include "pg/binary.h"
#include "plugin/host.h"
#include "plugin/types.h"

enum {
	VALUE_BYTES_MAX = 0x3fffffff, /* PostgreSQL's own limit of a value */
	DAYS_1970_TO_2000 = 10957,
	KIND_MASK = EFFECTD_TYPE_ARRAY - 1,
};
#define US_1970_TO_2000 INT64_C(946684800000000)

/* The kinds of values: their names, and the width of those that are numbers, on the wire and (bool apart) in C. */
static const struct kind {
	const char *name;
	unsigned width;
} kinds[] = {
	[EFFECTD_TYPE_BOOL] = { "bool", 1 },
	[EFFECTD_TYPE_INT2] = { "int2", 2 },
	[EFFECTD_TYPE_INT4] = { "int4", 4 },
	[EFFECTD_TYPE_INT8] = { "int8", 8 },
	[EFFECTD_TYPE_TEXT] = { "text", 0 },
	[EFFECTD_TYPE_BYTEA] = { "bytea", 0 },
	[EFFECTD_TYPE_NUMERIC] = { "numeric", 0 },
	[EFFECTD_TYPE_JSON] = { "json", 0 },
	[EFFECTD_TYPE_DATE] = { "date", 4 },
	[EFFECTD_TYPE_TIMESTAMPTZ] = { "timestamptz", 8 },
	[EFFECTD_TYPE_BODY] = { "the body as json", 0 },
};

/* How one value goes out. */
struct plan {
	enum {
		SEND_NULL,
		SEND_NUMBER,
		SEND_BYTES,    /* binary: bytes as they are, so that PostgreSQL sees and judges each of them */
		SEND_BORROWED, /* the same, and they live as long as the message */
		SEND_TEXT,     /* text format ends at a NUL, so a value with one is refused here */
		SEND_ARRAY,
		SEND_LITERAL, /* an array in text format: {"a",NULL} */
	} how;
	effectd_type kind;    /* without EFFECTD_TYPE_ARRAY */
	uint32_t element;     /* arrays: type of elements */
	bool jsonb;           /* each value has a version byte in front */
	size_t room;          /* bytes in the operation */
	struct effectd_str s; /* BYTES, BORROWED, TEXT */
};

/* Whose value is judged: for the sentence about it. */
struct spot {
	struct plugin_call *call;
	const char *statement;
	size_t parameter; /* from 1 */
};

static bool mismatch(const struct spot *at, effectd_type given, uint32_t oid, const struct value_type *wanted)
{
	char oid_text[64];
	snprintf(oid_text, sizeof(oid_text), "type %u (SELECT %u::regtype names it)", oid, oid);
	call_fault(at->call, EFFECTD_BROKEN, "statement %s, parameter %zu: %s%s was given, PostgreSQL expects %s",
		   at->statement, at->parameter, kinds[given & KIND_MASK].name, given & EFFECTD_TYPE_ARRAY ? "[]" : "",
		   wanted->name ? wanted->name : oid_text);
	return false;
}

static bool malformed(const struct spot *at)
{
	call_fault(at->call, EFFECTD_BROKEN,
		   "statement %s, parameter %zu is no value: make it with the functions of effectd/plugin.h",
		   at->statement, at->parameter);
	return false;
}

static bool unfit(const struct spot *at, const char *what)
{
	call_fault(at->call, EFFECTD_REJECT, "statement %s, parameter %zu: %s", at->statement, at->parameter, what);
	return false;
}

/* From the host's number to PostgreSQL's: its days and times count from 2000, and their extremes mean infinity. */
static bool wire_number(const struct spot *at, effectd_type kind, int64_t n, int64_t *ret)
{
	static const char out_of_range[] = "the time is out of range";
	switch (kind) {
	case EFFECTD_TYPE_INT2:
		*ret = n;
		return n == (int16_t)n || malformed(at);
	case EFFECTD_TYPE_INT4:
		*ret = n;
		return n == (int32_t)n || malformed(at);
	case EFFECTD_TYPE_DATE:
		*ret = n - DAYS_1970_TO_2000;
		return n == (int32_t)n ? *ret > INT32_MIN || unfit(at, out_of_range) : malformed(at);
	case EFFECTD_TYPE_TIMESTAMPTZ:
		return (!__builtin_sub_overflow(n, US_1970_TO_2000, ret) && *ret > INT64_MIN) ||
		       unfit(at, out_of_range);
	case EFFECTD_TYPE_BOOL:
		*ret = n != 0;
		return true;
	default:
		*ret = n;
		return true;
	}
}

/* An element of a C array of numbers. */
static int64_t c_number(effectd_type kind, const void *data, size_t i)
{
	switch (kind) {
	case EFFECTD_TYPE_BOOL:
		return ((const bool *)data)[i];
	case EFFECTD_TYPE_INT2:
		return ((const int16_t *)data)[i];
	case EFFECTD_TYPE_INT4:
	case EFFECTD_TYPE_DATE:
		return ((const int32_t *)data)[i];
	default:
		return ((const int64_t *)data)[i];
	}
}

static char *put_number(char *p, unsigned width, int64_t n)
{
	switch (width) {
	case 1:
		*p = (char)n;
		return p + 1;
	case 2:
		memcpy(p, &(uint16_t){ htobe16((uint16_t)n) }, 2);
		return p + 2;
	case 4:
		return pg_put32(p, (uint32_t)n);
	default:
		return pg_put64(p, (uint64_t)n);
	}
}

static char *put_bytes(char *p, bool jsonb, struct effectd_str s)
{
	if (jsonb)
		*p++ = 1;
	memcpy(p, s.data, s.len);
	return p + s.len;
}

static bool plan_bytes(const struct spot *at, struct plan *plan, struct effectd_str s)
{
	if (!s.data) {
		plan->how = SEND_NULL;
		return true;
	}
	if (s.len > VALUE_BYTES_MAX)
		return unfit(at, "the value is larger than 1 GiB");
	if (plan->how == SEND_TEXT && memchr(s.data, '\0', s.len))
		return unfit(at, "the value contains a NUL byte");
	plan->s = s;
	plan->room = plan->how == SEND_BORROWED ? 0 : s.len + 1; /* NUL of text, version byte of jsonb */
	return true;
}

static bool plan_array(const struct spot *at, struct plan *plan, const struct effectd_value *v)
{
	if (!v->as.data && v->len > 0)
		return malformed(at);
	const unsigned width = kinds[plan->kind].width;
	size_t room = PG_ARRAY_HEADER;
	for (size_t i = 0; i < v->len && room <= VALUE_BYTES_MAX; i++) {
		int64_t n;
		if (width > 0) {
			room += 4 + width;
			if (!wire_number(at, plan->kind, c_number(plan->kind, v->as.data, i), &n))
				return false;
			continue;
		}
		const struct effectd_str s = ((const struct effectd_str *)v->as.data)[i];
		const size_t len = s.data ? s.len : 0;
		if (len > VALUE_BYTES_MAX)
			room = len;
		else
			room += plan->how == SEND_LITERAL ? 2 * len + sizeof("NULL,") : len + 5;
		if (plan->how == SEND_LITERAL && len <= VALUE_BYTES_MAX && len > 0 && memchr(s.data, '\0', len))
			return unfit(at, "an element contains a NUL byte");
	}
	if (room > VALUE_BYTES_MAX)
		return unfit(at, "the array is larger than 1 GiB");
	plan->room = room;
	return true;
}

/* Compares a value with the type that PostgreSQL wants and says how it goes out. */
static bool plan_value(const struct spot *at, struct plan *plan, const struct effectd_value *v, uint32_t oid)
{
	*plan = (struct plan){ .how = SEND_NULL };
	if (v->type == EFFECTD_TYPE_NULL)
		return true;
	const bool array = v->type & EFFECTD_TYPE_ARRAY;
	const effectd_type kind = v->type & ~(effectd_type)EFFECTD_TYPE_ARRAY;
	if (kind >= ARRAY_LEN(kinds) || !kinds[kind].name || v->reserved != 0 || (array && kind == EFFECTD_TYPE_BODY))
		return malformed(at);

	const struct value_type *wanted = value_find_type(oid);
	const bool own = wanted->value == (kind == EFFECTD_TYPE_BODY ? (effectd_type)EFFECTD_TYPE_JSON : v->type);
	if (!own && !(kind == EFFECTD_TYPE_TEXT && wanted->value == 0))
		return mismatch(at, v->type, oid, wanted);
	const bool as_text = !own || kind == EFFECTD_TYPE_NUMERIC;
	plan->kind = kind;
	plan->element = wanted->element;
	plan->jsonb = oid == OID_JSONB || wanted->element == OID_JSONB;

	if (array) {
		plan->how = as_text ? SEND_LITERAL : SEND_ARRAY;
		return plan_array(at, plan, v);
	}
	if (kinds[kind].width > 0) {
		int64_t n;
		plan->how = SEND_NUMBER;
		plan->room = kinds[kind].width;
		return wire_number(at, kind, v->as.number, &n);
	}
	if (kind == EFFECTD_TYPE_BODY) {
		const struct message *m = at->call->message;
		if (!m) {
			call_fault(at->call, EFFECTD_BROKEN,
				   "statement %s, parameter %zu: apply_batch has many messages, none of them is the "
				   "body",
				   at->statement, at->parameter);
			return false;
		}
		plan->how = plan->jsonb ? SEND_BYTES : SEND_BORROWED;
		return plan_bytes(at, plan, (struct effectd_str){ m->body.data ? m->body.data : "", m->body.len });
	}
	plan->how = as_text ? SEND_TEXT : SEND_BYTES;
	return plan_bytes(at, plan, (struct effectd_str){ (const char *)v->as.data, v->len });
}

static char *write_array(char *p, const struct plan *plan, const struct effectd_value *v)
{
	const unsigned width = kinds[plan->kind].width;
	const struct effectd_str *strings = (const struct effectd_str *)v->as.data;
	bool has_nulls = false;
	for (size_t i = 0; width == 0 && i < v->len; i++)
		has_nulls |= !strings[i].data;
	p = pg_put_array_header(p, plan->element, (uint32_t)v->len, has_nulls);
	for (size_t i = 0; i < v->len; i++) {
		int64_t n = 0;
		if (width > 0) {
			(void)wire_number(NULL, plan->kind, c_number(plan->kind, v->as.data, i), &n);
			p = put_number(pg_put32(p, width), width, n);
		} else if (!strings[i].data) {
			p = pg_put32(p, UINT32_MAX); /* length -1: NULL */
		} else {
			p = pg_put32(p, (uint32_t)(strings[i].len + plan->jsonb));
			p = put_bytes(p, plan->jsonb, strings[i]);
		}
	}
	return p;
}

static char *write_literal(char *p, const struct effectd_value *v)
{
	const struct effectd_str *strings = (const struct effectd_str *)v->as.data;
	*p++ = '{';
	for (size_t i = 0; i < v->len; i++) {
		if (i > 0)
			*p++ = ',';
		if (!strings[i].data) {
			p = mempcpy(p, "NULL", 4);
			continue;
		}
		*p++ = '"';
		for (size_t j = 0; j < strings[i].len; j++) {
			if (strings[i].data[j] == '"' || strings[i].data[j] == '\\')
				*p++ = '\\';
			*p++ = strings[i].data[j];
		}
		*p++ = '"';
	}
	*p++ = '}';
	*p = '\0';
	return p;
}

/* Writes one value at p; returns where it ends. */
static char *write_value(char *p, const struct plan *plan, const struct effectd_value *v)
{
	int64_t n = 0;
	switch (plan->how) {
	case SEND_NUMBER:
		(void)wire_number(NULL, plan->kind, v->as.number, &n);
		return put_number(p, kinds[plan->kind].width, n);
	case SEND_BYTES:
		return put_bytes(p, plan->jsonb, plan->s);
	case SEND_TEXT:
		p = put_bytes(p, false, plan->s);
		*p = '\0';
		return p;
	case SEND_ARRAY:
		return write_array(p, plan, v);
	case SEND_LITERAL:
		return write_literal(p, v);
	default:
		return p;
	}
}

struct plugin_op *values_encode(struct plugin_call *call, const char *statement_name,
				const struct pg_statement *described, const struct effectd_value *values, size_t count)
{
	struct plan plans[PG_MAX_PARAMS];
	if (count != described->param_count || count > PG_MAX_PARAMS) {
		call_fault(call, EFFECTD_BROKEN, "statement %s takes %u parameters, %zu were given", statement_name,
			   described->param_count, count);
		return NULL;
	}
	struct spot at = { call, statement_name, 1 };
	size_t room = sizeof(struct plugin_op) + count * (sizeof(char *) + 2 * sizeof(int));
	for (size_t i = 0; i < count; i++, at.parameter++) {
		if (!plan_value(&at, &plans[i], &values[i], described->param_types[i]))
			return NULL;
		room += plans[i].room;
	}

	struct plugin_op *op = arena_alloc(call->arena, room);
	if (!op) {
		call_fault(call, EFFECTD_RETRY, "out of memory");
		return NULL;
	}
	const char **data = (const char **)(op + 1);
	int *lengths = (int *)(data + count), *formats = lengths + count;
	char *p = (char *)(formats + count);
	for (size_t i = 0; i < count; i++) {
		char *end = write_value(p, &plans[i], &values[i]);
		const bool borrowed = plans[i].how == SEND_BORROWED;
		data[i] = plans[i].how == SEND_NULL ? NULL : borrowed ? plans[i].s.data : p;
		lengths[i] = borrowed ? (int)plans[i].s.len : (int)(end - p);
		formats[i] = plans[i].how != SEND_TEXT && plans[i].how != SEND_LITERAL;
		p += plans[i].room;
	}
	*op = (struct plugin_op){ .values = { (int)count, data, lengths, formats } };
	return op;
}

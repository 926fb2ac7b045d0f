/* What the files of sql_effect know of each other. */
#ifndef SQL_EFFECT_H
#define SQL_EFFECT_H

#include <effectd/plugin.h>

enum {
	PATH_MOST = 16,       /* segments of a field */
	PARAMETERS_MOST = 64, /* of a statement: effectd's own bound */
	STATEMENTS_MOST = 64, /* in the options */
};

/* Why something cannot be done: one sentence, without the place. */
struct reason {
	char text[400];
};

/* Fills it (NULL is fine) and returns false. */
bool because(struct reason *why, const char *fmt, ...) EFFECTD_PRINTF(2, 3);

/* ---- memory.c: memory that lives as long as the instance, freed all at once ---- */

struct pool {
	struct pool_block *blocks;
	bool exhausted; /* an allocation failed */
};

void *pool_alloc(struct pool *pool, size_t size); /* zeroed; NULL: no memory */
char *pool_text(struct pool *pool, const char *text, size_t len);
void pool_free(struct pool *pool);

/* Text that grows; the room is kept from message to message. */
struct text {
	char *data;
	size_t len, room;
	bool failed; /* no memory */
};

void text_add(struct text *t, const char *data, size_t len);
void text_add_json_string(struct text *t, struct effectd_str s);
static inline struct effectd_str text_str(const struct text *t)
{
	struct effectd_str s = { t->data, t->len };
	return s;
}

/* ---- field.c: what a message has to offer, by name ---- */

enum field_source {
	FIELD_MEMBER,    /* customer.id: of the body, a number names an element of an array */
	FIELD_BODY,      /* body: all of it */
	FIELD_PROPERTY,  /* @routing_key */
	FIELD_HEADER,    /* @header.NAME */
	FIELD_TIMESTAMP, /* @timestamp */
};

struct field {
	const char *name; /* as it was written, for people */
	enum field_source source;
	bool optional; /* written with a ? behind: absent is NULL */
	effectd_property property;
	const char *header;
	const char *path[PATH_MOST];
	size_t depth;
};

/* Reads name of len bytes; literal: "body" is a member of that name. */
bool field_parse(struct pool *pool, const char *name, size_t len, bool literal, struct field *ret, struct reason *why);

/* How many bytes at p are a field's name as it stands in SQL: order_id, customer.id, items.0.sku, @header.tenant. */
size_t field_span(const char *p);

bool field_equals(const struct field *a, const struct field *b);

/* The node of a member; NULL: the body has none. */
const struct effectd_json *field_node(const struct field *f, const struct effectd_message *msg);

/* Text of a property or header; data NULL: absent. */
struct effectd_str field_property(const struct field *f, const struct effectd_message *msg);

/* Is it just this text, number, true or false? */
bool field_is(const struct field *f, const struct effectd_message *msg, const char *value);

/* An RFC 3339 text or @timestamp. */
bool field_time(const struct field *f, const struct effectd_message *msg, int64_t *ret_us, struct reason *why);

/* A number that is equal for equal whole numbers or texts. */
bool field_order(const struct field *f, const struct effectd_message *msg, int64_t *ret, struct reason *why);

/* As JSON, behind what is there: what is written in the body, as it is written. */
bool field_add_json(const struct field *f, const struct effectd_message *msg, struct text *out, struct reason *why);

/* ---- template.c: order-completed:{order_id} ---- */

struct piece {
	struct effectd_str literal; /* before the field */
	struct field field;
	bool last; /* only a literal: nothing of a field behind it */
};

struct template
{
	const struct piece *pieces; /* the last one has no field */
	size_t count;
};

bool template_parse(struct pool *pool, const char *text, struct template *ret, struct reason *why);

/* Behind what is there. False: a field is missing, or two messages might get one text. */
bool template_add(const struct template *t, const struct effectd_message *msg, struct text *out, struct reason *why);

/* ---- statement.c: SQL with named parameters ---- */

struct parameter {
	struct field field;
	effectd_type type; /* as PostgreSQL described it */
};

struct statement {
	uint32_t index;     /* effectd's */
	const char *option; /* sql.1 */
	struct parameter parameters[PARAMETERS_MOST];
	size_t count;
};

/* The same SQL with $1, $2 ... in place of :names; NULL: why says what is wrong, or there is no memory. */
const char *statement_translate(struct pool *pool, const char *sql, struct statement *ret, struct reason *why);

/* ---- value.c: from JSON to the type that PostgreSQL wants, and nothing guessed on the way ---- */

/* Can there be a value of this type at all? */
bool value_possible(const struct parameter *p, struct reason *why);

bool value_of(const struct parameter *p, const struct effectd_message *msg, struct effectd_value *ret,
	      struct reason *why);

#endif

/* Texts made of a message's fields: keys. Two events must never get one text, so what could make that happen is
 * refused: fields with nothing between them, fields that are not plain, a value with the separator that ends it inside.
 */
#include "sql_effect.h"

/* The literal from *p up to a field or the end; doubled braces are single ones. */
static bool parse_literal(struct pool *pool, const char **p, struct effectd_str *ret, struct reason *why)
{
	char *out = pool_alloc(pool, strlen(*p) + 1);
	size_t len = 0;
	if (!out)
		return because(why, "out of memory");
	for (; **p; (*p)++) {
		const bool brace = **p == '{' || **p == '}';
		if (brace && (*p)[1] == **p)
			(*p)++;
		else if (**p == '{')
			break;
		else if (brace)
			return because(why, "there is a } without a {: a brace that is meant is written twice");
		out[len++] = **p;
	}
	*ret = (struct effectd_str){ out, len };
	return true;
}

static bool parse_field(struct pool *pool, const char **p, struct field *ret, struct reason *why)
{
	const char *end = strchr(*p, '}');
	if (!end)
		return because(why, "there is a { without a }: a brace that is meant is written twice");
	if (!field_parse(pool, *p + 1, (size_t)(end - *p) - 1, true, ret, why))
		return false;
	if (ret->optional || ret->source == FIELD_TIMESTAMP)
		return because(why, "%s cannot be part of it: it may be absent, or the same for two messages",
			       ret->name);
	*p = end + 1;
	return true;
}

bool template_parse(struct pool *pool, const char *text, struct template *ret, struct reason *why)
{
	size_t most = 2;
	for (const char *p = text; *p; p++)
		most += *p == '{';
	struct piece *pieces = pool_alloc(pool, most * sizeof(*pieces));
	if (!pieces)
		return because(why, "out of memory");
	size_t count = 0;
	for (const char *p = text;; count++) {
		if (!parse_literal(pool, &p, &pieces[count].literal, why))
			return false;
		pieces[count].last = !*p;
		if (!*p)
			break;
		if (count > 0 && pieces[count].literal.len == 0)
			return because(why, "two fields need something between them: 1 and 12 must not be 11 and 2");
		if (!parse_field(pool, &p, &pieces[count].field, why))
			return false;
	}
	if (count == 0)
		return because(why, "there is no field in it, like {order_id}: all messages would be one");
	*ret = (struct template){ pieces, count + 1 };
	return true;
}

/* A text or a whole number: what has one spelling. */
static struct effectd_str value(const struct field *f, const struct effectd_message *msg)
{
	struct effectd_str s = { NULL, 0 };
	if (f->source == FIELD_PROPERTY || f->source == FIELD_HEADER)
		return field_property(f, msg);
	const struct effectd_json *node = field_node(f, msg);
	int64_t n;
	if (!msg->host->json_text(node, &s) && msg->host->json_int64(node, &n))
		s = msg->host->json_source(msg, node);
	return s;
}

/* Where needle begins in text for the first time; it is there. */
static const char *find(const char *text, struct effectd_str needle)
{
	while (memcmp(text, needle.data, needle.len) != 0)
		text++;
	return text;
}

bool template_add(const struct template *t, const struct effectd_message *msg, struct text *out, struct reason *why)
{
	for (const struct piece *p = t->pieces;; p++) {
		text_add(out, p->literal.data, p->literal.len);
		if (p->last)
			return !out->failed || because(why, "out of memory");
		const struct effectd_str s = value(&p->field, msg), behind = p[1].literal;
		if (!s.data)
			return because(why, "%s must be a text or a whole number", p->field.name);
		const size_t at = out->len;
		text_add(out, s.data, s.len);
		if (p[1].last)
			continue;
		/* Where this value ends must be seen in the text alone. */
		text_add(out, behind.data, behind.len);
		if (!out->failed && find(out->data + at, behind) != out->data + at + s.len)
			return because(why, "%s has \"%.*s\" in it, which ends it: two messages might be one",
				       p->field.name, (int)behind.len, behind.data);
		out->len -= out->failed ? 0 : behind.len;
	}
}

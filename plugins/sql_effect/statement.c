/* SQL with named parameters. Strings, quoted names and comments are passed over as PostgreSQL's lexer does; ::casts,
 * := and slices like [1:n] are left alone. */
#include "sql_effect.h"

static bool begins_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_comment(const char *p)
{
	unsigned depth = 0;
	if (p[0] == '-')
		return p + strcspn(p, "\n\r");
	do {
		const bool opens = p[0] == '/' && p[1] == '*', closes = p[0] == '*' && p[1] == '/';
		depth += opens;
		depth -= closes;
		p += opens || closes ? 2 : *p != '\0';
	} while (depth > 0 && *p);
	return p;
}

static const char *skip_quoted(const char *p, bool backslash)
{
	const char quote = *p++;
	for (; *p && *p != quote; p++)
		p += backslash && p[0] == '\\' && p[1];
	return *p ? p + 1 : p; /* a doubled quote is an end and a beginning */
}

static const char *skip_dollar(const char *p)
{
	const char *end = p + 1;
	while (begins_name(*end) || (end > p + 1 && is_digit(*end)))
		end++;
	if (*end != '$')
		return p + 1;
	const size_t tag = (size_t)(end + 1 - p);
	for (const char *q = end + 1; (q = strchr(q, '$')); q++)
		if (strncmp(q, p, tag) == 0)
			return q + tag;
	return p + strlen(p);
}

static const char *skip_word(const char *p)
{
	const char *end = p;
	while (begins_name(*end) || is_digit(*end) || *end == '$')
		end++;
	return end == p + 1 && (*p == 'E' || *p == 'e') && *end == '\'' ? skip_quoted(end, true) : end;
}

/* Behind whatever begins here and is no parameter. */
static const char *skip_token(const char *p)
{
	if ((p[0] == '-' && p[1] == '-') || (p[0] == '/' && p[1] == '*'))
		return skip_comment(p);
	if (*p == '\'' || *p == '"')
		return skip_quoted(p, false);
	if (*p == '$')
		return skip_dollar(p);
	if (begins_name(*p))
		return skip_word(p);
	if (p[0] == ':' && (p[1] == ':' || p[1] == '='))
		return p + 2;
	return p + 1;
}

/* A colon that names something, and not the middle of a slice. */
static bool begins_parameter(const char *sql, const char *p)
{
	const char before = p > sql ? p[-1] : ' ';
	return *p == ':' && (p[1] == '{' || field_span(p + 1) > 0) && !begins_name(before) && !is_digit(before) &&
	       before != ')' && before != ']';
}

/* The parameter at *p, which is moved behind it; its number from 1, or 0: why says what is wrong. */
static size_t parse_parameter(struct pool *pool, const char **p, struct statement *s, struct reason *why)
{
	struct field field;
	const bool braces = (*p)[1] == '{';
	const char *name = *p + 1 + braces;
	size_t len = braces ? strcspn(name, "}") : field_span(name);
	const char *end = name + len + braces;
	if (braces && !name[len]) {
		because(why, "there is a :{ without a }");
		return 0;
	}
	if (!field_parse(pool, name, len, braces, &field, why))
		return 0;
	if (end[0] == '?' && end[1] != '|' && end[1] != '&') {
		field.optional = true;
		end++;
	}
	*p = end;
	for (size_t i = 0; i < s->count; i++)
		if (field_equals(&s->parameters[i].field, &field))
			return i + 1;
	if (s->count == PARAMETERS_MOST) {
		because(why, "it has more than %d parameters", PARAMETERS_MOST);
		return 0;
	}
	s->parameters[s->count++].field = field;
	return s->count;
}

const char *statement_translate(struct pool *pool, const char *sql, struct statement *ret, struct reason *why)
{
	char *out = pool_alloc(pool, 2 * strlen(sql) + 1); /* :a becomes $64 at the worst */
	char *to = out;
	ret->count = 0;
	if (!out) {
		because(why, "out of memory");
		return NULL;
	}
	for (const char *p = sql; *p;) {
		if (begins_parameter(sql, p)) {
			const size_t number = parse_parameter(pool, &p, ret, why);
			if (number == 0)
				return NULL;
			to += sprintf(to, "$%zu", number);
			continue;
		}
		if (p[0] == '$' && is_digit(p[1])) {
			because(why, "it has the parameter $%c: parameters have names here, like :order_id", p[1]);
			return NULL;
		}
		const char *end = skip_token(p);
		to = memcpy(to, p, (size_t)(end - p));
		to += end - p;
		p = end;
	}
	return out;
}

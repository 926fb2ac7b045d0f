/* Fields of a message by name. What a member holds is never converted: a text stays a text, a number keeps its digits.
 */
#include "sql_effect.h"

static const struct {
	const char *name;
	effectd_property property;
} properties[] = {
	{ "@routing_key", EFFECTD_ROUTING_KEY }, { "@exchange", EFFECTD_EXCHANGE },
	{ "@message_id", EFFECTD_MESSAGE_ID },   { "@correlation_id", EFFECTD_CORRELATION_ID },
	{ "@type", EFFECTD_MESSAGE_TYPE },       { "@app_id", EFFECTD_APP_ID },
};
static const char header_prefix[] = "@header.";

static bool is_name(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) ||
	       (!first && c >= '0' && c <= '9');
}

size_t field_span(const char *p)
{
	const bool at = p[0] == '@';
	size_t len = at;
	if (!is_name(p[len], true))
		return 0;
	while (is_name(p[len], false) || (p[len] == '-' && at && is_name(p[len + 1], false)) ||
	       (p[len] == '.' && is_name(p[len + 1], false)))
		len++;
	return len;
}

static bool parse_property(const char *name, struct field *f, struct reason *why)
{
	if (strcmp(name, "@timestamp") == 0) {
		f->source = FIELD_TIMESTAMP;
		return true;
	}
	if (strncmp(name, header_prefix, strlen(header_prefix)) == 0 && name[strlen(header_prefix)]) {
		f->source = FIELD_HEADER;
		f->header = name + strlen(header_prefix);
		return true;
	}
	f->source = FIELD_PROPERTY;
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		f->property = properties[i].property;
		if (strcmp(properties[i].name, name) == 0)
			return true;
	}
	return because(why,
		       "there is no %s: a message has @routing_key, @exchange, @message_id, @correlation_id, @type, "
		       "@app_id, @timestamp and @header.NAME",
		       name);
}

static bool parse_path(struct pool *pool, const char *name, struct field *f, struct reason *why)
{
	for (const char *segment = name;; segment++) {
		const size_t len = strcspn(segment, ".");
		if (len == 0)
			return because(why, "\"%s\" is no field: a name is missing", name);
		if (f->depth == PATH_MOST)
			return because(why, "\"%s\" is no field: it is more than %d deep", name, PATH_MOST);
		f->path[f->depth++] = pool_text(pool, segment, len);
		segment += len;
		if (!*segment)
			return true;
	}
}

bool field_parse(struct pool *pool, const char *name, size_t len, bool literal, struct field *ret, struct reason *why)
{
	*ret = (struct field){ .source = FIELD_MEMBER };
	if (len > 0 && name[len - 1] == '?') {
		ret->optional = true;
		len--;
	}
	ret->name = pool_text(pool, name, len);
	if (!ret->name)
		return because(why, "out of memory");
	if (strlen(ret->name) != len || len == 0 || strpbrk(ret->name, "{}\" \t\r\n"))
		return because(why, "\"%s\" is no field's name", ret->name);
	if (strcmp(ret->name, "body") == 0 && !literal) {
		ret->source = FIELD_BODY;
		return true;
	}
	if (ret->name[0] == '@')
		return parse_property(ret->name, ret, why);
	if (!parse_path(pool, ret->name, ret, why))
		return false;
	return !pool->exhausted || because(why, "out of memory");
}

bool field_equals(const struct field *a, const struct field *b)
{
	return a->source == b->source && a->optional == b->optional && strcmp(a->name, b->name) == 0;
}

static const struct effectd_json *element(const struct effectd_host *host, const struct effectd_json *array,
					  const char *digits)
{
	size_t index = 0, len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		if (digits[i] < '0' || digits[i] > '9' || len > 6)
			return NULL;
		index = index * 10 + (size_t)(digits[i] - '0');
	}
	return host->json_element(array, index);
}

const struct effectd_json *field_node(const struct field *f, const struct effectd_message *msg)
{
	const struct effectd_host *host = msg->host;
	const struct effectd_json *node = host->json(msg);
	for (size_t i = 0; i < f->depth && node; i++)
		node = host->json_kind(node) == EFFECTD_JSON_ARRAY ? element(host, node, f->path[i])
								   : host->json_member(node, f->path[i]);
	return node;
}

struct effectd_str field_property(const struct field *f, const struct effectd_message *msg)
{
	return f->source == FIELD_HEADER ? effectd_header(msg, f->header) : msg->host->property(msg, f->property);
}

static struct effectd_str str_of(const char *text)
{
	struct effectd_str s = { text, strlen(text) };
	return s;
}

/* Text, or a whole number, true or false as it is written; data NULL: anything else. */
static struct effectd_str plain_text(const struct field *f, const struct effectd_message *msg)
{
	struct effectd_str s = { NULL, 0 };
	if (f->source == FIELD_PROPERTY || f->source == FIELD_HEADER)
		return field_property(f, msg);
	if (f->source != FIELD_MEMBER)
		return s;
	const struct effectd_json *node = field_node(f, msg);
	const effectd_json_kind kind = msg->host->json_kind(node);
	if (kind == EFFECTD_JSON_INTEGER || kind == EFFECTD_JSON_BOOL)
		return msg->host->json_source(msg, node);
	msg->host->json_text(node, &s);
	return s;
}

bool field_is(const struct field *f, const struct effectd_message *msg, const char *value)
{
	const struct effectd_str s = plain_text(f, msg), wanted = str_of(value);
	return s.data && s.len == wanted.len && memcmp(s.data, wanted.data, s.len) == 0;
}

bool field_time(const struct field *f, const struct effectd_message *msg, int64_t *ret_us, struct reason *why)
{
	struct effectd_str s;
	if (f->source == FIELD_TIMESTAMP)
		return msg->host->timestamp_us(msg, ret_us) || because(why, "the message has no timestamp");
	if (f->source == FIELD_MEMBER && msg->host->json_text(field_node(f, msg), &s) && effectd_parse_time(s, ret_us))
		return true;
	return because(why, "%s must be a time like 2026-11-30T12:00:00Z", f->name);
}

/* FNV-1a: the same text gives the same number everywhere. Two texts of one number only share a place in the order. */
static int64_t hash(struct effectd_str s)
{
	uint64_t n = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < s.len; i++)
		n = (n ^ (unsigned char)s.data[i]) * UINT64_C(1099511628211);
	return (int64_t)n;
}

bool field_order(const struct field *f, const struct effectd_message *msg, int64_t *ret, struct reason *why)
{
	if (f->source == FIELD_MEMBER && msg->host->json_int64(field_node(f, msg), ret))
		return true;
	const struct effectd_str s = plain_text(f, msg);
	if (!s.data)
		return because(why, "%s must be a whole number or a text", f->name);
	*ret = hash(s);
	return true;
}

bool field_add_json(const struct field *f, const struct effectd_message *msg, struct text *out, struct reason *why)
{
	struct effectd_str s = { NULL, 0 };
	if (f->source == FIELD_BODY)
		s = msg->host->json(msg) ? effectd_body(msg) : s;
	else if (f->source == FIELD_MEMBER)
		s = msg->host->json_source(msg, field_node(f, msg));
	else if (f->source != FIELD_TIMESTAMP && (s = field_property(f, msg)).data) {
		text_add_json_string(out, s);
		return true;
	}
	if (!s.data && !f->optional)
		return because(why, "%s is missing", f->name);
	text_add(out, s.data ? s.data : "null", s.data ? s.len : 4);
	return true;
}

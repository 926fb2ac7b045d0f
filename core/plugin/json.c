/* The body as JSON: parsed at the first question and once, by jansson, which is kept away from what would hurt it.
 *
 * Duplicate keys and integers beyond 64 bits are errors, nothing is rounded to an integer, nesting is capped before any
 * recursion begins. The error text says where; it never quotes the body, since it may be logged. */
#include "plugin/host.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 128 };

const char json_out_of_memory[] = "out of memory while parsing the body";

static const char *const reasons[] = {
	[json_error_stack_overflow] = "it is nested too deeply",
	[json_error_invalid_utf8] = "invalid UTF-8",
	[json_error_premature_end_of_input] = "it ends too early",
	[json_error_end_of_input_expected] = "something follows its end",
	[json_error_invalid_syntax] = "wrong syntax",
	[json_error_null_character] = "a NUL in a string",
	[json_error_null_byte_in_key] = "a NUL in a key",
	[json_error_duplicate_key] = "a key that occurs twice in one object",
	[json_error_numeric_overflow] = "a number too large for 64 bits",
};

/* The deepest nesting, strings left out; a body that is no JSON may give any number. */
static bool is_too_deep(const char *s, size_t len)
{
	unsigned depth = 0;
	bool in_string = false;
	for (size_t i = 0; i < len; i++) {
		switch (s[i]) {
		case '"':
			in_string = !in_string;
			break;
		case '\\':
			i += in_string;
			break;
		case '[':
		case '{':
			if (!in_string && ++depth > DEPTH_MAX)
				return true;
			break;
		case ']':
		case '}':
			if (!in_string && depth > 0)
				depth--;
			break;
		default:
			break;
		}
	}
	return false;
}

/* What jansson found wrong, in our words. */
static const char *describe(struct message *m, const json_error_t *e)
{
	const enum json_error_code code = json_error_code(e);
	if (code == json_error_out_of_memory)
		return json_out_of_memory;
	const char *reason = (size_t)code < ARRAY_LEN(reasons) ? reasons[code] : NULL;
	char text[160];
	const int len = snprintf(text, sizeof(text), "the body is not JSON: %s at line %d, column %d (byte %d)",
				 reason ? reason : "wrong syntax", e->line, e->column, e->position);
	const char *copy = arena_copy(m->arena, text, (size_t)len);
	return copy ? copy : json_out_of_memory;
}

static const char *parse(struct message *m)
{
	static const char byte_order_mark[] = "\xEF\xBB\xBF";
	if (m->body.len == 0)
		return "the body is empty";
	if (m->body.len >= 3 && memcmp(m->body.data, byte_order_mark, 3) == 0)
		return "the body is not JSON: it begins with a byte order mark";
	if (is_too_deep(m->body.data, m->body.len))
		return "the body is nested deeper than 128";
	/* A \u0000 in a string is fine JSON; PostgreSQL will say of that message alone that it cannot store it. */
	json_error_t e;
	m->json = json_loadb(m->body.data, m->body.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
	return m->json ? NULL : describe(m, &e);
}

const struct effectd_json *host_json(const struct effectd_message *msg)
{
	struct message *m = (struct message *)msg; /* a cache: the message does not change by being read */
	if (!m->json_tried) {
		m->json_error = parse(m);
		m->json_tried = m->json_error != json_out_of_memory; /* that says nothing about the body */
	}
	return m->json;
}

const char *host_json_error(const struct effectd_message *msg)
{
	host_json(msg);
	return ((const struct message *)msg)->json_error;
}

static const json_t *value(const struct effectd_json *node)
{
	return (const json_t *)node;
}

const struct effectd_json *host_json_member(const struct effectd_json *object, const char *name)
{
	return (const struct effectd_json *)json_object_get(value(object), name);
}

const struct effectd_json *host_json_element(const struct effectd_json *array, size_t index)
{
	return (const struct effectd_json *)json_array_get(value(array), index);
}

size_t host_json_size(const struct effectd_json *node)
{
	return json_is_object(value(node)) ? json_object_size(value(node)) : json_array_size(value(node));
}

effectd_json_kind host_json_kind(const struct effectd_json *node)
{
	static const effectd_json_kind kinds[] = {
		[JSON_OBJECT] = EFFECTD_JSON_OBJECT, [JSON_ARRAY] = EFFECTD_JSON_ARRAY,
		[JSON_STRING] = EFFECTD_JSON_STRING, [JSON_INTEGER] = EFFECTD_JSON_INTEGER,
		[JSON_REAL] = EFFECTD_JSON_REAL,     [JSON_TRUE] = EFFECTD_JSON_BOOL,
		[JSON_FALSE] = EFFECTD_JSON_BOOL,    [JSON_NULL] = EFFECTD_JSON_NULL,
	};
	return node ? kinds[json_typeof(value(node))] : (effectd_json_kind)EFFECTD_JSON_ABSENT;
}

bool host_json_int64(const struct effectd_json *node, int64_t *ret)
{
	if (!json_is_integer(value(node)))
		return false;
	*ret = json_integer_value(value(node));
	return true;
}

bool host_json_bool(const struct effectd_json *node, bool *ret)
{
	if (!json_is_boolean(value(node)))
		return false;
	*ret = json_is_true(value(node));
	return true;
}

bool host_json_text(const struct effectd_json *node, struct effectd_str *ret)
{
	if (!json_is_string(value(node)))
		return false;
	*ret = (struct effectd_str){ json_string_value(value(node)), json_string_length(value(node)) };
	return true;
}

/* ---- a node as it is written ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *p)
{
	while (is_space(*p))
		p++;
	return p;
}

/* Behind a string. */
static const char *skip_string(const char *p)
{
	for (p++; *p != '"'; p++)
		p += *p == '\\';
	return p + 1;
}

/* Walks an object or array and the text that it was parsed from side by side: jansson keeps members in their order.
 * Returns where the text of node ends; *ret is set when wanted, which is not the outermost, was met. The text is known
 * to be well-formed, so it ends with a bracket and is never read behind it. */
static const char *walk(const json_t *node, const char *p, const json_t *wanted, struct effectd_str *ret)
{
	const char *begin = p = skip_space(p);
	if (json_is_object(node)) {
		void *object = (json_t *)node, *i = json_object_iter(object);
		for (p = skip_space(p + 1); i && !ret->data; i = json_object_iter_next(object, i)) {
			p = skip_space(skip_string(skip_space(p + (*p == ','))));
			p = skip_space(walk(json_object_iter_value(i), p + 1, wanted, ret));
		}
		p++;
	} else if (json_is_array(node)) {
		p = skip_space(p + 1);
		for (size_t i = 0; i < json_array_size(node) && !ret->data; i++)
			p = skip_space(walk(json_array_get(node, i), p + (*p == ','), wanted, ret));
		p++;
	} else if (json_is_string(node)) {
		p = skip_string(p);
	} else {
		p += strcspn(p, " \t\n\r,]}");
	}
	if (node == wanted)
		*ret = (struct effectd_str){ begin, (size_t)(p - begin) };
	return p;
}

struct effectd_str host_json_source(const struct effectd_message *msg, const struct effectd_json *node)
{
	const struct message *m = (const struct message *)msg;
	struct effectd_str found = { NULL, 0 };
	switch (host_json_kind(node)) { /* of these there is only one node each */
	case EFFECTD_JSON_ABSENT:
		return found;
	case EFFECTD_JSON_NULL:
		return (struct effectd_str){ "null", 4 };
	case EFFECTD_JSON_BOOL:
		return json_is_true(value(node)) ? (struct effectd_str){ "true", 4 }
						 : (struct effectd_str){ "false", 5 };
	default:
		break;
	}
	const json_t *root = m->json;
	if (root == value(node)) {
		found.data = skip_space(m->body.data);
		found.len = m->body.len - (size_t)(found.data - m->body.data);
		while (is_space(found.data[found.len - 1]))
			found.len--;
	} else if (json_is_object(root) || json_is_array(root)) {
		walk(root, m->body.data, value(node), &found);
	}
	return found;
}

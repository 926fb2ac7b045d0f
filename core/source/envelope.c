#include "source/envelope.h"
#include <stdio.h>
#include <string.h>

enum { SHORT_STRING_MAX = 255 }; /* AMQP's, for names and keys */

const char envelope_members[] = "body, routing_key, exchange, headers, timestamp (seconds since 1970), message_id, "
				"correlation_id, type, app_id, content_type, content_encoding";

/* The properties that are texts. */
static const struct {
	const char *name;
	size_t offset;
} texts[] = {
	{ "message_id", offsetof(struct properties, message_id) },
	{ "correlation_id", offsetof(struct properties, correlation_id) },
	{ "type", offsetof(struct properties, type) },
	{ "app_id", offsetof(struct properties, app_id) },
	{ "content_type", offsetof(struct properties, content_type) },
	{ "content_encoding", offsetof(struct properties, content_encoding) },
};

static const struct member {
	const char *name;
	json_type type;
	const char *must_be;
} others[] = {
	{ "routing_key", JSON_STRING, "a text of at most 255 bytes" },
	{ "exchange", JSON_STRING, "a text of at most 255 bytes" },
	{ "headers", JSON_OBJECT, "an object" },
	{ "timestamp", JSON_INTEGER, "a whole number of seconds since 1970" },
};

/* NULL: fine. */
static const char *wrong_member(const char *name, const json_t *value)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(name, texts[i].name) == 0)
			return json_is_string(value) && json_string_length(value) <= SHORT_STRING_MAX
				       ? NULL
				       : "a text of at most 255 bytes";
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i].name) == 0)
			return json_typeof(value) == others[i].type &&
					       (!json_is_string(value) || json_string_length(value) <= SHORT_STRING_MAX)
				       ? NULL
				       : others[i].must_be;
	return strcmp(name, "body") == 0 ? NULL : "left out";
}

/* Where the value of the member `body` stands in a line that is a valid JSON object. */
static struct str find_body(struct str line)
{
	static const char name[] = "\"body\"";
	const char *p = line.data, *end = line.data + line.len, *value = NULL;
	size_t depth = 0;
	while (p < end) {
		const char *start = p;
		if (*p == '"') {
			for (p++; *p != '"'; p++)
				p += *p == '\\';
			p++;
			if (depth == 1 && !value && (size_t)(p - start) == sizeof(name) - 1 &&
			    memcmp(start, name, sizeof(name) - 1) == 0) {
				const char *colon = p + strspn(p, " \t\r\n");
				if (*colon == ':')
					value = p = colon + 1;
			}
			continue;
		}
		if (value && depth == 1 && (*p == ',' || *p == '}'))
			return (struct str){ value, (size_t)(p - value) };
		depth += *p == '{' || *p == '[';
		depth -= *p == '}' || *p == ']';
		p++;
	}
	return (struct str){ NULL, 0 };
}

static struct str without_blanks(struct str s)
{
	while (s.len > 0 && memchr(" \t\r", s.data[0], 3)) {
		s.data++;
		s.len--;
	}
	while (s.len > 0 && memchr(" \t\r", s.data[s.len - 1], 3))
		s.len--;
	return s;
}

static struct str text_of(const json_t *value)
{
	return (struct str){ json_string_value(value), json_string_length(value) };
}

static struct str copy_text(struct arena *arena, const json_t *value)
{
	const struct str s = text_of(value);
	const char *copy = s.data ? arena_copy(arena, s.data, s.len) : NULL;
	return (struct str){ copy, copy ? s.len : 0 };
}

static bool read_header(struct arena *arena, const char *name, const json_t *value, struct header *ret)
{
	*ret = (struct header){ .name = { arena_copy(arena, name, strlen(name)), strlen(name) } };
	switch (json_typeof(value)) {
	case JSON_STRING:
		ret->kind = HEADER_TEXT;
		ret->text = copy_text(arena, value);
		break;
	case JSON_INTEGER:
		ret->kind = HEADER_INT;
		ret->number = json_integer_value(value);
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		ret->kind = HEADER_BOOL;
		ret->number = json_is_true(value);
		break;
	case JSON_REAL:
		ret->kind = HEADER_REAL;
		ret->real = json_real_value(value);
		break;
	case JSON_NULL:
		ret->kind = HEADER_NULL;
		break;
	default:
		ret->kind = HEADER_NESTED;
		break;
	}
	return ret->name.data;
}

/* The line again: few plugins ask for properties, so they are read when one does. */
static bool decode(struct str encoded, struct arena *arena, struct properties *ret)
{
	json_t *root = json_loadb(encoded.data, encoded.len, JSON_REJECT_DUPLICATES, NULL);
	json_t *headers = json_object_get(root, "headers"), *value;
	const char *name;
	*ret = (struct properties){ 0 };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*(struct str *)((char *)ret + texts[i].offset) = copy_text(arena, json_object_get(root, texts[i].name));
	ret->has_timestamp = json_is_integer(json_object_get(root, "timestamp"));
	ret->timestamp_s = json_integer_value(json_object_get(root, "timestamp"));
	bool good = root;
	ret->headers = arena_alloc(arena, (json_object_size(headers) + 1) * sizeof(*ret->headers));
	json_object_foreach(headers, name, value) good =
		good && ret->headers && read_header(arena, name, value, &ret->headers[ret->header_count++]);
	json_decref(root);
	return good;
}

/* Nothing is parked from here, so nobody asks for the rest. */
static const struct properties_codec codec = { .decode = decode };

bool envelope_read(struct str line, struct message *m, json_t **ret_root, char *text, size_t text_size)
{
	json_error_t e;
	json_t *root = *ret_root = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, &e), *value;
	const char *name;
	if (!json_is_object(root)) {
		snprintf(text, text_size, "the line is no JSON object: %s", root ? "it is another value" : e.text);
		return false;
	}
	json_object_foreach(root, name, value)
	{
		const char *must_be = wrong_member(name, value);
		if (must_be) {
			snprintf(text, text_size, "%.80s must be %s; an envelope has %s", name, must_be,
				 envelope_members);
			return false;
		}
	}
	value = json_object_get(root, "body");
	m->body = json_is_string(value) ? text_of(value) : without_blanks(find_body(line));
	if (!value || !m->body.data) {
		snprintf(text, text_size, "there is no body; an envelope has %s", envelope_members);
		return false;
	}
	m->routing_key = text_of(json_object_get(root, "routing_key"));
	m->exchange = text_of(json_object_get(root, "exchange"));
	m->properties = line;
	m->codec = &codec;
	return true;
}

#include "relay/lane.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void decref(json_t **value)
{
	json_decref(*value);
}

/* false: it is neither text, number nor truth. */
static bool text_of(const json_t *value, char *number, size_t size, const char **ret)
{
	*ret = number;
	switch (json_typeof(value)) {
	case JSON_STRING:
		*ret = json_string_value(value);
		return true;
	case JSON_INTEGER:
		snprintf(number, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return true;
	case JSON_REAL:
		snprintf(number, size, "%.17g", json_real_value(value));
		return true;
	case JSON_TRUE:
		*ret = "true";
		return true;
	case JSON_FALSE:
		*ret = "false";
		return true;
	default:
		return false;
	}
}

enum status headers_each(struct str json, void (*each)(void *arg, const char *name, const char *value), void *arg,
			 struct error *err)
{
	if (!json.data)
		return ST_OK;
	CLEANUP(decref) json_t *object = json_loadb(json.data, json.len, 0, NULL);
	if (!json_is_object(object))
		return error_set(err, ST_INVALID, "its headers are no JSON object");
	const char *name;
	json_t *value;
	json_object_foreach(object, name, value)
	{
		char number[64];
		const char *text;
		if (!text_of(value, number, sizeof(number), &text))
			return error_set(err, ST_INVALID, "its header %.100s is neither text, number, true nor false",
					 name);
		each(arg, name, text);
	}
	return ST_OK;
}

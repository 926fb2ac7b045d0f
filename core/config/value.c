/* Numbers are strict: a unit that is missing, unknown or followed by anything makes the value wrong, and what is said
 * names what would be right, never the value: it may be a secret in the wrong place. */
#include "config/value.h"
#include "base/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void value_format(const struct config_key *key, int64_t number, char *text, size_t size)
{
	if (key->never && number == -1)
		snprintf(text, size, "%s", key->never);
	else if (key->type == KEY_DURATION)
		text_format_duration(number, text, size);
	else if (key->type == KEY_SIZE)
		text_format_size(number, text, size);
	else if (key->type == KEY_BOOL)
		snprintf(text, size, "%s", number ? "yes" : "no");
	else if (key->type == KEY_CHOICE || key->type == KEY_WORD)
		snprintf(text, size, "%s", key->words[number]);
	else
		snprintf(text, size, "%" PRId64, number);
}

static bool fail_words(const struct config_key *key, const char *value, char *text, size_t size)
{
	const char *near = text_nearest(value, key->words);
	size_t used = (size_t)snprintf(text, size, "must be ");
	for (size_t i = 0; key->words[i] && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 i == 0              ? ""
					 : key->words[i + 1] ? ", "
							     : " or ",
					 key->words[i]);
	if (near && used < size)
		snprintf(text + used, size - used, "; did you mean %s?", near);
	return false;
}

static bool parse_number(const struct config_key *key, const char *value, int64_t *ret)
{
	bool yes;
	switch (key->type) {
	case KEY_INT:
		return text_parse_int(value, ret);
	case KEY_DURATION:
		return text_parse_duration(value, ret);
	case KEY_SIZE:
		return text_parse_size(value, ret);
	case KEY_BOOL:
		if (!text_parse_bool(value, &yes))
			return false;
		*ret = yes;
		return true;
	default:
		return false;
	}
}

bool value_parse(const struct config_key *key, const char *value, int64_t *ret, char *text, size_t size)
{
	static const char *const wanted[] = {
		[KEY_INT] = "a whole number",
		[KEY_DURATION] = "a duration like 250ms, 30s, 5min, 12h, 30d",
		[KEY_SIZE] = "a size like 512, 64KiB, 1MiB",
		[KEY_BOOL] = "yes or no",
	};
	if (key->type == KEY_CHOICE || key->type == KEY_WORD) {
		for (int64_t i = 0; key->words[i]; i++) {
			if (strcmp(key->words[i], value) == 0) {
				*ret = i;
				return true;
			}
		}
		return fail_words(key, value, text, size);
	}
	if (key->never && strcmp(value, key->never) == 0) {
		*ret = -1;
		return true;
	}
	int64_t number;
	if (!parse_number(key, value, &number)) {
		snprintf(text, size, "must be %s%s%s", wanted[key->type], key->never ? ", or " : "",
			 key->never ? key->never : "");
		return false;
	}
	if (key->type != KEY_BOOL && (number < key->min || number > key->max)) {
		char min[32], max[32];
		value_format(key, key->min, min, sizeof(min));
		value_format(key, key->max, max, sizeof(max));
		snprintf(text, size, "must be between %s and %s%s%s", min, max, key->never ? ", or " : "",
			 key->never ? key->never : "");
		return false;
	}
	*ret = number;
	return true;
}

/* --- more to ask of a value --- */

static bool has_scheme(const char *value, const char *one, const char *two)
{
	const char *schemes[] = { one, two };
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		const size_t len = strlen(schemes[i]);
		if (strncmp(value, schemes[i], len) == 0 && value[len] && value[len] != '/')
			return true;
	}
	return false;
}

bool value_check_amqp_url(const char *value, char *text, size_t size)
{
	if (has_scheme(value, "amqp://", "amqps://"))
		return true;
	snprintf(text, size, "must be amqp://USER@HOST:PORT/VHOST, or amqps:// for TLS");
	return false;
}

bool value_check_http_url(const char *value, char *text, size_t size)
{
	if (has_scheme(value, "http://", "https://"))
		return true;
	snprintf(text, size, "must be http://HOST:PORT, or https://");
	return false;
}

bool value_check_listen(const char *value, char *text, size_t size)
{
	const char *colon = strrchr(value, ':');
	int64_t port;
	if (!*value || (colon && colon > value && text_parse_int(colon + 1, &port) && port >= 1 && port <= 65535))
		return true;
	snprintf(text, size, "must be ADDRESS:PORT like 127.0.0.1:9464, or empty");
	return false;
}

bool value_check_short(const char *value, char *text, size_t size)
{
	if (strlen(value) <= 255)
		return true;
	snprintf(text, size, "is %zu bytes long: AMQP allows 255", strlen(value));
	return false;
}

bool value_check_answer(const char *value, char *text, size_t size)
{
	if (strcmp(value, "sent") == 0 || strcmp(value, "retry") == 0 || strcmp(value, "dead") == 0)
		return true;
	snprintf(text, size, "must be sent, retry or dead");
	return false;
}

bool value_check_bind(const char *value, char *text, size_t size)
{
	const char *colon = strrchr(value, ':'); /* names of exchanges often have one, routing keys hardly ever */
	if (colon && colon > value && colon - value <= 255 && strlen(colon + 1) <= 255)
		return true;
	snprintf(text, size, "must be EXCHANGE:ROUTING_KEY, each at most 255 bytes");
	return false;
}

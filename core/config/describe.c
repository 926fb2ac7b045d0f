#include "base/text.h"
#include "config/private.h"
#include "config/value.h"
#include <stdio.h>
#include <string.h>

void describe_values(const struct config_key *key, char *text, size_t size)
{
	static const char *const plain[] = {
		[KEY_TEXT] = "text",
		[KEY_PATH] = "a path",
		[KEY_BOOL] = "yes or no",
		[KEY_SECRET_FILE] = "a path",
		[KEY_CREDENTIAL] = "a name",
		[KEY_FAMILY] = "text",
		[KEY_INCLUDE] = "a path or a pattern",
	};
	if (key->words) {
		text_enumerate(key->words, text, size);
	} else if (key->type == KEY_INT || key->type == KEY_DURATION || key->type == KEY_SIZE) {
		char min[32], max[32];
		value_format(key, key->min, min, sizeof(min));
		value_format(key, key->max, max, sizeof(max));
		snprintf(text, size, "%s to %s%s%s", min, max, key->never ? ", or " : "", key->never ? key->never : "");
	} else {
		snprintf(text, size, "%s", plain[key->type]);
	}
}

const char *describe_default(const struct config_key *key)
{
	return key->fallback ? key->fallback : key->sample;
}

const char *describe_reload(const struct config_key *key)
{
	static const char *const words[] = {
		[RELOAD_LIVE] = "at once",
		[RELOAD_CONSUMER] = "consumer",
		[RELOAD_PROCESS] = "restart",
	};
	return words[key->reload];
}

/* Settings of a plugin against the options it declares. Nothing is guessed: an unknown name, a bad value and a missing
 * setting are each reported, with what would be right. */
#include "plugin/options.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

static bool is_family(const struct effectd_option *option)
{
	const size_t len = strlen(option->name);
	return len > 0 && option->name[len - 1] == '*';
}

/* A whole name before a family's first letters, however they are declared. */
const struct effectd_option *plugin_find_option(const struct plugin *plugin, const char *name)
{
	const struct effectd_option *family = NULL;
	for (uint32_t i = 0; i < plugin->descriptor.option_count; i++) {
		const struct effectd_option *option = &plugin->options[i];
		if (strcmp(option->name, name) == 0)
			return option;
		const size_t prefix = strlen(option->name) - 1;
		if (is_family(option) && strncmp(option->name, name, prefix) == 0 && name[prefix])
			family = option;
	}
	return family;
}

const struct plugin_setting *plugin_find_setting(const struct plugin_setting *settings, size_t n, const char *name)
{
	for (size_t i = n; i-- > 0;) /* the last one wins */
		if (strcmp(settings[i].name, name) == 0)
			return &settings[i];
	return NULL;
}

static const struct type {
	const char *name;
	const char *wanted;
	const char *unit;
} types[] = {
	[EFFECTD_OPTION_TEXT] = { "text", "text", "" },
	[EFFECTD_OPTION_INT] = { "int", "a whole number", "" },
	[EFFECTD_OPTION_BOOL] = { "bool", "yes or no", "" },
	[EFFECTD_OPTION_DURATION] = { "duration", "a duration like 250ms, 30s, 5min, 12h, 30d", " ms" },
	[EFFECTD_OPTION_SIZE] = { "size", "a size like 512, 64KiB, 1MiB", " bytes" },
};

const char *plugin_option_type_name(effectd_option_type type)
{
	return type < ARRAY_LEN(types) ? types[type].name : NULL;
}

bool plugin_option_number(const struct effectd_option *option, const char *value, int64_t *ret)
{
	bool yes;
	switch (option->type) {
	case EFFECTD_OPTION_INT:
		return text_parse_int(value, ret);
	case EFFECTD_OPTION_DURATION:
		return text_parse_duration(value, ret);
	case EFFECTD_OPTION_SIZE:
		return text_parse_size(value, ret);
	case EFFECTD_OPTION_BOOL:
		if (!text_parse_bool(value, &yes))
			return false;
		*ret = yes;
		return true;
	default:
		return false;
	}
}

bool plugin_option_range(const struct effectd_option *option, char *text, size_t size)
{
	const char *unit = types[option->type].unit;
	if (option->type == EFFECTD_OPTION_TEXT || option->type == EFFECTD_OPTION_BOOL ||
	    (option->min == 0 && option->max == 0))
		return false;
	if (option->max == INT64_MAX)
		snprintf(text, size, "at least %" PRId64 "%s", option->min, unit);
	else if (option->min == INT64_MIN)
		snprintf(text, size, "at most %" PRId64 "%s", option->max, unit);
	else
		snprintf(text, size, "between %" PRId64 " and %" PRId64 "%s", option->min, option->max, unit);
	return true;
}

bool plugin_check_option_value(const struct effectd_option *option, const char *value, char *text, size_t size)
{
	char range[96];
	int64_t n;
	if (option->type == EFFECTD_OPTION_TEXT)
		return true;
	if (!plugin_option_number(option, value, &n)) {
		snprintf(text, size, "must be %s", types[option->type].wanted);
		return false;
	}
	if (!plugin_option_range(option, range, sizeof(range)) || (n >= option->min && n <= option->max))
		return true;
	snprintf(text, size, "must be %s", range);
	return false;
}

static void describe_unknown(const struct plugin *plugin, const char *name, char *text, size_t size)
{
	const uint32_t count = plugin->descriptor.option_count;
	if (count == 0) {
		snprintf(text, size, "the plugin has no options");
		return;
	}
	AUTOFREE const char **names = calloc(count + 1, sizeof(*names));
	for (uint32_t i = 0; names && i < count; i++)
		names[i] = plugin->options[i].name;
	const char *near = names ? text_nearest(name, names) : NULL;
	if (near)
		snprintf(text, size, "the plugin has no such option: did you mean plugin.%s?", near);
	else
		snprintf(text, size, "the plugin has no such option: effectd plugin show lists them");
}

static bool is_set(const struct plugin *plugin, const struct effectd_option *option,
		   const struct plugin_setting *settings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (plugin_find_option(plugin, settings[i].name) == option)
			return true;
	return false;
}

size_t plugin_check_settings(const struct plugin *plugin, const struct plugin_setting *settings, size_t n,
			     plugin_report *report, void *arg)
{
	char text[512];
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++) {
		const struct effectd_option *option = plugin_find_option(plugin, settings[i].name);
		if (!option)
			describe_unknown(plugin, settings[i].name, text, sizeof(text));
		else if (plugin_check_option_value(option, settings[i].value, text, sizeof(text)))
			continue;
		report(arg, &settings[i], text);
		wrong++;
	}
	for (uint32_t i = 0; i < plugin->descriptor.option_count; i++) {
		const struct effectd_option *option = &plugin->options[i];
		if (!option->required || option->fallback || is_set(plugin, option, settings, n))
			continue;
		snprintf(text, sizeof(text), "plugin.%s is missing: %s", option->name,
			 option->help ? option->help : types[option->type].wanted);
		report(arg, NULL, text);
		wrong++;
	}
	return wrong;
}

void plugin_keep_first(void *arg, const struct plugin_setting *setting, const char *text)
{
	struct first_problem *first = arg;
	if (first->seen++ > 0)
		return;
	error_set(first->err, ST_INVALID, "%s", text);
	if (setting)
		plugin_wrap_setting(first->err, setting);
}

enum status plugin_wrap_setting(struct error *err, const struct plugin_setting *setting)
{
	return setting->file ? error_wrap(err, "%s:%d: plugin.%s", setting->file, setting->line, setting->name)
			     : error_wrap(err, "plugin.%s", setting->name);
}

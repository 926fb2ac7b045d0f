/* plugin.NAME = VALUE settings, checked against the plugin's option table exactly as the core's own keys are. */
#ifndef PLUGIN_OPTIONS_H
#define PLUGIN_OPTIONS_H

#include "plugin/load.h"

struct plugin_setting {
	const char *name, *value; /* name without "plugin." */
	const char *file;         /* where it was written; NULL: nowhere */
	int line;
};

/* A problem, with the setting that has it; NULL: none has. */
typedef void plugin_report(void *arg, const struct plugin_setting *setting, const char *text);

/* A plugin_report that puts the first problem into err, with file and line, as ST_INVALID. arg is this. */
struct first_problem {
	struct error *err;
	size_t seen;
};
void plugin_keep_first(void *arg, const struct plugin_setting *setting, const char *text);

/* Puts where the setting was written in front of the text. */
enum status plugin_wrap_setting(struct error *err, const struct plugin_setting *setting);

/* Calls report for every setting that is unknown (with the nearest known name), missing, malformed or out of range;
 * returns how many there were. setting is NULL for a missing one. */
size_t plugin_check_settings(const struct plugin *plugin, const struct plugin_setting *settings, size_t n,
			     plugin_report *report, void *arg);

/* The option that a setting's name belongs to: its own, or the family name* that it begins with; NULL: none. */
const struct effectd_option *plugin_find_option(const struct plugin *plugin, const char *name);

/* The setting of that very name, the last one if there are several; NULL: none. */
const struct plugin_setting *plugin_find_setting(const struct plugin_setting *settings, size_t n, const char *name);

/* One value by its option; false: text says what it must be. */
bool plugin_check_option_value(const struct effectd_option *option, const char *value, char *text, size_t size);

/* The number that a checked value of INT, BOOL (0, 1), DURATION (ms) or SIZE stands for. */
bool plugin_option_number(const struct effectd_option *option, const char *value, int64_t *ret);

/* What values may be: "between 1 and 10 ms"; false: anything of the type. */
bool plugin_option_range(const struct effectd_option *option, char *text, size_t size);

const char *plugin_option_type_name(effectd_option_type type); /* NULL: there is no such type */

#endif

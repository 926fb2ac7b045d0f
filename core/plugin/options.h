/* plugin.NAME = VALUE settings, checked against the plugin's option table exactly as the core's own keys are. */
#ifndef PLUGIN_OPTIONS_H
#define PLUGIN_OPTIONS_H

#include "plugin/load.h"

struct plugin_setting {
	const char *name, *value; /* name without "plugin." */
	const char *file;         /* where it was written; NULL: nowhere */
	int line;
};

/* Calls report for every setting that is unknown (with the nearest known name), missing, malformed or out of range;
 * returns how many there were. setting is NULL for a missing one. */
size_t plugin_check_settings(const struct plugin *plugin, const struct plugin_setting *settings, size_t n,
			     void (*report)(void *arg, const struct plugin_setting *setting, const char *text),
			     void *arg);

#endif

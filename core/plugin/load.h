/* Opens a plugin file, checks that it may be trusted and that it fits, and never unloads it.
 *
 * The file is opened once and judged by that descriptor (regular, not writable by group or others, nor its parents
 * unless sticky), loaded as /proc/self/fd/N with RTLD_NOW | RTLD_LOCAL, and the descriptor stays open: by a path,
 * dlopen would give the old code back after a rename. A refused plugin is named with what it has and what is needed. */
#ifndef PLUGIN_LOAD_H
#define PLUGIN_LOAD_H

#include "base/error.h"
#include "effectd/plugin.h"

struct plugin {
	char *path;
	struct effectd_plugin descriptor;     /* as much as the plugin has; what it does not know is zero */
	struct effectd_statement *statements; /* copied by stride: this host's layout */
	struct effectd_option *options;
	void *handle;
	int fd;
};

/* Loads path (absolute, or relative to plugin_dir; without a slash it is looked up there). The same file (device,
 * inode) loaded before is returned again. ST_INVALID: err says what is wrong and what to do. Not thread-safe: main
 * thread. */
enum status plugin_load(const struct plugin **ret, const char *plugin_dir, const char *path,
			struct error *err) MUST_USE;

/* ST_INVALID when the plugin declares itself to be another consumer than this one. */
enum status plugin_check_consumer(const struct plugin *plugin, const char *consumer, struct error *err) MUST_USE;

/* Static checks of one statement, before PostgreSQL sees it: name, first word (behind comments), only one. */
enum status plugin_check_statement(const struct effectd_statement *statement, struct error *err) MUST_USE;

#endif

/* What differs between two configurations, by the key table: what a reload would change. */
#ifndef CONFIG_DIFF_H
#define CONFIG_DIFF_H

#include "config/keys.h"

struct config_change {
	const struct config_key *key;
	const char *name;           /* workers, plugin.cents_per_point */
	const char *before, *after; /* as they would be written, secrets masked, cut where they are long */
};
typedef void config_change_report(void *arg, const struct config_change *change);

/* The section of that title ("broker:main"), which both have. Reports every key whose value is another, also where only
 * the default or the content of a file is. Returns how many; report may be NULL. */
size_t config_diff(const struct config *before, const struct config *after, const char *title,
		   config_change_report *report, void *arg);

#endif

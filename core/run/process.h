/* The daemon as a process: loads plugins, starts workers, obeys signals, says what was done, and ends in time. */
#ifndef RUN_PROCESS_H
#define RUN_PROCESS_H

#include "config/config.h"

struct process_options {
	const char *config_file;      /* what a reload reads */
	const char *const *consumers; /* only these; nothing named at all: everything */
	size_t consumer_count;
	const char *const *relays; /* the same */
	size_t relay_count;
	bool retention; /* only retention, besides the consumers and relays named */
};

/* Runs until SIGTERM or SIGINT, then drains within drain_timeout; a second signal ends at once. ST_OK: a clean stop.
 * ST_UNAVAILABLE: another effectd has the runtime_dir. ST_INVALID: a plugin or its settings are wrong, nothing was
 * started; report got the problems. */
enum status process_run(struct config *config, const struct process_options *options, config_report *report,
			void *report_arg, struct error *err) MUST_USE;

#endif

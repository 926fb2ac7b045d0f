/* What `check` found so far: problems and facts, said at once or collected for JSON. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/cli.h"
#include "run/consumer.h"
#include <jansson.h>

struct check {
	const struct cli *cli;
	const struct config *config;
	struct consumer
		*consumers; /* config->consumer_count of them; plugin NULL: it cannot be loaded, which was said */
	size_t problems;
	int exit_code;                                   /* the gravest so far */
	json_t *problem_list, *warning_list, *fact_list; /* with --json, else NULL */
};

/* A config_report; arg is the struct check. */
void check_report(void *arg, const struct config_problem *problem);

/* A problem with its exit code; key may be NULL. */
void check_problem(struct check *c, int exit_code, struct config_place place, const char *section, const char *key,
		   const char *fmt, ...) PRINTF(6, 7);

/* What may be meant so, and yet should be looked at: it does not change the exit code. */
void check_warning(struct check *c, struct config_place place, const char *section, const char *key, const char *fmt,
		   ...) PRINTF(5, 6);

/* What holds: `subject: text` on stdout. */
void check_fact(struct check *c, const char *subject, const char *fmt, ...) PRINTF(3, 4);

/* Asks every server that a consumer uses. */
void check_live(struct check *c);

#endif

/* What a configuration asks for, compared with what runs: which consumers, relays and keepers stay as they are, and
 * what begins, ends or is started anew. A start is a plan made while nothing runs.
 *
 * To make a plan changes nothing but that plugin files are loaded, which stay mapped. */
#ifndef RUN_PLAN_H
#define RUN_PLAN_H

#include "base/buffer.h"
#include "run/hosting.h"

enum plan_action { PLAN_KEEP, PLAN_ADD, PLAN_RESTART, PLAN_STOP };
enum plan_kind { PLAN_CONSUMER, PLAN_RELAY, PLAN_RETENTION };
extern const char *const plan_action_names[], *const plan_kind_names[];

struct plan_step {
	enum plan_action action;
	enum plan_kind kind;
	char name[64];
	struct buffer changes; /* RESTART: `workers 2 -> 4, queue a -> b` */
	/* ADD, RESTART: what is to run, until it was taken. */
	struct consumer *consumer;
	struct hosted_relay relay;
	const struct config_database *database;
};

struct plan {
	struct config *config;
	struct plan_step *steps;
	size_t count;
	struct buffer live;  /* what changes at once, of [effectd] */
	struct buffer later; /* what needs a restart of effectd */
};

/* ST_INVALID: report got the problems of plugins and their settings, err says how many. finish() after it whatever came
 * back. */
enum status plan_make(struct plan *plan, const struct process *p, struct config *config, config_report *report,
		      void *arg, struct error *err) MUST_USE;
void plan_finish(struct plan *plan);

bool plan_changes(const struct plan *plan); /* anything at all */

#endif

#include "run/plan.h"
#include "config/diff.h"
#include <stdio.h>
#include <string.h>

const char *const plan_action_names[] = {
	[PLAN_KEEP] = "keep",
	[PLAN_ADD] = "add",
	[PLAN_RESTART] = "restart",
	[PLAN_STOP] = "stop",
};
const char *const plan_kind_names[] = {
	[PLAN_CONSUMER] = "consumer",
	[PLAN_RELAY] = "relay",
	[PLAN_RETENTION] = "retention",
};

struct planner {
	struct plan *plan;
	const struct process *p;
	const struct config *before; /* of the thing that is compared */
	struct error *err;
};

/* --- what is asked for --- */

static bool everything(const struct process_options *options)
{
	return options->consumer_count + options->relay_count == 0 && !options->retention;
}

static bool is_named(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool wants_consumer(const struct process_options *options, const char *name)
{
	return everything(options) || is_named(options->consumers, options->consumer_count, name);
}

static bool wants_relay(const struct process_options *options, const char *name)
{
	return everything(options) || is_named(options->relays, options->relay_count, name);
}

/* A process for some consumers only leaves retention to others, unless it is told. */
static bool wants_retention(const struct process_options *options)
{
	return everything(options) || options->retention;
}

static const struct config_relay *find_relay(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->relay_count; i++)
		if (strcmp(config->relays[i].name, name) == 0)
			return &config->relays[i];
	return NULL;
}

static const struct config_database *find_database(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->database_count; i++)
		if (strcmp(config->databases[i].name, name) == 0)
			return &config->databases[i];
	return NULL;
}

static enum status check_names(const struct config *config, const struct process_options *options, struct error *err)
{
	for (size_t i = 0; i < options->consumer_count; i++)
		if (!config_find_consumer(config, options->consumers[i]))
			return error_set(err, ST_INVALID, "there is no section [consumer:%s]", options->consumers[i]);
	for (size_t i = 0; i < options->relay_count; i++)
		if (!find_relay(config, options->relays[i]))
			return error_set(err, ST_INVALID, "there is no section [relay:%s]", options->relays[i]);
	return ST_OK;
}

/* --- steps --- */

static struct plan_step *add_step(struct plan *plan, enum plan_kind kind, const char *name, enum plan_action action)
{
	struct plan_step *s = &plan->steps[plan->count++];
	s->kind = kind;
	s->action = action;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

static void add_text(struct buffer *out, const char *text)
{
	buffer_printf(out, "%s%s", out->len > 0 ? ", " : "", text);
}

static void add_change(struct buffer *out, const struct config_change *c)
{
	buffer_printf(out, "%s%s %s -> %s", out->len > 0 ? ", " : "", c->name, c->before, c->after);
}

static void change_of_section(void *arg, const struct config_change *c)
{
	if (c->key->reload == RELOAD_CONSUMER)
		add_change(arg, c);
}

static void diff_named(struct planner *pl, struct buffer *out, const char *kind, const char *name)
{
	char title[80];
	snprintf(title, sizeof(title), "%s:%s", kind, name);
	config_diff(pl->before, pl->plan->config, title, change_of_section, out);
}

static void change_of_watchdog(void *arg, const struct config_change *c)
{
	if (strcmp(c->name, "watchdog") == 0)
		add_change(arg, c);
}

static void change_of_process(void *arg, const struct config_change *c)
{
	struct plan *plan = arg;
	if (c->key->reload == RELOAD_LIVE)
		add_change(&plan->live, c);
	else if (c->key->reload == RELOAD_PROCESS)
		add_change(&plan->later, c);
}

/* --- consumers --- */

static struct consumer *find_hosted(const struct process *p, const char *name)
{
	for (size_t i = 0; i < p->view.consumer_count; i++)
		if (strcmp(p->view.consumers[i]->config->name, name) == 0)
			return p->view.consumers[i];
	return NULL;
}

/* A plugin's name stays and the file is another: it was replaced by rename. */
static void diff_plugin(const struct consumer *old, const struct consumer *new, struct buffer *out)
{
	if (old->plugin == new->plugin || strcmp(old->config->plugin, new->config->plugin) != 0)
		return;
	const char *before = old->plugin->descriptor.version, *after = new->plugin->descriptor.version;
	buffer_printf(out, "%splugin file %s -> %s", out->len > 0 ? ", " : "", before ? before : "(no version)",
		      after ? after : "(no version)");
}

static void diff_consumer(struct planner *pl, const struct consumer *old, const struct consumer *new,
			  struct buffer *out)
{
	pl->before = old->held;
	diff_named(pl, out, "consumer", new->config->name);
	diff_plugin(old, new, out);
	diff_named(pl, out, "broker", new->config->broker_name);
	diff_named(pl, out, "database", new->config->database_name);
	config_diff(old->held, pl->plan->config, "effectd", change_of_watchdog, out);
	/* A person who reloads has mended what was wrong. */
	if (atomic_load((_Atomic bool *)&old->broken))
		add_text(out, "it was broken");
	else if (atomic_load((_Atomic unsigned *)&old->closures) > 0)
		add_text(out, "it was closed");
}

static enum status plan_consumers(struct planner *pl, config_report *report, void *arg, size_t *problems)
{
	struct config *config = pl->plan->config;
	for (size_t i = 0; i < config->consumer_count; i++) {
		const struct config_consumer *section = &config->consumers[i];
		if (!wants_consumer(pl->p->options, section->name))
			continue;
		struct plan_step *s = add_step(pl->plan, PLAN_CONSUMER, section->name, PLAN_ADD);
		const enum status st = crew_create(&s->consumer, config, section, pl->err);
		if (st != ST_OK)
			return st;
		const size_t found = consumer_load(s->consumer, config->process.plugin_dir, report, arg);
		*problems += found;
		const struct consumer *old = find_hosted(pl->p, section->name);
		if (!old || found > 0)
			continue;
		diff_consumer(pl, old, s->consumer, &s->changes);
		s->action = s->changes.len > 0 ? PLAN_RESTART : PLAN_KEEP;
	}
	for (size_t i = 0; i < pl->p->view.consumer_count; i++) {
		const char *name = pl->p->view.consumers[i]->config->name;
		if (!config_find_consumer(config, name))
			add_step(pl->plan, PLAN_CONSUMER, name, PLAN_STOP);
	}
	return ST_OK;
}

/* --- relays --- */

static const struct hosted_relay *find_hosted_relay(const struct process *p, const char *name)
{
	const struct relays *r = &p->context.relays;
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(relay_config(r->list[i].relay)->name, name) == 0)
			return &r->list[i];
	return NULL;
}

static void diff_relay(struct planner *pl, const struct hosted_relay *old, const struct config_relay *new,
		       struct buffer *out)
{
	pl->before = old->held;
	diff_named(pl, out, "relay", new->name);
	diff_named(pl, out, "database", new->database_name);
	for (size_t i = 0; i < new->kinds.count; i++) {
		bool again = false;
		for (size_t j = 0; j < i; j++)
			again |= strcmp(new->kinds.list[i].value, new->kinds.list[j].value) == 0;
		if (!again)
			diff_named(pl, out, "target", new->kinds.list[i].value);
	}
	config_diff(old->held, pl->plan->config, "effectd", change_of_watchdog, out);
}

static enum status plan_relays(struct planner *pl)
{
	struct config *config = pl->plan->config;
	for (size_t i = 0; i < config->relay_count; i++) {
		const struct config_relay *section = &config->relays[i];
		if (!wants_relay(pl->p->options, section->name))
			continue;
		struct plan_step *s = add_step(pl->plan, PLAN_RELAY, section->name, PLAN_ADD);
		const struct hosted_relay *old = find_hosted_relay(pl->p, section->name);
		if (old) {
			diff_relay(pl, old, section, &s->changes);
			s->action = s->changes.len > 0 ? PLAN_RESTART : PLAN_KEEP;
		}
		if (s->action == PLAN_KEEP)
			continue;
		const enum status st = hosted_relay_create(&s->relay, config, section, pl->err);
		if (st != ST_OK)
			return st;
	}
	const struct relays *running = &pl->p->context.relays;
	for (size_t i = 0; i < running->count; i++) {
		const char *name = relay_config(running->list[i].relay)->name;
		if (!find_relay(config, name))
			add_step(pl->plan, PLAN_RELAY, name, PLAN_STOP);
	}
	return ST_OK;
}

/* --- retention --- */

static const struct keeper *find_keeper(const struct process *p, const char *database)
{
	for (size_t i = 0; i < p->view.keeper_count; i++)
		if (strcmp(keeper_database(p->view.keepers[i]), database) == 0)
			return p->view.keepers[i];
	return NULL;
}

static void plan_retention(struct planner *pl)
{
	const struct config *config = pl->plan->config;
	for (size_t i = 0; i < config->database_count && wants_retention(pl->p->options); i++) {
		const struct config_database *database = &config->databases[i];
		struct plan_step *s = add_step(pl->plan, PLAN_RETENTION, database->name, PLAN_ADD);
		s->database = database;
		const struct keeper *old = find_keeper(pl->p, database->name);
		if (!old)
			continue;
		pl->before = keeper_config(old);
		diff_named(pl, &s->changes, "database", database->name);
		s->action = s->changes.len > 0 ? PLAN_RESTART : PLAN_KEEP;
	}
	for (size_t i = 0; i < pl->p->view.keeper_count; i++) {
		const char *name = keeper_database(pl->p->view.keepers[i]);
		if (!find_database(config, name))
			add_step(pl->plan, PLAN_RETENTION, name, PLAN_STOP);
	}
}

/* --- all of it --- */

enum status plan_make(struct plan *plan, const struct process *p, struct config *config, config_report *report,
		      void *arg, struct error *err)
{
	*plan = (struct plan){ .config = config_hold(config) };
	struct planner pl = { .plan = plan, .p = p, .err = err };
	size_t problems = 0;
	enum status st = check_names(config, p->options, err);
	if (st != ST_OK)
		return st;
	plan->steps = calloc(config->consumer_count + config->relay_count + config->database_count +
				     p->view.consumer_count + p->context.relays.count + p->view.keeper_count + 1,
			     sizeof(*plan->steps));
	if (!plan->steps)
		return error_oom(err);
	/* Keepers first: consumers are told whom to wake. */
	plan_retention(&pl);
	st = plan_consumers(&pl, report, arg, &problems);
	if (st == ST_OK && problems > 0)
		st = error_set(err, ST_INVALID, "%zu %s, nothing was %s", problems,
			       problems == 1 ? "problem" : "problems", p->view.started ? "changed" : "started");
	if (st == ST_OK)
		st = plan_relays(&pl);
	size_t runs = 0;
	for (size_t i = 0; i < plan->count; i++)
		runs += plan->steps[i].action != PLAN_STOP && plan->steps[i].kind != PLAN_RETENTION;
	if (st == ST_OK && runs == 0 && !p->options->retention)
		st = error_set(err, ST_INVALID,
			       "neither a [consumer:NAME] nor a [relay:NAME] section: there is nothing to run");
	if (st == ST_OK && p->config != config)
		config_diff(p->config, config, "effectd", change_of_process, plan);
	return st;
}

void plan_finish(struct plan *plan)
{
	for (size_t i = 0; plan->steps && i < plan->count; i++) {
		buffer_finish(&plan->steps[i].changes);
		crew_destroy(plan->steps[i].consumer);
		hosted_relay_destroy(&plan->steps[i].relay);
	}
	free(plan->steps);
	buffer_finish(&plan->live);
	buffer_finish(&plan->later);
	config_destroy(plan->config);
	*plan = (struct plan){ 0 };
}

bool plan_changes(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		if (plan->steps[i].action != PLAN_KEEP)
			return true;
	return plan->live.len + plan->later.len > 0;
}

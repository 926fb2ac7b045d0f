/* Reload: the whole new configuration is read and checked, plugins and all, before anything is touched. A bad one
 * changes nothing but a log line, a metric, and what the asker is told. */
#include "base/log.h"
#include "run/apply.h"
#include <jansson.h>
#include <string.h>

/* What the asker is told. Out of memory shows as NULLs, which jansson takes. */
struct answer {
	json_t *problems;
	size_t problem_count;
};

static void take_problem(void *arg, const struct config_problem *problem)
{
	struct answer *a = arg;
	a->problem_count++;
	log_error("configuration_problem", LOG_STR("file", problem->place.file), LOG_INT("line", problem->place.line),
		  LOG_STR("section", problem->section), LOG_STR("key", problem->key),
		  LOG_STR("problem", problem->text));
	json_array_append_new(a->problems,
			      json_pack("{ss? si ss? ss? ss}", "file", problem->place.file, "line", problem->place.line,
					"section", problem->section, "key", problem->key, "text", problem->text));
}

static json_t *plan_json(const struct plan *plan)
{
	json_t *steps = json_array();
	for (size_t i = 0; i < plan->count; i++) {
		const struct plan_step *s = &plan->steps[i];
		json_array_append_new(steps, json_pack("{ss ss ss ss}", "action", plan_action_names[s->action], "what",
						       plan_kind_names[s->kind], "name", s->name, "changes",
						       buffer_text(&s->changes)));
	}
	return steps;
}

static void tell(struct control_request *request, const char *result, const struct plan *plan, const struct answer *a,
		 const struct error *err)
{
	if (!request)
		return;
	json_t *all = json_pack("{ss so ss ss sO ss}", "result", result, "plan", plan_json(plan), "at_once",
				buffer_text(&plan->live), "needs_restart", buffer_text(&plan->later), "problems",
				a->problems, "error", err->text);
	AUTOFREE char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	control_answer(request, text ? text : "{\"result\": \"refused\", \"error\": \"out of memory\"}");
}

static void count(struct process *p, bool applied)
{
	pthread_mutex_lock(&p->view.lock);
	p->view.reloads.applied += applied;
	p->view.reloads.refused += !applied;
	p->view.reloads.last_refused = !applied;
	pthread_mutex_unlock(&p->view.lock);
}

static enum status make(struct plan *plan, const struct process *p, struct answer *a, struct error *err)
{
	struct config *config = NULL;
	enum status st = config_load(&config, p->options->config_file, take_problem, a);
	if (st != ST_OK)
		return error_set(err, st, "%zu %s in %s", a->problem_count,
				 a->problem_count == 1 ? "problem" : "problems", p->options->config_file);
	st = plan_make(plan, p, config, take_problem, a, err);
	config_destroy(config);
	return st;
}

static const char *apply(struct plan *plan, struct process *p, struct error *err)
{
	monitor_reloading(p->monitor, true);
	const bool changes = plan_changes(plan);
	const enum status st = plan_apply(plan, p, err);
	if (st == ST_STOPPED)
		return "stopped";
	if (plan->later.len > 0)
		log_warn("needs_restart", LOG_STR("changes", buffer_text(&plan->later)),
			 LOG_STR("next", "restart effectd to make these take effect"));
	if (st != ST_OK)
		log_error("reload_incomplete", LOG_ERR(err));
	else
		log_info("reloaded", LOG_STR("file", p->options->config_file),
			 LOG_STR("at_once", plan->live.len > 0 ? buffer_text(&plan->live) : NULL));
	count(p, st == ST_OK);
	monitor_reloading(p->monitor, false);
	return st != ST_OK ? "incomplete" : changes ? "applied" : "unchanged";
}

void reload(struct process *p, bool dry_run, struct control_request *request)
{
	struct error err = { 0 };
	struct plan plan = { 0 };
	struct answer answer = { .problems = json_array() };
	const enum status st = make(&plan, p, &answer, &err);
	const char *result = "planned";
	if (st != ST_OK) {
		result = "refused";
		log_error("reload_refused", LOG_ERR(&err),
			  LOG_STR("next", "what ran goes on unchanged; `effectd check` shows every problem"));
		if (!dry_run)
			count(p, false);
	} else if (!dry_run) {
		result = apply(&plan, p, &err);
	}
	tell(request, result, &plan, &answer, &err);
	json_decref(answer.problems);
	plan_finish(&plan);
}

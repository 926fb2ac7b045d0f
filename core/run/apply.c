#include "run/apply.h"
#include "base/clock.h"
#include "base/log.h"
#include "run/summary.h"
#include <string.h>

enum { LOOK_MS = 20 /* whether threads have ended, while some are told to */ };

/* False: the process must end. */
static bool wait_for_end(struct process *p)
{
	events_wait(p, clock_mono_ms() + LOOK_MS);
	return p->ends == 0;
}

static void log_step(const struct plan_step *s)
{
	log_info("reload_step", LOG_STR("action", plan_action_names[s->action]),
		 LOG_STR("what", plan_kind_names[s->kind]), LOG_STR("name", s->name),
		 LOG_STR("changes", s->changes.len > 0 ? buffer_text(&s->changes) : NULL));
}

/* --- keepers --- */

static size_t keeper_index(const struct process *p, const char *database)
{
	size_t i = 0;
	while (i < p->view.keeper_count && strcmp(keeper_database(p->view.keepers[i]), database) != 0)
		i++;
	return i;
}

/* It is told to end, and freed when none of its consumers is left that could write to it. */
static void retire_keeper(struct process *p, size_t i)
{
	struct keeper *k = p->view.keepers[i];
	pthread_mutex_lock(&p->view.lock);
	p->view.keepers[i] = p->view.keepers[--p->view.keeper_count];
	pthread_mutex_unlock(&p->view.lock);
	keeper_stop(k);
	p->retired[p->retired_count++] = k;
}

static enum status apply_retention(struct plan *plan, struct plan_step *s, struct process *p, struct error *err)
{
	const size_t i = keeper_index(p, s->name);
	if (i < p->view.keeper_count)
		retire_keeper(p, i);
	if (s->action == PLAN_STOP)
		return ST_OK;
	struct keeper *k;
	const enum status st = keeper_start(&k, plan->config, s->database, err);
	if (st != ST_OK)
		return st;
	pthread_mutex_lock(&p->view.lock);
	p->view.keepers[p->view.keeper_count++] = k;
	pthread_mutex_unlock(&p->view.lock);
	return ST_OK;
}

static void free_retired(struct process *p)
{
	size_t left = 0;
	for (size_t i = 0; i < p->retired_count; i++) {
		while (!keeper_join(p->retired[i], 0) && wait_for_end(p))
			;
		if (p->ends > 0) /* whoever ends the process joins it */
			p->retired[left++] = p->retired[i];
		else
			keeper_destroy(p->retired[i]);
	}
	p->retired_count = left;
}

/* --- consumers --- */

static size_t consumer_index(const struct process *p, const char *name)
{
	size_t i = 0;
	while (i < p->view.consumer_count && strcmp(p->view.consumers[i]->config->name, name) != 0)
		i++;
	return i;
}

static bool drain_crew(struct process *p, struct consumer *c)
{
	const struct drain drain = process_drain(p);
	crew_stop(c, STOP_DRAIN, drain.fetch_until_ms, drain.deadline_ms);
	while (crew_join(c, 0) > 0)
		if (!wait_for_end(p))
			return false;
	return true;
}

/* What is counted goes on, and so does its part in probation. Nobody writes to the old one any more. */
static void inherit(struct consumer *new, const struct consumer *old)
{
	new->counters = old->counters;
	new->rate = old->rate;
	new->met = old->met;
	for (size_t i = 0; i < PARKED_STATUS_COUNT; i++)
		new->parked[i] = old->parked[i];
	new->parked_known = old->parked_known;
}

/* It hinders nobody's probation any longer. */
static void leave_probation(struct process *p, struct consumer *c)
{
	if (!atomic_exchange(&c->met, true))
		atomic_fetch_sub(&p->context.probation.left, 1);
}

static enum status start_crew(struct process *p, struct consumer *c, struct error *err)
{
	const size_t keeper = keeper_index(p, c->config->database->name);
	if (keeper < p->view.keeper_count)
		c->keeper_fd = keeper_fd(p->view.keepers[keeper]);
	const enum status st = crew_start(c, &p->context, err);
	if (st != ST_OK) /* those that run stop as well, and readiness tells */
		atomic_store(&c->broken, true);
	return st;
}

static enum status apply_consumer(struct plan_step *s, struct process *p, struct error *err)
{
	struct view *v = &p->view;
	const size_t i = consumer_index(p, s->name);
	struct consumer *old = i < v->consumer_count ? v->consumers[i] : NULL, *new = s->consumer;
	if (old && !drain_crew(p, old))
		return error_set(err, ST_STOPPED, "told to end");
	s->consumer = NULL;
	/* A message that killed a process is met by consumers that began with it. */
	if (new && !old)
		new->met = v->started;
	if (new &&old)
		inherit(new, old);
	else if (old)
		leave_probation(p, old);
	pthread_mutex_lock(&v->lock);
	if (new)
		v->consumers[i] = new;
	else
		memmove(&v->consumers[i], &v->consumers[i + 1], (v->consumer_count - i - 1) * sizeof(*v->consumers));
	v->consumer_count += (size_t)(new != NULL) - (size_t)(old != NULL);
	pthread_mutex_unlock(&v->lock);
	if (old && !new)
		summary_log(old->config->name, &old->counters);
	crew_destroy(old);
	return new ? start_crew(p, new, err) : ST_OK;
}

/* --- relays --- */

static size_t relay_index(const struct process *p, const char *name)
{
	const struct relays *r = &p->context.relays;
	size_t i = 0;
	while (i < r->count && strcmp(relay_config(r->list[i].relay)->name, name) != 0)
		i++;
	return i;
}

static enum status apply_relay(struct plan_step *s, struct process *p, struct error *err)
{
	struct relays *r = &p->context.relays;
	const size_t i = relay_index(p, s->name);
	if (i < r->count) {
		relay_stop(r->list[i].relay, process_drain(p).deadline_ms);
		while (!relay_join(r->list[i].relay, 0))
			if (!wait_for_end(p))
				return error_set(err, ST_STOPPED, "told to end");
		pthread_mutex_lock(&p->view.lock);
		struct hosted_relay old = relays_remove(r, i);
		pthread_mutex_unlock(&p->view.lock);
		hosted_relay_destroy(&old);
	}
	if (s->action == PLAN_STOP)
		return ST_OK;
	pthread_mutex_lock(&p->view.lock);
	const enum status st = relays_add(r, &s->relay, err);
	pthread_mutex_unlock(&p->view.lock);
	if (st != ST_OK)
		return st;
	struct relay *relay = s->relay.relay;
	s->relay = (struct hosted_relay){ 0 };
	return relay_start(relay, err);
}

/* --- all of it --- */

static enum status apply_step(struct plan *plan, struct plan_step *s, struct process *p, struct error *err)
{
	switch (s->kind) {
	case PLAN_CONSUMER:
		return apply_consumer(s, p, err);
	case PLAN_RELAY:
		return apply_relay(s, p, err);
	case PLAN_RETENTION:
		return apply_retention(plan, s, p, err);
	}
	return error_set(err, ST_INTERNAL, "a step of no kind");
}

/* Room for all that may be there at a time, before anything is changed. */
static enum status make_room(const struct plan *plan, struct process *p, struct error *err)
{
	struct view *v = &p->view;
	const size_t consumers = v->consumer_count + plan->count, keepers = v->keeper_count + plan->count;
	pthread_mutex_lock(&v->lock);
	struct consumer **more_consumers = realloc(v->consumers, (consumers + 1) * sizeof(*more_consumers));
	if (more_consumers)
		v->consumers = more_consumers;
	struct keeper **more_keepers = realloc(v->keepers, (keepers + 1) * sizeof(*more_keepers));
	if (more_keepers)
		v->keepers = more_keepers;
	pthread_mutex_unlock(&v->lock);
	struct keeper **retired = realloc(p->retired, (p->retired_count + keepers + 1) * sizeof(*retired));
	if (retired)
		p->retired = retired;
	return more_consumers && more_keepers && retired ? ST_OK : error_oom(err);
}

static void put_in_force(struct process *p, struct config *config)
{
	struct config *before = p->config;
	p->config = config_hold(config);
	pthread_mutex_lock(&p->view.lock);
	p->view.config = config;
	p->view.reloads.loaded_s = clock_real_us() / 1000000;
	pthread_mutex_unlock(&p->view.lock);
	log_setup((enum log_level)config->process.log_level, (enum log_format)config->process.log_format);
	config_destroy(before);
}

enum status plan_apply(struct plan *plan, struct process *p, struct error *err)
{
	enum status st = make_room(plan, p, err);
	if (st != ST_OK)
		return st;
	put_in_force(p, plan->config);
	p->applying = true;
	for (size_t i = 0; i < plan->count; i++) {
		struct plan_step *s = &plan->steps[i];
		if (s->action == PLAN_KEEP)
			continue;
		if (p->view.started)
			log_step(s);
		struct error failed = { 0 };
		const enum status step = apply_step(plan, s, p, &failed);
		if (step != ST_OK && st == ST_OK) {
			*err = failed;
			st = step;
		}
		if (step == ST_STOPPED || (step != ST_OK && !p->view.started))
			break;
	}
	if (st != ST_STOPPED)
		free_retired(p);
	p->applying = false;
	return st;
}

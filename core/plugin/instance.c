/* An instance: made for one worker, prepared again on each of its sessions, destroyed with it. */
#include "plugin/instance.h"
#include "plugin/host.h"
#include <stdio.h>
#include <string.h>

/* Names for PostgreSQL: short, and none that a plugin could choose to clash with the core's own. */
static enum status name_statements(struct plugin_instance *p, struct error *err)
{
	p->prepared = calloc(p->statement_count + 1, sizeof(*p->prepared));
	if (!p->prepared)
		return error_oom(err);
	for (size_t i = 0; i < p->statement_count; i++) {
		char name[24];
		const int len = snprintf(name, sizeof(name), "p%zu", i);
		p->prepared[i].name = arena_copy(&p->memory, name, (size_t)len);
		p->prepared[i].sql = p->statements[i].sql;
		if (!p->prepared[i].name)
			return error_oom(err);
	}
	return ST_OK;
}

static enum status set_up(struct plugin_instance *p, plugin_report *report, void *arg, struct error *err)
{
	enum status st = plugin_check_consumer(p->plugin, p->consumer, err);
	if (st != ST_OK)
		return st;
	if (plugin_check_settings(p->plugin, p->settings, p->setting_count, report, arg) > 0)
		return ST_INVALID;

	p->statement_count = p->plugin->descriptor.statement_count;
	p->statements = calloc(p->statement_count + 1, sizeof(*p->statements));
	if (!p->statements)
		return error_oom(err);
	for (size_t i = 0; i < p->statement_count; i++)
		p->statements[i] = p->plugin->statements[i];
	if (setup_configure(p, report, arg) > 0)
		return ST_INVALID;
	return name_statements(p, err);
}

/* ST_INVALID without a text: it was reported. */
static enum status create(struct plugin_instance **ret, const struct plugin *plugin, const char *consumer,
			  const struct plugin_setting *settings, size_t n, plugin_report *report, void *arg,
			  struct error *err)
{
	struct plugin_instance *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	p->plugin = plugin;
	p->consumer = consumer;
	p->settings = settings;
	p->setting_count = n;
	p->claim = EFFECTD_CLAIM_KEY;
	p->doing = &p->doing_here;
	arena_init(&p->memory);
	enum status st = set_up(p, report, arg, err);
	if (st != ST_OK) {
		plugin_instance_destroy(p);
		return st;
	}
	*ret = p;
	return ST_OK;
}

enum status plugin_instance_create(struct plugin_instance **ret, const struct plugin *plugin, const char *consumer,
				   const struct plugin_setting *settings, size_t n, struct error *err)
{
	struct first_problem first = { .err = err };
	return create(ret, plugin, consumer, settings, n, plugin_keep_first, &first, err);
}

struct counted {
	size_t count;
	plugin_report *report;
	void *arg;
};

static void count(void *arg, const struct plugin_setting *setting, const char *text)
{
	struct counted *c = arg;
	c->count++;
	c->report(c->arg, setting, text);
}

size_t plugin_instance_check(const struct plugin *plugin, const char *consumer, const struct plugin_setting *settings,
			     size_t n, plugin_report *report, void *arg)
{
	struct plugin_instance *p = NULL;
	struct counted counted = { 0, report, arg };
	struct error err = { 0 };
	if (create(&p, plugin, consumer, settings, n, count, &counted, &err) != ST_OK && counted.count == 0)
		count(&counted, NULL, err.text);
	plugin_instance_destroy(p);
	return counted.count;
}

void plugin_instance_destroy(struct plugin_instance *p)
{
	if (!p)
		return;
	if (p->configured && p->plugin->descriptor.destroy)
		p->plugin->descriptor.destroy(p->state);
	free(p->statements);
	free(p->prepared);
	arena_finish(&p->memory);
	free(p);
}

/* An instance: made for one worker, prepared again on each of its sessions, destroyed with it. */
#include "plugin/instance.h"
#include "plugin/host.h"
#include <stdio.h>
#include <string.h>

struct first_problem {
	size_t seen;
	struct error *err;
};

static void keep_first(void *arg, const struct plugin_setting *setting, const char *text)
{
	struct first_problem *first = arg;
	if (first->seen++ > 0)
		return;
	if (!setting)
		error_set(first->err, ST_INVALID, "%s", text);
	else if (setting->file)
		error_set(first->err, ST_INVALID, "%s:%d: plugin.%s: %s", setting->file, setting->line, setting->name,
			  text);
	else
		error_set(first->err, ST_INVALID, "plugin.%s: %s", setting->name, text);
}

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

static enum status set_up(struct plugin_instance *p, const struct plugin_setting *settings, size_t n, struct error *err)
{
	enum status st = plugin_check_consumer(p->plugin, p->consumer, err);
	if (st != ST_OK)
		return st;
	struct first_problem first = { 0, err };
	if (plugin_check_settings(p->plugin, settings, n, keep_first, &first) > 0)
		return ST_INVALID;

	p->statement_count = p->plugin->descriptor.statement_count;
	p->statements = calloc(p->statement_count + 1, sizeof(*p->statements));
	if (!p->statements)
		return error_oom(err);
	for (size_t i = 0; i < p->statement_count; i++)
		p->statements[i] = p->plugin->statements[i];
	if ((st = setup_configure(p, settings, n, err)) != ST_OK)
		return st;
	return name_statements(p, err);
}

enum status plugin_instance_create(struct plugin_instance **ret, const struct plugin *plugin, const char *consumer,
				   const struct plugin_setting *settings, size_t n, struct error *err)
{
	struct plugin_instance *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	p->plugin = plugin;
	p->consumer = consumer;
	p->claim = EFFECTD_CLAIM_KEY;
	p->doing = &p->doing_here;
	arena_init(&p->memory);
	enum status st = set_up(p, settings, n, err);
	if (st != ST_OK) {
		plugin_instance_destroy(p);
		return st;
	}
	*ret = p;
	return ST_OK;
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

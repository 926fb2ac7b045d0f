#include "run/consumer.h"
#include "run/params.h"
#include <stdio.h>

enum status consumer_init(struct consumer *c, const struct config_consumer *config, struct error *err)
{
	c->config = config;
	c->settings = params_of_plugin(config);
	c->vitals = vitals_create(consumer_vitals_count(c));
	return c->settings && c->vitals ? ST_OK : error_oom(err);
}

void consumer_finish(struct consumer *c)
{
	free(c->settings);
	free(c->vitals);
}

struct reporter {
	config_report *report;
	void *arg;
	const struct config_consumer *consumer;
	char section[80];
};

static void report_setting(void *arg, const struct plugin_setting *setting, const char *text)
{
	const struct reporter *r = arg;
	char key[160];
	snprintf(key, sizeof(key), "plugin.%s", setting ? setting->name : "");
	struct config_problem problem = { r->consumer->place, r->section, setting ? key : NULL, text };
	if (setting && setting->file)
		problem.place = (struct config_place){ setting->file, setting->line };
	r->report(r->arg, &problem);
}

size_t consumer_load(struct consumer *c, const char *plugin_dir, config_report *report, void *arg)
{
	const struct plugin *plugin = NULL;
	struct error err = { 0 };
	struct reporter r = { .report = report, .arg = arg, .consumer = c->config };
	snprintf(r.section, sizeof(r.section), "consumer:%s", c->config->name);
	enum status st = plugin_load(&plugin, plugin_dir, c->config->plugin, &err);
	if (st == ST_OK)
		st = plugin_check_consumer(plugin, c->config->name, &err);
	if (st != ST_OK) {
		report(arg, &(struct config_problem){ c->config->plugin_place, r.section, "plugin", err.text });
		return 1;
	}
	const size_t problems =
		plugin_check_settings(plugin, c->settings, c->config->settings.count, report_setting, &r);
	if (problems == 0)
		c->plugin = plugin;
	return problems;
}

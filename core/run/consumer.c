#include "run/consumer.h"
#include "plugin/instance.h"
#include "run/params.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum status consumer_init(struct consumer *c, const struct config_consumer *config, struct error *err)
{
	c->config = config;
	c->keeper_fd = -1;
	c->settings = params_of_plugin(config);
	c->vitals = vitals_create(consumer_vitals_count(c));
	return c->settings && c->vitals ? ST_OK : error_oom(err);
}

void consumer_finish(struct consumer *c)
{
	free(c->settings);
	free(c->vitals);
}

void consumer_reporter_init(struct consumer_reporter *r, const struct config_consumer *config, config_report *report,
			    void *arg)
{
	*r = (struct consumer_reporter){ .report = report, .arg = arg, .consumer = config };
	snprintf(r->section, sizeof(r->section), "consumer:%s", config->name);
}

/* What is no single setting's is the plugin's. */
void consumer_report_setting(void *reporter, const struct plugin_setting *setting, const char *text)
{
	const struct consumer_reporter *r = reporter;
	char key[160] = "plugin";
	if (setting)
		snprintf(key, sizeof(key), "plugin.%s", setting->name);
	struct config_problem problem = { r->consumer->plugin_place, r->section, key, text };
	if (setting && setting->file)
		problem.place = (struct config_place){ setting->file, setting->line };
	r->report(r->arg, &problem);
}

/* A name that is not in a plugin_dir of one's own is mostly that of a plugin that comes with effectd. */
static void point_to_shipped(const char *plugin_dir, const char *name, struct error *err)
{
	if (err->code == ENOENT && !strchr(name, '/') && strcmp(plugin_dir, config_shipped_plugin_dir) != 0)
		error_set(err, err->status,
			  "%s is not in plugin_dir, %s; the plugins that come with effectd are in %s: copy it, or name "
			  "it with its path",
			  name, plugin_dir, config_shipped_plugin_dir);
}

size_t consumer_load(struct consumer *c, const char *plugin_dir, config_report *report, void *arg)
{
	const struct plugin *plugin = NULL;
	struct error err = { 0 };
	struct consumer_reporter r;
	consumer_reporter_init(&r, c->config, report, arg);
	enum status st =
		plugin_load(&plugin, strchr(c->config->plugin, '/') ? "." : plugin_dir, c->config->plugin, &err);
	if (st == ST_OK)
		st = plugin_check_consumer(plugin, c->config->name, &err);
	if (st != ST_OK) {
		point_to_shipped(plugin_dir, c->config->plugin, &err);
		report(arg, &(struct config_problem){ c->config->plugin_place, r.section, "plugin", err.text });
		return 1;
	}
	const size_t problems = plugin_instance_check(plugin, c->config->name, c->settings, c->config->settings.count,
						      consumer_report_setting, &r);
	if (problems == 0)
		c->plugin = plugin;
	return problems;
}

/* effectd check: the configuration and the plugins, every problem in one run; with --live also what the servers say. */
#include "base/text.h"
#include "cli/check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- what was found --- */

static json_t *optional_text(const char *text)
{
	return text ? json_string(text) : json_null();
}

/* Said at once, or kept for JSON. */
static void add_finding(json_t *list, const struct config_problem *p)
{
	if (!list) {
		config_report_stderr(NULL, p);
		return;
	}
	json_array_append_new(list, json_pack("{so si so so ss}", "file", optional_text(p->place.file), "line",
					      p->place.line, "section", optional_text(p->section), "key",
					      optional_text(p->key), "text", p->text));
}

static void add_problem(struct check *c, int exit_code, const struct config_problem *p)
{
	c->problems++;
	/* sysexits' numbers happen to rise with gravity: unavailable, permission, configuration */
	if (exit_code > c->exit_code)
		c->exit_code = exit_code;
	add_finding(c->problem_list, p);
}

void check_report(void *arg, const struct config_problem *problem)
{
	add_problem(arg, EXIT_CONFIGURATION, problem);
}

void check_problem(struct check *c, int exit_code, struct config_place place, const char *section, const char *key,
		   const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_problem(c, exit_code, &(struct config_problem){ place, section, key, text });
}

void check_warning(struct check *c, struct config_place place, const char *section, const char *key, const char *fmt,
		   ...)
{
	char text[2048];
	const size_t head = c->warning_list ? 0 : strlen(strcpy(text, "warning: "));
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text + head, sizeof(text) - head, fmt, ap);
	va_end(ap);
	add_finding(c->warning_list, &(struct config_problem){ place, section, key, text });
}

void check_fact(struct check *c, const char *subject, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (c->fact_list)
		json_array_append_new(c->fact_list, json_pack("{ss ss}", "subject", subject, "text", text));
	else
		printf("%s: %s\n", subject, text);
}

struct check_subject check_subject_of(const char *kind, const char *name, struct config_place place)
{
	struct check_subject s = { .place = place };
	snprintf(s.section, sizeof(s.section), "%s:%s", kind, name);
	snprintf(s.title, sizeof(s.title), "%s %s", kind, name);
	return s;
}

void check_error(struct check *c, const struct check_subject *s, struct config_place place, const char *key,
		 int exit_code, const struct error *err)
{
	if (err->sqlstate[0])
		check_problem(c, exit_code, place, s->section, key, "%s (SQLSTATE %s)", err->text, err->sqlstate);
	else
		check_problem(c, exit_code, place, s->section, key, "%s", err->text);
}

/* 403, and 401 of the management interface: user, password or permission; 530: virtual host, or a login is wanted; 535:
 * SMTP's word for a wrong password. Else what was refused does not fit what is there. */
int check_peer_exit_code(const struct error *err)
{
	static const int permission[] = { 401, 403, 530, 535 };
	if (err->status != ST_REFUSED)
		return cli_exit_code(err);
	for (size_t i = 0; i < ARRAY_LEN(permission); i++)
		if (err->code == permission[i])
			return EXIT_PERMISSION;
	return EXIT_CONFIGURATION;
}

struct check_span check_span(int64_t ms)
{
	struct check_span s;
	text_format_duration(ms, s.text, sizeof(s.text));
	return s;
}

/* --- plugins --- */

static void check_plugins(struct check *c)
{
	struct error err = { 0 };
	for (size_t i = 0; i < c->config->consumer_count; i++) {
		struct consumer *consumer = &c->consumers[i];
		if (consumer_init(consumer, &c->config->consumers[i], &err) != ST_OK)
			check_problem(c, EXIT_INTERNAL, consumer->config->place, NULL, NULL, "%s", err.text);
		else if (consumer_load(consumer, c->config->process.plugin_dir, check_report, c) > 0)
			continue; /* it was said */
	}
	if (c->config->consumer_count == 0 && c->config->relay_count == 0)
		check_problem(c, EXIT_CONFIGURATION, (struct config_place){ c->cli->config_file, 0 }, NULL, NULL,
			      "there is no [consumer:NAME] section: nothing would run");
}

/* --- windows --- */

struct warned {
	struct check *check;
	const struct config_consumer *consumer;
};

static void warn_of_window(void *arg, const char *key, const char *text)
{
	const struct warned *w = arg;
	char section[80];
	snprintf(section, sizeof(section), "consumer:%s", w->consumer->name);
	check_warning(w->check, w->consumer->place, section, key, "%s", text);
}

static void check_windows(struct check *c)
{
	for (size_t i = 0; i < c->config->consumer_count; i++)
		interlock_check(&c->config->consumers[i], &c->queues[i], warn_of_window,
				&(struct warned){ c, &c->config->consumers[i] });
}

/* --- the end --- */

static int print_json(const struct check *c)
{
	struct buffer out = { 0 };
	json_t *all = json_pack("{sI sO sO sO}", "problem_count", (json_int_t)c->problems, "problems", c->problem_list,
				"warnings", c->warning_list, "facts", c->fact_list);
	AUTOFREE char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	if (!text) {
		cli_message(c->cli, "out of memory");
		return EXIT_INTERNAL;
	}
	buffer_printf(&out, "%s\n", text);
	return cli_print(c->cli, &out);
}

static int conclude(const struct check *c, bool live)
{
	if (c->problem_list) {
		const int rc = print_json(c);
		return rc != EXIT_FINE ? rc : c->exit_code;
	}
	fflush(stdout); /* facts come before the last word */
	if (c->problems > 0) {
		fprintf(stderr, "%zu %s\n", c->problems, c->problems == 1 ? "problem" : "problems");
		return c->exit_code;
	}
	struct buffer out = { 0 };
	const struct config *config = c->config;
	size_t workers = 0;
	for (size_t i = 0; i < config->consumer_count; i++)
		workers += (size_t)config->consumers[i].workers;
	buffer_printf(&out, "%s fine: %zu %s, %zu %s, %zu %s, %zu %s",
		      live ? "configuration and servers are" : "configuration is", config->consumer_count,
		      config->consumer_count == 1 ? "consumer" : "consumers", workers,
		      workers == 1 ? "worker" : "workers", config->broker_count,
		      config->broker_count == 1 ? "broker" : "brokers", config->database_count,
		      config->database_count == 1 ? "database" : "databases");
	if (config->relay_count > 0)
		buffer_printf(&out, ", %zu %s", config->relay_count, config->relay_count == 1 ? "relay" : "relays");
	buffer_puts(&out, "\n");
	return cli_print(c->cli, &out);
}

static int check(struct check *c, bool live)
{
	struct config *config = NULL;
	const enum status st = config_load(&config, c->cli->config_file, check_report, c);
	if (st == ST_INTERNAL)
		return EXIT_INTERNAL;
	if (st != ST_OK)
		return conclude(c, live);
	c->config = config;
	AUTOFREE struct consumer *consumers = calloc(config->consumer_count + 1, sizeof(*consumers));
	AUTOFREE struct interlock_queue *queues = calloc(config->consumer_count + 1, sizeof(*queues));
	c->consumers = consumers;
	c->queues = queues;
	int rc = EXIT_INTERNAL;
	if (consumers && queues) {
		check_plugins(c);
		check_targets(c);
		if (live)
			check_live(c);
		check_windows(c); /* with what the brokers said */
		rc = conclude(c, live);
	}
	for (size_t i = 0; consumers && i < config->consumer_count; i++)
		consumer_finish(&consumers[i]);
	config_destroy(config);
	return rc;
}

int cmd_check(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s: the configuration is named by -c FILE", argv[0]);
	struct check c = { .cli = cli };
	if (cli->json) {
		c.problem_list = json_array();
		c.warning_list = json_array();
		c.fact_list = json_array();
	}
	const int rc = check(&c, cli_option_given(cli, "live"));
	json_decref(c.problem_list);
	json_decref(c.warning_list);
	json_decref(c.fact_list);
	return rc;
}

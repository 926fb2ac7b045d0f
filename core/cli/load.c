/* The configuration, and a consumer of it, as every command but `check` reads them. */
#include "base/text.h"
#include "cli/cli.h"
#include "run/consumer.h"

enum {
	NAMES_MAX = 64, /* in a suggestion */
	NAMES_TEXT_MAX = 512,
};

struct counted {
	size_t problems;
};

static void report(void *arg, const struct config_problem *problem)
{
	((struct counted *)arg)->problems++;
	config_report_stderr(NULL, problem);
}

int cli_load_config(const struct cli *cli, struct config **ret)
{
	struct counted counted = { 0 };
	const enum status st = config_load(ret, cli->config_file, report, &counted);
	if (st == ST_OK)
		return EXIT_FINE;
	cli_message(cli, "%zu %s in the configuration", counted.problems,
		    counted.problems == 1 ? "problem" : "problems");
	return st == ST_INVALID ? EXIT_CONFIGURATION : EXIT_INTERNAL;
}

static int no_such_consumer(const struct cli *cli, const char *const *names, const char *name)
{
	const char *near = name ? text_nearest(name, names) : NULL;
	char all[NAMES_TEXT_MAX];
	text_enumerate(names, all, sizeof(all));
	if (!name && names[0])
		return cli_usage_error(cli, "--consumer NAME is missing: there is %s", all);
	if (!name)
		cli_message(cli, "there is no section [consumer:NAME] in %s", cli->config_file);
	else if (near)
		cli_message(cli, "there is no section [consumer:%s] in %s: did you mean %s?", name, cli->config_file,
			    near);
	else
		cli_message(cli, "there is no section [consumer:%s] in %s%s%s", name, cli->config_file,
			    names[0] ? ": there is " : "", all);
	return EXIT_CONFIGURATION;
}

int cli_find_consumer(const struct cli *cli, const struct config *config, const struct config_consumer **ret)
{
	const char *names[NAMES_MAX + 1] = { NULL }, *name = cli_option_value(cli, "consumer", 0);
	for (size_t i = 0; i < config->consumer_count && i < NAMES_MAX; i++)
		names[i] = config->consumers[i].name;
	if (!name && config->consumer_count == 1)
		name = names[0];
	*ret = name ? config_find_consumer(config, name) : NULL;
	return *ret ? EXIT_FINE : no_such_consumer(cli, names, name);
}

int cli_load_consumer(const struct cli *cli, const struct config *config, struct consumer **ret)
{
	const struct config_consumer *section;
	int rc = cli_find_consumer(cli, config, &section);
	if (rc != EXIT_FINE)
		return rc;
	struct error err = { 0 };
	struct consumer *c = calloc(1, sizeof(*c));
	enum status st = c ? consumer_init(c, section, &err) : error_oom(&err);
	rc = st == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
	if (st == ST_OK && consumer_load(c, config->process.plugin_dir, config_report_stderr, NULL) > 0)
		rc = EXIT_CONFIGURATION;
	if (rc == EXIT_FINE)
		*ret = c;
	else
		cli_consumer_destroy(&c);
	return rc;
}

void cli_consumer_destroy(struct consumer **c)
{
	if (*c)
		consumer_finish(*c);
	free(*c);
}

/* The configuration as every command but `check` reads it. */
#include "cli/cli.h"

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

/* effectd run: the daemon. */
#include "base/log.h"
#include "cli/cli.h"
#include "run/process.h"

int cmd_run(struct cli *cli, int argc, char **argv)
{
	(void)argv;
	if (argc > 0)
		return cli_usage_error(cli, "it takes no arguments: choose consumers with --consumer NAME");
	struct config *config;
	const int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	log_setup((enum log_level)config->process.log_level, (enum log_format)config->process.log_format);

	AUTOFREE const char **consumers = calloc(cli->given_count + 1, sizeof(*consumers));
	struct process_options options = { .consumers = consumers };
	struct error err = { 0 };
	enum status st = consumers ? ST_OK : error_oom(&err);
	while (consumers &&
	       (consumers[options.consumer_count] = cli_option_value(cli, "consumer", options.consumer_count)))
		options.consumer_count++;
	options.retention = cli_option_given(cli, "retention");
	if (st == ST_OK)
		st = process_run(config, &options, config_report_stderr, NULL, &err);
	config_destroy(config);
	return st == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
}

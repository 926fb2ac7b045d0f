/* effectd run: the daemon. */
#include "base/log.h"
#include "cli/cli.h"
#include "run/process.h"

/* All values of an option; returns how many. */
static size_t collect(const struct cli *cli, const char *option, const char **values)
{
	size_t n = 0;
	while ((values[n] = cli_option_value(cli, option, n)))
		n++;
	return n;
}

int cmd_run(struct cli *cli, int argc, char **argv)
{
	(void)argv;
	if (argc > 0)
		return cli_usage_error(cli, "it takes no arguments: choose with --consumer NAME and --relay NAME");
	struct config *config;
	const int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	log_setup((enum log_level)config->process.log_level, (enum log_format)config->process.log_format);

	AUTOFREE const char **consumers = calloc(cli->given_count + 1, sizeof(*consumers));
	AUTOFREE const char **relays = calloc(cli->given_count + 1, sizeof(*relays));
	struct error err = { 0 };
	enum status st = consumers && relays ? ST_OK : error_oom(&err);
	const struct process_options options = {
		.config_file = cli->config_file,
		.consumers = consumers,
		.consumer_count = st == ST_OK ? collect(cli, "consumer", consumers) : 0,
		.relays = relays,
		.relay_count = st == ST_OK ? collect(cli, "relay", relays) : 0,
		.retention = cli_option_given(cli, "retention"),
	};
	if (st == ST_OK)
		st = process_run(config, &options, config_report_stderr, NULL, &err);
	config_destroy(config);
	return st == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
}

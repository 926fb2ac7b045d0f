/* effectd config show|default */
#include "cli/cli.h"
#include "config/show.h"

static int show(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	struct config *config = NULL;
	const int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	struct buffer out = { 0 };
	if (cli->json)
		config_show_json(config, &out);
	else
		config_show(config, &out);
	config_destroy(config);
	return cli_print(cli, &out);
}

static int show_default(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	if (cli->json)
		return cli_usage_error(cli, "default gives a file, not JSON");
	struct buffer out = { 0 };
	if (cli_option_given(cli, "markdown"))
		config_reference(&out);
	else
		config_default(&out);
	return cli_print(cli, &out);
}

const struct cli_action config_actions[] = {
	{ "show", "", "the values in effect, each with the file and line that it comes from", show },
	{ "default", "", "every key at its default, with what it does", show_default },
	{ NULL },
};

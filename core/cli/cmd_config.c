/* effectd config show|default */
#include "base/text.h"
#include "cli/cli.h"
#include "config/show.h"
#include <string.h>

static int show(struct cli *cli)
{
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

static int show_default(struct cli *cli)
{
	struct buffer out = { 0 };
	if (cli_option_given(cli, "markdown"))
		config_reference(&out);
	else
		config_default(&out);
	return cli_print(cli, &out);
}

int cmd_config(struct cli *cli, int argc, char **argv)
{
	static const char *const words[] = { "show", "default", NULL };
	if (argc != 1)
		return cli_usage_error(cli, "expected `show` or `default`");
	if (strcmp(argv[0], "show") == 0)
		return show(cli);
	if (strcmp(argv[0], "default") == 0)
		return show_default(cli);
	const char *near = text_nearest(argv[0], words);
	return cli_usage_error(cli, "there is no `config %s`: %s", argv[0],
			       near ? near[0] == 's' ? "did you mean show?" : "did you mean default?"
				    : "there are show and default");
}

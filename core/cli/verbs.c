/* The commands: one line each. Examples come first in help, so they are written first here. */
#include "cli/cli.h"

static const struct cli_option run_options[] = {
	{ "consumer", "NAME", "only this consumer; may be given several times" },
	{ NULL, NULL, NULL },
};

const struct verb verbs[] = {
	{
		.name = "run",
		.arguments = "",
		.help = "run the daemon: all consumers, or those named; SIGTERM drains",
		.examples = "  effectd run -c /etc/effectd/effectd.ini\n"
			    "  effectd run --consumer loyalty --consumer receipts\n",
		.options = run_options,
		.run = cmd_run,
	},
	{
		.name = "version",
		.arguments = "",
		.help = "the version of effectd and of the plugin ABI",
		.examples = "  effectd version\n"
			    "  effectd version --json\n",
		.run = cmd_version,
	},
	{ NULL },
};

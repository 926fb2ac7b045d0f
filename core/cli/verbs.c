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
		.name = "plugin",
		.arguments = "list [FOLDER] | show FILE",
		.help = "what can be loaded; what one plugin declares",
		.examples = "  effectd plugin list                     the files of plugin_dir, refused ones with the "
			    "reason\n"
			    "  effectd plugin show loyalty_points.so   options and statements of a file there\n"
			    "  effectd plugin show ./build/mine.so --json\n"
			    "\n"
			    "Each file is loaded and checked as the daemon does it. Exit code 1: one was refused.\n",
		.run = cmd_plugin,
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

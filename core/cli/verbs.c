/* The commands: one line each. Examples come first in help, so they are written first here. */
#include "cli/cli.h"

const struct verb verbs[] = {
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

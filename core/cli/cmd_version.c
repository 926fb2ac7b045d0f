/* effectd version */
#include "cli/cli.h"
#include "effectd/plugin.h"

int cmd_version(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	struct buffer out = { 0 };
	if (cli->json)
		buffer_printf(&out, "{\"version\": \"%s\", \"plugin_abi\": \"%d.%d\"}\n", EFFECTD_VERSION,
			      EFFECTD_ABI_MAJOR, EFFECTD_ABI_MINOR);
	else
		buffer_printf(&out, "effectd %s (plugin ABI %d.%d)\n", EFFECTD_VERSION, EFFECTD_ABI_MAJOR,
			      EFFECTD_ABI_MINOR);
	return cli_print(cli, &out);
}

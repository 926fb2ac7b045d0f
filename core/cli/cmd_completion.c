/* effectd completion: a shell's script, and what the scripts ask. They know nothing of effectd themselves. */
#include "cli/cli.h"
#include "cli/complete.h"
#include "cli/embedded.h"
#include <string.h>

/* The script of the shell that the action is called after. */
static int print_script(struct cli *cli, int argc, char **argv)
{
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	if (cli->json)
		return cli_usage_error(cli, "a script is not JSON");
	struct buffer out = { 0 };
	for (const struct embedded_file *f = completion_files; f->part; f++)
		if (strcmp(f->part, cli->action->name) == 0)
			buffer_puts(&out, f->text);
	return cli_print(cli, &out);
}

static int print_words(struct cli *cli, int argc, char **argv)
{
	struct buffer out = { 0 };
	complete(&out, (size_t)argc, argv);
	return cli_print(cli, &out);
}

const struct cli_action completion_actions[] = {
	{ "bash", "", "the script for bash", print_script },
	{ "zsh", "", "the script for zsh", print_script },
	{ "fish", "", "the script for fish", print_script },
	{ "words", "-- WORD...", "what the last of these words may become, one a line", print_words },
	{ NULL },
};

/* effectd reload: asks the daemon, which checks and plans by itself; prints what it says. */
#include "cli/ask.h"
#include <string.h>

/* What each result of the daemon means here. */
static const struct {
	const char *result, *sentence;
	int exit_code;
} results[] = {
	{ "applied", "reloaded", EXIT_FINE },
	{ "unchanged", "reloaded: nothing changed", EXIT_FINE },
	{ "planned", "nothing was done: this is what a reload would do", EXIT_FINE },
	{ "refused", "refused, what ran goes on unchanged", EXIT_CONFIGURATION },
	{ "incomplete", "not all of it could be started; the log tells more", EXIT_FAILED },
	{ "busy", "the daemon is reloading or ending already: try again", EXIT_TRY_AGAIN },
	{ "stopped", "the daemon was told to end meanwhile", EXIT_TRY_AGAIN },
};

static void add_line(struct buffer *out, const char *text)
{
	cli_add_clean(out, text, strlen(text));
}

static void print_plan(const json_t *answer, struct buffer *out)
{
	size_t i;
	json_t *step;
	json_array_foreach(json_object_get(answer, "plan"), i, step)
	{
		const char *changes = ask_text(step, "changes");
		const char *what = ask_text(step, "what");
		buffer_printf(out, "%s %s%s %s%s", ask_text(step, "action"), what,
			      strcmp(what, "retention") == 0 ? " of database" : "", ask_text(step, "name"),
			      *changes ? ": " : "");
		add_line(out, changes);
		buffer_puts(out, "\n");
	}
	if (*ask_text(answer, "at_once")) {
		buffer_puts(out, "at once: ");
		add_line(out, ask_text(answer, "at_once"));
		buffer_puts(out, "\n");
	}
	if (*ask_text(answer, "needs_restart")) {
		buffer_puts(out, "needs a restart of effectd: ");
		add_line(out, ask_text(answer, "needs_restart"));
		buffer_puts(out, "\n");
	}
}

static void print_problems(const json_t *answer)
{
	size_t i;
	json_t *p;
	json_array_foreach(json_object_get(answer, "problems"), i, p)
	{
		const char *file = ask_text(p, "file"), *section = ask_text(p, "section"), *key = ask_text(p, "key");
		const struct config_problem problem = { { *file ? file : NULL, (int)ask_number(p, "line") },
							*section ? section : NULL,
							*key ? key : NULL,
							ask_text(p, "text") };
		config_report_stderr(NULL, &problem);
	}
}

static int print_answer(const struct cli *cli, const json_t *answer)
{
	struct buffer out = { 0 };
	const char *result = ask_text(answer, "result"), *error = ask_text(answer, "error");
	const bool refused = strcmp(result, "refused") == 0;
	if (refused)
		print_problems(answer);
	else
		print_plan(answer, &out);
	for (size_t i = 0; i < ARRAY_LEN(results); i++) {
		if (strcmp(results[i].result, result) != 0)
			continue;
		const bool good = results[i].exit_code == EXIT_FINE;
		if (good)
			buffer_printf(&out, "%s\n", results[i].sentence);
		const int rc = cli_print(cli, &out);
		if (!good)
			cli_message(cli, "%s%s%s", results[i].sentence, *error ? ": " : "", error);
		return rc != EXIT_FINE ? rc : results[i].exit_code;
	}
	buffer_finish(&out);
	cli_message(cli, "the daemon answered something else: is it of the same version?");
	return EXIT_INTERNAL;
}

int cmd_reload(struct cli *cli, int argc, char **argv)
{
	json_t *answer = NULL;
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	int rc = ask_daemon(cli, cli_option_given(cli, "dry-run") ? "reload --dry-run" : "reload", &answer);
	if (rc != EXIT_FINE)
		return rc;
	if (!cli->json) {
		rc = print_answer(cli, answer);
		json_decref(answer);
		return rc;
	}
	int code = EXIT_INTERNAL;
	for (size_t i = 0; i < ARRAY_LEN(results); i++)
		if (strcmp(results[i].result, ask_text(answer, "result")) == 0)
			code = results[i].exit_code;
	rc = ask_print_json(cli, answer);
	return rc != EXIT_FINE ? rc : code;
}

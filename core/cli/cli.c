/* From argv to a command. The options of all commands are parsed here by one getopt_long() over the common ones and the
 * command's table, so that they behave alike; help is made of the same tables. */
#include "cli/cli.h"
#include "base/text.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONFIG_FILE "/etc/effectd/effectd.ini"

enum { OPTIONS_MAX = 32, OPTION_OWN = 256 /* values of getopt_long() from here on are the command's own options */ };

static const struct option common_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
};

/* --- help --- */

static void print_commands(FILE *out)
{
	for (const struct verb *v = verbs; v->name; v++) {
		char call[64];
		snprintf(call, sizeof(call), "%s %s", v->name, v->arguments);
		fprintf(out, "  %-28s %s\n", call, v->help);
	}
}

static void print_help(FILE *out)
{
	fputs("Examples:\n"
	      "  effectd check --live                is everything ready to run?\n"
	      "  effectd migrate up                  make or update the schema `effectd`\n"
	      "  effectd run -c /etc/effectd/effectd.ini\n"
	      "\n"
	      "effectd hosts RabbitMQ consumers whose effects are PostgreSQL writes, and makes each happen once.\n"
	      "\n"
	      "usage: effectd COMMAND [-c FILE] [OPTION]... [ARGUMENT]...\n"
	      "\n"
	      "Commands:\n",
	      out);
	print_commands(out);
	fputs("\neffectd COMMAND --help says more.\n"
	      "Exit codes: 0 fine, 1 failed, 2 usage, 69 broker or database unavailable, 70 internal,\n"
	      "75 try again, 77 permission, 78 configuration.\n",
	      out);
}

static void print_option(FILE *out, const char *name, const char *argument, const char *help)
{
	char left[64];
	snprintf(left, sizeof(left), "%s%s%s", name, argument ? " " : "", argument ? argument : "");
	fprintf(out, "  %-20s %s\n", left, help);
}

static void print_verb_help(const struct verb *verb, FILE *out)
{
	fprintf(out, "Examples:\n%s\n", verb->examples);
	fprintf(out, "%s\n\nusage: effectd %s [-c FILE] [OPTION]...%s%s\n\n", verb->help, verb->name,
		*verb->arguments ? " " : "", verb->arguments);
	for (const struct cli_option *o = verb->options; o && o->name; o++) {
		char name[48];
		snprintf(name, sizeof(name), "--%s", o->name);
		print_option(out, name, o->argument, o->help);
	}
	print_option(out, "-c, --config", "FILE", "the configuration; default " DEFAULT_CONFIG_FILE);
	print_option(out, "--json", NULL, "data for programs, where there is data");
	print_option(out, "-h, --help", NULL, "this");
}

/* --- messages --- */

static void print_message(const struct cli *cli, const char *fmt, va_list ap)
{
	char text[2048];
	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "effectd%s%s: %s\n", cli->verb ? " " : "", cli->verb ? cli->verb->name : "", text);
}

void cli_message(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	print_message(cli, fmt, ap);
	va_end(ap);
}

int cli_usage_error(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	print_message(cli, fmt, ap);
	va_end(ap);
	if (cli->verb)
		fprintf(stderr, "effectd %s --help shows how it is used\n", cli->verb->name);
	else
		fputs("effectd --help shows the commands\n", stderr);
	return EXIT_USAGE;
}

int cli_exit_code(const struct error *err)
{
	/* 28: the server refuses the role or its password; 42501: the role may not do that */
	if (err->status == ST_REFUSED && (strncmp(err->sqlstate, "28", 2) == 0 || strcmp(err->sqlstate, "42501") == 0))
		return EXIT_PERMISSION;
	switch (err->status) {
	case ST_OK:
		return EXIT_FINE;
	case ST_INVALID:
		return EXIT_CONFIGURATION;
	case ST_UNAVAILABLE:
		return EXIT_UNAVAILABLE;
	case ST_REFUSED:
		return EXIT_FAILED;
	case ST_IN_DOUBT:
	case ST_STOPPED:
		return EXIT_TRY_AGAIN;
	case ST_INTERNAL:
		return EXIT_INTERNAL;
	}
	return EXIT_INTERNAL;
}

int cli_failure(const struct cli *cli, const struct error *err)
{
	if (err->sqlstate[0])
		cli_message(cli, "%s (SQLSTATE %s)", err->text, err->sqlstate);
	else
		cli_message(cli, "%s", err->text);
	return cli_exit_code(err);
}

int cli_print(const struct cli *cli, struct buffer *data)
{
	const bool complete = !data->failed;
	const size_t written = fwrite(buffer_text(data), 1, data->len, stdout);
	const bool good = written == data->len && fflush(stdout) == 0;
	buffer_finish(data);
	if (good && complete)
		return EXIT_FINE;
	if (!complete)
		cli_message(cli, "out of memory");
	else
		cli_message(cli, "writing to stdout: %s", strerror(errno));
	return complete ? EXIT_FAILED : EXIT_INTERNAL;
}

/* --- options --- */

const char *cli_option_value(const struct cli *cli, const char *name, size_t index)
{
	for (size_t i = 0; i < cli->given_count; i++)
		if (strcmp(cli->given[i].name, name) == 0 && index-- == 0)
			return cli->given[i].value;
	return NULL;
}

bool cli_option_given(const struct cli *cli, const char *name)
{
	return cli_option_value(cli, name, 0) != NULL;
}

static size_t merge_options(const struct verb *verb, struct option merged[OPTIONS_MAX])
{
	size_t n = ARRAY_LEN(common_options);
	memcpy(merged, common_options, sizeof(common_options));
	for (const struct cli_option *o = verb ? verb->options : NULL; o && o->name && n < OPTIONS_MAX - 1; o++, n++)
		merged[n] = (struct option){ o->name, o->argument ? required_argument : no_argument, NULL,
					     OPTION_OWN + (int)(o - verb->options) };
	merged[n] = (struct option){ 0 };
	return n;
}

static int wrong_option(const struct cli *cli, const struct option *options, size_t n, bool argument_missing,
			const char *word)
{
	if (argument_missing)
		return cli_usage_error(cli, "%s needs an argument", word);
	if (strncmp(word, "--", 2) != 0)
		return cli_usage_error(cli, "there is no option -%c", optopt);
	if (optopt) /* known, else it would be 0 */
		return cli_usage_error(cli, "%.*s takes no argument", (int)strcspn(word, "="), word);

	const char *names[OPTIONS_MAX + 1] = { NULL };
	for (size_t i = 0; i < n; i++)
		names[i] = options[i].name;
	const char *near = text_nearest(word + 2, names);
	return near ? cli_usage_error(cli, "there is no option %s: did you mean --%s?", word, near)
		    : cli_usage_error(cli, "there is no option %s", word);
}

enum { PARSED = -1 }; /* go on; else the exit code */

/* Parses options up to the first argument (stop_at_argument), or all, moving arguments behind them. */
static int parse_options(struct cli *cli, int argc, char **argv, bool stop_at_argument)
{
	struct option options[OPTIONS_MAX];
	const size_t n = merge_options(cli->verb, options);
	opterr = 0;
	optind = 0; /* GNU: start anew, argv[0] is skipped */
	for (int c; (c = getopt_long(argc, argv, stop_at_argument ? "+:c:hV" : ":c:hV", options, NULL)) != -1;) {
		if (c >= OPTION_OWN) {
			cli->given[cli->given_count++] =
				(struct cli_given){ cli->verb->options[c - OPTION_OWN].name, optarg ? optarg : "" };
			continue;
		}
		switch (c) {
		case 'c':
			cli->config_file = optarg;
			break;
		case 'j':
			cli->json = true;
			break;
		case 'h':
			if (cli->verb)
				print_verb_help(cli->verb, stdout);
			else
				print_help(stdout);
			return fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
		case 'V':
			return cmd_version(cli, 0, NULL);
		default:
			return wrong_option(cli, options, n, c == ':', argv[optind - 1]);
		}
	}
	return PARSED;
}

static const struct verb *find_verb(const char *name)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

static int unknown_command(const struct cli *cli, const char *word)
{
	const char *names[64] = { NULL };
	for (size_t i = 0; verbs[i].name && i < ARRAY_LEN(names) - 1; i++)
		names[i] = verbs[i].name;
	const char *near = text_nearest(word, names);
	return near ? cli_usage_error(cli, "there is no command %s: did you mean %s?", word, near)
		    : cli_usage_error(cli, "there is no command %s", word);
}

int cli_main(int argc, char **argv)
{
	struct cli cli = { .config_file = DEFAULT_CONFIG_FILE };
	int rc = parse_options(&cli, argc, argv, true);
	if (rc != PARSED)
		return rc;
	if (optind >= argc) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	const int at = optind; /* of the command; getopt takes it for the program's name */
	const struct verb *verb = find_verb(argv[at]);
	if (!verb)
		return unknown_command(&cli, argv[at]);
	cli.verb = verb;
	AUTOFREE struct cli_given *given = calloc((size_t)argc, sizeof(*given));
	if (!given) {
		cli_message(&cli, "out of memory");
		return EXIT_INTERNAL;
	}
	cli.given = given;
	rc = parse_options(&cli, argc - at, argv + at, false);
	return rc != PARSED ? rc : verb->run(&cli, argc - at - optind, argv + at + optind);
}

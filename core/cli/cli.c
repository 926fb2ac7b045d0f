/* From argv to a command. The options of all commands are parsed here by one getopt_long() over the common ones and the
 * command's table, so that they behave alike. What the table says of an option is checked here as well: the words that
 * it may have, the actions that it goes with. */
#include "cli/cli.h"
#include "base/text.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	OPTIONS_MAX = 32,
	NAMES_MAX = 64,
	NAMES_TEXT_MAX = 512,
	OPTION_FIRST = 256, /* getopt_long() answers with this + the place among the common options and the command's */
};

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
	if (strncmp(err->sqlstate, "28", 2) == 0 || strcmp(err->sqlstate, "42501") == 0)
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
		if (strcmp(cli->given[i].option->name, name) == 0 && index-- == 0)
			return cli->given[i].value;
	return NULL;
}

bool cli_option_given(const struct cli *cli, const char *name)
{
	return cli_option_value(cli, name, 0) != NULL;
}

bool cli_option_goes_with(const struct cli_option *o, const struct cli_action *action)
{
	if (!o->actions || !action)
		return true;
	const size_t len = strlen(action->name);
	for (const char *at = o->actions; at; at = strchr(at, ' '), at = at ? at + 1 : NULL)
		if (strcspn(at, ",") == len && memcmp(at, action->name, len) == 0)
			return true;
	return false;
}

/* Common options and the command's, as getopt_long() wants them and as the tables have them. */
struct options {
	struct option list[OPTIONS_MAX];
	const struct cli_option *known[OPTIONS_MAX];
	char letters[2 * OPTIONS_MAX + 3];
	size_t count;
};

static void add_options(struct options *all, const struct cli_option *list)
{
	for (const struct cli_option *o = list; o && o->name && all->count < OPTIONS_MAX - 1; o++) {
		all->known[all->count] = o;
		all->list[all->count] = (struct option){ o->name, o->argument ? required_argument : no_argument, NULL,
							 OPTION_FIRST + (int)all->count };
		if (o->letter)
			strcat(strncat(all->letters, &o->letter, 1), o->argument ? ":" : "");
		all->count++;
	}
}

static void collect_options(struct options *all, const struct verb *verb, bool stop_at_argument)
{
	*all = (struct options){ 0 };
	strcpy(all->letters, stop_at_argument ? "+:" : ":");
	add_options(all, cli_common_options);
	add_options(all, verb ? verb->options : NULL);
}

/* The place of what getopt_long() answered; count: a mistake. */
static size_t place_of(const struct options *all, int answer)
{
	if (answer >= OPTION_FIRST)
		return (size_t)(answer - OPTION_FIRST);
	size_t i = 0;
	while (i < all->count && all->known[i]->letter != answer)
		i++;
	return i;
}

static int wrong_option(const struct cli *cli, const struct options *all, bool argument_missing, const char *word)
{
	if (argument_missing)
		return cli_usage_error(cli, "%s needs an argument", word);
	if (strncmp(word, "--", 2) != 0)
		return cli_usage_error(cli, "there is no option -%c", optopt);
	if (optopt) /* known, else it would be 0 */
		return cli_usage_error(cli, "%.*s takes no argument", (int)strcspn(word, "="), word);

	const char *names[OPTIONS_MAX + 1] = { NULL };
	for (size_t i = 0; i < all->count; i++)
		names[i] = all->known[i]->name;
	const char *near = text_nearest(word + 2, names);
	return near ? cli_usage_error(cli, "there is no option %s: did you mean --%s?", word, near)
		    : cli_usage_error(cli, "there is no option %s", word);
}

static int print_help(const struct verb *verb)
{
	if (verb)
		help_print_verb(verb, stdout);
	else
		help_print(stdout);
	return fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}

enum { PARSED = -1 }; /* go on; else the exit code */

/* Parses options up to the first argument (stop_at_argument), or all, moving arguments behind them. */
static int parse_options(struct cli *cli, int argc, char **argv, bool stop_at_argument)
{
	struct options all;
	collect_options(&all, cli->verb, stop_at_argument);
	opterr = 0;
	optind = 0; /* GNU: start anew, argv[0] is skipped */
	for (int c; (c = getopt_long(argc, argv, all.letters, all.list, NULL)) != -1;) {
		const size_t at = place_of(&all, c);
		if (at == all.count)
			return wrong_option(cli, &all, c == ':', argv[optind - 1]);
		switch (at) {
		case COMMON_CONFIG:
			cli->config_file = optarg;
			break;
		case COMMON_JSON:
			cli->json = true;
			break;
		case COMMON_HELP:
			return print_help(cli->verb);
		case COMMON_VERSION:
			return cmd_version(cli, 0, NULL);
		default:
			cli->given[cli->given_count++] = (struct cli_given){ all.known[at], optarg ? optarg : "" };
		}
	}
	return PARSED;
}

/* What the table says of options beyond their names. */
static int check_given(const struct cli *cli)
{
	for (size_t i = 0; i < cli->given_count; i++) {
		const struct cli_option *o = cli->given[i].option;
		const char *const *word = o->words;
		if (!cli_option_goes_with(o, cli->action))
			return cli_usage_error(cli, "--%s does not go with %s", o->name, cli->action->name);
		while (word && *word && strcmp(*word, cli->given[i].value) != 0)
			word++;
		if (word && !*word) {
			char all[NAMES_TEXT_MAX];
			text_enumerate(o->words, all, sizeof(all));
			return cli_usage_error(cli, "--%s %s: there is %s", o->name, cli->given[i].value, all);
		}
	}
	return EXIT_FINE;
}

/* --- commands and actions --- */

const struct verb *cli_find_verb(const char *name)
{
	for (const struct verb *v = verbs; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

const struct cli_action *cli_find_action(const struct verb *verb, const char *name)
{
	for (const struct cli_action *a = verb->actions; a && a->name; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

static int unknown_command(const struct cli *cli, const char *word)
{
	const char *names[NAMES_MAX] = { NULL };
	for (size_t i = 0; verbs[i].name && i < ARRAY_LEN(names) - 1; i++)
		names[i] = verbs[i].name;
	const char *near = text_nearest(word, names);
	return near ? cli_usage_error(cli, "there is no command %s: did you mean %s?", word, near)
		    : cli_usage_error(cli, "there is no command %s", word);
}

/* word: what stands where an action should; NULL: nothing. */
static int unknown_action(const struct cli *cli, const char *word)
{
	const char *names[NAMES_MAX] = { NULL };
	char all[NAMES_TEXT_MAX];
	for (size_t i = 0; cli->verb->actions[i].name && i < ARRAY_LEN(names) - 1; i++)
		names[i] = cli->verb->actions[i].name;
	text_enumerate(names, all, sizeof(all));
	if (!word)
		return cli_usage_error(cli, "%s?", all);
	const char *near = text_nearest(word, names);
	return near ? cli_usage_error(cli, "there is no `%s %s`: did you mean %s?", cli->verb->name, word, near)
		    : cli_usage_error(cli, "there is no `%s %s`: %s", cli->verb->name, word, all);
}

/* `effectd help` and `effectd help COMMAND`, since many try it first. */
static int run_help(const struct cli *cli, const char *word)
{
	const struct verb *verb = word ? cli_find_verb(word) : NULL;
	return word && !verb ? unknown_command(cli, word) : print_help(verb);
}

static int run_verb(struct cli *cli, int argc, char **argv)
{
	const struct verb *verb = cli->verb;
	if (verb->actions && (argc > 0 || !verb->first_action_is_default)) {
		cli->action = argc > 0 ? cli_find_action(verb, argv[0]) : NULL;
		if (!cli->action)
			return unknown_action(cli, argc > 0 ? argv[0] : NULL);
		argc--;
		argv++;
	} else if (verb->actions) {
		cli->action = verb->actions;
	}
	const int rc = check_given(cli);
	if (rc != EXIT_FINE)
		return rc;
	return cli->action ? cli->action->run(cli, argc, argv) : verb->run(cli, argc, argv);
}

int cli_main(int argc, char **argv)
{
	struct cli cli = { .config_file = cli_default_config_file };
	int rc = parse_options(&cli, argc, argv, true);
	if (rc != PARSED)
		return rc;
	if (optind >= argc) {
		help_print(stderr);
		return EXIT_USAGE;
	}
	const int at = optind; /* of the command; getopt takes it for the program's name */
	const struct verb *verb = cli_find_verb(argv[at]);
	if (!verb && strcmp(argv[at], "help") == 0)
		return run_help(&cli, argv[at + 1]);
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
	return rc != PARSED ? rc : run_verb(&cli, argc - at - optind, argv + at + optind);
}

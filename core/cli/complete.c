/* The command line is read as cli.c would read it, but forgivingly: it is not finished. All that is known of commands
 * and options comes from the tables of verbs.c, names from the configuration. */
#include "cli/complete.h"
#include "cli/cli.h"
#include <string.h>

struct line {
	const struct verb *verb;
	const struct cli_action *action;
	const struct cli_option *waiting; /* the next word is this option's argument */
	const char *config_file;
	size_t arguments;    /* behind command and action */
	bool only_arguments; /* behind -- */
	bool lost;           /* a command or an action that there is not */
};

/* What may stand, and what of it was typed. */
struct offer {
	struct buffer *out;
	const char *typed;
	const char *head; /* stands before each word: "--consumer=" */
	size_t head_len;
};

/* --- what was typed --- */

static const struct cli_option *find_in(const struct cli_option *list, const char *name, size_t len, char letter)
{
	for (const struct cli_option *o = list; o && o->name; o++)
		if (letter ? o->letter == letter : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

/* --name, --name=value, -c: the option; NULL: none such. */
static const struct cli_option *find_option(const struct line *line, const char *word)
{
	const bool is_long = word[1] == '-';
	const char *name = word + 2, letter = is_long ? '\0' : word[1];
	const struct cli_option *own =
		find_in(line->verb ? line->verb->options : NULL, name, strcspn(name, "="), letter);
	return own ? own : find_in(cli_common_options, name, strcspn(name, "="), letter);
}

static void take_value(struct line *line, const struct cli_option *o, const char *value)
{
	if (o == &cli_common_options[COMMON_CONFIG])
		line->config_file = value;
}

static void take_option(struct line *line, const char *word)
{
	const struct cli_option *o = find_option(line, word);
	if (!o || !o->argument)
		return;
	const char *value = word[1] == '-' ? strchr(word, '=') : word + 1; /* before the value */
	if (value && value[1])
		take_value(line, o, value + 1);
	else
		line->waiting = o;
}

static void take_argument(struct line *line, const char *word)
{
	if (!line->verb) {
		line->verb = cli_find_verb(word);
		line->lost = !line->verb;
	} else if (line->verb->actions && !line->action) {
		line->action = cli_find_action(line->verb, word);
		line->lost = !line->action;
	} else {
		line->arguments++;
	}
}

static void take_word(struct line *line, const char *word)
{
	if (line->waiting) {
		if (strcmp(word, "=") == 0) /* bash makes three words of --option=value */
			return;
		take_value(line, line->waiting, word);
		line->waiting = NULL;
	} else if (!line->only_arguments && strcmp(word, "--") == 0) {
		line->only_arguments = true;
	} else if (!line->only_arguments && word[0] == '-' && word[1]) {
		take_option(line, word);
	} else {
		take_argument(line, word);
	}
}

/* --- what fits --- */

static void offer(const struct offer *to, const char *word, const char *help)
{
	if (strncmp(word, to->typed, strlen(to->typed)) == 0)
		buffer_printf(to->out, "%.*s%s\t%s\n", (int)to->head_len, to->head, word, help);
}

struct names {
	const struct offer *to;
	const char *kind;
};

static void offer_name(void *arg, const char *name)
{
	const struct names *names = arg;
	offer(names->to, name, names->kind);
}

/* ~/ stands as it was typed. */
static void offer_names(const struct line *line, const char *kind, const struct offer *to)
{
	const char *home = getenv("HOME"), *file = line->config_file;
	CLEANUP(buffer_finish) struct buffer path = { 0 };
	const bool at_home = home && strncmp(file, "~/", 2) == 0;
	buffer_printf(&path, "%s%s", at_home ? home : "", at_home ? file + 1 : file);
	config_read_names(buffer_text(&path), kind, offer_name, &(struct names){ to, kind });
}

/* What the argument called so may be; owner: of which option, NULL: a positional one. */
static void offer_argument(const struct line *line, const char *called, const char *owner, const struct offer *to)
{
	if (strcmp(called, "FILE") == 0 || strcmp(called, "FOLDER") == 0)
		buffer_puts(to->out, COMPLETE_FILES "\n");
	else if (strcmp(called, "CONSUMER") == 0)
		offer_names(line, "consumer", to);
	else if (strcmp(called, "NAME") == 0 && owner)
		offer_names(line, owner, to);
	else if (called[0] >= 'a' && called[0] <= 'z') /* stands for itself */
		offer(to, called, "");
}

static void offer_value(const struct line *line, const struct cli_option *o, const struct offer *to)
{
	for (const char *const *word = o->words; word && *word; word++)
		offer(to, *word, "");
	if (!o->words)
		offer_argument(line, o->argument, o->name, to);
}

static void offer_options(const struct line *line, const struct offer *to)
{
	const struct cli_option *const lists[] = { line->verb ? line->verb->options : NULL, cli_common_options };
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (const struct cli_option *o = lists[i]; o && o->name; o++) {
			char word[64];
			snprintf(word, sizeof(word), "--%s", o->name);
			if (cli_option_goes_with(o, line->action))
				offer(to, word, o->help);
		}
}

/* `CONSUMER daily`, `[FILE]`: the argument whose turn it is. */
static void offer_positional(const struct line *line, const char *arguments, const struct offer *to)
{
	for (size_t i = 0; i < line->arguments; i++) {
		arguments += strcspn(arguments, " ");
		arguments += strspn(arguments, " ");
	}
	arguments += strspn(arguments, "[");
	char called[32];
	snprintf(called, sizeof(called), "%.*s", (int)strcspn(arguments, " ]"), arguments);
	offer_argument(line, called, NULL, to);
}

static void offer_word(const struct line *line, const struct offer *to)
{
	if (!line->verb)
		for (const struct verb *v = verbs; v->name; v++)
			offer(to, v->name, v->help);
	else if (line->verb->actions && !line->action)
		for (const struct cli_action *a = line->verb->actions; a->name; a++)
			offer(to, a->name, a->help);
	else
		offer_positional(line, line->action ? line->action->arguments : line->verb->arguments, to);
}

static void offer_last(const struct line *line, const char *typed, struct buffer *out)
{
	struct offer to = { .out = out, .typed = typed, .head = typed };
	const char *equal = strncmp(typed, "--", 2) == 0 ? strchr(typed, '=') : NULL;
	if (line->waiting) {
		offer_value(line, line->waiting, &to);
	} else if (equal && !line->only_arguments) {
		const struct cli_option *o = find_option(line, typed);
		to.typed = equal + 1;
		to.head_len = (size_t)(to.typed - typed);
		if (o && o->argument)
			offer_value(line, o, &to);
	} else if (typed[0] == '-' && !line->only_arguments) {
		offer_options(line, &to);
	} else {
		offer_word(line, &to);
		if (out->len == 0 && !*typed && !line->only_arguments) /* nothing but options is left */
			offer_options(line, &to);
	}
}

void complete(struct buffer *out, size_t count, char *const *words)
{
	struct line line = { .config_file = cli_default_config_file };
	for (size_t i = 0; i + 1 < count; i++)
		take_word(&line, words[i]);
	if (!line.lost)
		offer_last(&line, count > 0 ? words[count - 1] : "", out);
}

/* What --help prints, made of the tables. Examples lead: most people look for one. */
#include "base/text.h"
#include "cli/cli.h"
#include <string.h>

enum { COLUMNS = 110 };

/* The arguments of a command, or all its actions with theirs: `list [ID]... | show ID`. */
static void add_arguments(struct buffer *out, const struct verb *verb)
{
	if (!verb->actions) {
		buffer_puts(out, verb->arguments);
		return;
	}
	buffer_puts(out, verb->first_action_is_default ? "[" : "");
	for (const struct cli_action *a = verb->actions; a->name; a++)
		buffer_printf(out, "%s%s%s%s", a == verb->actions ? "" : " | ", a->name, *a->arguments ? " " : "",
			      a->arguments);
	buffer_puts(out, verb->first_action_is_default ? "]" : "");
}

/* `  LEFT   text`, the text wrapped in its column. */
static void add_entry(struct buffer *out, const char *left, int width, const char *text)
{
	char indent[64];
	snprintf(indent, sizeof(indent), "%*s", width + 3, "");
	buffer_printf(out, "  %-*s ", width, left);
	const size_t left_len = strlen(left) < (size_t)width ? (size_t)width : strlen(left);
	buffer_wrap(out, text, left_len + 3, indent, COLUMNS);
	buffer_puts(out, "\n");
}

static void add_commands(struct buffer *out)
{
	for (const struct verb *v = verbs; v->name; v++) {
		CLEANUP(buffer_finish) struct buffer call = { 0 };
		buffer_printf(&call, "%s %s", v->name, v->actions ? "" : v->arguments);
		for (const struct cli_action *a = v->actions; a && a->name; a++)
			buffer_printf(&call, "%s%s", a == v->actions ? "" : "|", a->name);
		add_entry(out, buffer_text(&call), 30, v->help);
	}
}

static void add_option(struct buffer *out, const struct cli_option *o)
{
	CLEANUP(buffer_finish) struct buffer left = { 0 }, text = { 0 };
	if (o->letter)
		buffer_printf(&left, "-%c, ", o->letter);
	buffer_printf(&left, "--%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
	if (o->actions)
		buffer_printf(&text, "%s: ", o->actions);
	buffer_puts(&text, o->help);
	if (o->words) {
		char words[256];
		text_enumerate(o->words, words, sizeof(words));
		buffer_printf(&text, ": %s", words);
	}
	add_entry(out, buffer_text(&left), 20, buffer_text(&text));
}

static void print(struct buffer *text, FILE *out)
{
	fputs(buffer_text(text), out);
	buffer_finish(text);
}

void help_print(FILE *out)
{
	struct buffer text = { 0 };
	buffer_puts(&text,
		    "Examples:\n"
		    "  effectd check --live                is everything ready to run?\n"
		    "  effectd migrate up                  make or update the schema `effectd`\n"
		    "  effectd run -c /etc/effectd/effectd.ini\n"
		    "\n"
		    "effectd hosts RabbitMQ consumers whose effects are PostgreSQL writes, and makes each happen "
		    "once.\n"
		    "\n"
		    "usage: effectd COMMAND [-c FILE] [OPTION]... [ARGUMENT]...\n"
		    "\n"
		    "Commands:\n");
	add_commands(&text);
	buffer_puts(&text, "\neffectd COMMAND --help says more; so does `man effectd`.\n"
			   "Exit codes: 0 fine, 1 failed, 2 usage, 69 broker or database unavailable, 70 internal,\n"
			   "75 try again, 77 permission, 78 configuration.\n");
	print(&text, out);
}

void help_print_verb(const struct verb *verb, FILE *out)
{
	struct buffer text = { 0 };
	buffer_printf(&text, "Examples:\n%s\n", verb->examples);
	if (verb->notes) {
		buffer_wrap(&text, verb->notes, 0, "", COLUMNS);
		buffer_puts(&text, "\n\n");
	}
	buffer_printf(&text, "%s\n\nusage: effectd %s [-c FILE] [OPTION]...", verb->help, verb->name);
	buffer_puts(&text, verb->actions || *verb->arguments ? " " : "");
	add_arguments(&text, verb);
	buffer_puts(&text, "\n\n");
	for (const struct cli_action *a = verb->actions; a && a->name; a++) {
		char call[64];
		snprintf(call, sizeof(call), "%s %s", a->name, a->arguments);
		add_entry(&text, call, 20, a->help);
	}
	buffer_puts(&text, verb->actions ? "\n" : "");
	for (const struct cli_option *o = verb->options; o && o->name; o++)
		add_option(&text, o);
	for (const struct cli_option *o = cli_common_options; o->name; o++)
		add_option(&text, o);
	print(&text, out);
}

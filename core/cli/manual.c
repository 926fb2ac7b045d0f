/* A program of the build: makes the source of a manual page (scdoc) of its prose and of the tables that effectd itself
 * works by, so that the pages cannot know other commands, options and keys than the program does.
 *
 *	manual PAGE.scd.in PLUGIN.H >PAGE.scd
 *
 * A line `@PART@` of the prose is replaced by that part; @version@ and @abi@ may stand anywhere. */
#include "base/text.h"
#include "cli/cli.h"
#include "config/keys.h"
#include "effectd/plugin.h"
#include <stdio.h>
#include <string.h>

/* --- scdoc --- */

/* What would be markup is not. */
static void add_plain(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("\\*_+`", *text))
			buffer_puts(out, "\\");
		buffer_add(out, text, 1);
	}
}

static void add_bold(struct buffer *out, const char *text)
{
	buffer_puts(out, "*");
	add_plain(out, text);
	buffer_puts(out, "*");
}

/* A sentence of a fragment. */
static void add_sentence(struct buffer *out, const char *text)
{
	char first[2] = { *text, '\0' };
	if (*text >= 'a' && *text <= 'z')
		first[0] = (char)(*text - 'a' + 'A');
	add_plain(out, first);
	add_plain(out, text + 1);
	const char last = text[strlen(text) - 1];
	buffer_puts(out, last == '.' || last == '?' ? "" : ".");
}

/* As it stands. */
static void add_literal(struct buffer *out, const char *text)
{
	buffer_puts(out, "```\n");
	for (; *text; text++)
		buffer_printf(out, "%s%c", *text == '\\' || *text == '`' ? "\\" : "", *text);
	buffer_puts(out, "```\n\n");
}

/* --- effectd(8) --- */

static void add_option(struct buffer *out, const struct cli_option *o)
{
	char text[512];
	if (o->letter)
		buffer_printf(out, "*-%c*, ", o->letter);
	snprintf(text, sizeof(text), "--%s", o->name);
	add_bold(out, text);
	buffer_printf(out, "%s%s\n\t", o->argument ? " " : "", o->argument ? o->argument : "");
	if (o->actions)
		buffer_printf(out, "%s: ", o->actions);
	add_plain(out, o->help);
	if (o->words) {
		text_enumerate(o->words, text, sizeof(text));
		buffer_puts(out, ": ");
		add_plain(out, text);
	}
	buffer_puts(out, "\n\n");
}

static void add_common_options(struct buffer *out, const char *header)
{
	(void)header;
	for (const struct cli_option *o = cli_common_options; o->name; o++)
		add_option(out, o);
}

static void add_call(struct buffer *out, const char *verb, const char *action, const char *arguments)
{
	char call[64];
	snprintf(call, sizeof(call), "effectd %s%s%s", verb, *action ? " " : "", action);
	add_bold(out, call);
	buffer_puts(out, *arguments ? " " : "");
	add_plain(out, arguments);
	buffer_puts(out, "\n");
}

static void add_command(struct buffer *out, const struct verb *v)
{
	buffer_printf(out, "## effectd %s\n\n", v->name);
	if (!v->actions) {
		add_call(out, v->name, "", v->arguments);
		buffer_puts(out, "\n");
	}
	add_sentence(out, v->help);
	buffer_puts(out, "\n\n");
	for (const struct cli_action *a = v->actions; a && a->name; a++) {
		add_call(out, v->name, a->name, a->arguments);
		buffer_puts(out, "\t");
		add_plain(out, a->help);
		buffer_puts(out, v->first_action_is_default && a == v->actions ? "; also without a word\n\n" : "\n\n");
	}
	for (const struct cli_option *o = v->options; o && o->name; o++)
		add_option(out, o);
	if (v->notes) {
		add_plain(out, v->notes);
		buffer_puts(out, "\n\n");
	}
	add_literal(out, v->examples);
}

static void add_commands(struct buffer *out, const char *header)
{
	(void)header;
	for (const struct verb *v = verbs; v->name; v++)
		add_command(out, v);
}

/* --- effectd.ini(5) --- */

static void add_default(struct buffer *out, const struct config_key *key)
{
	if (key->computed || key->fallback) {
		buffer_puts(out, "; default ");
		add_plain(out, key->computed ? key->computed : *key->fallback ? key->fallback : "empty");
	} else if (key->flags & KEY_REQUIRED) {
		buffer_puts(out, "; required");
	}
}

static void add_key(struct buffer *out, const struct config_key *key)
{
	char name[80], values[128];
	const char *member = key->type == KEY_FAMILY ? "NAME" : "";
	snprintf(name, sizeof(name), "%s%s", key->name, member);
	add_bold(out, name);
	if (key->flags & KEY_FROM_FILE) {
		snprintf(name, sizeof(name), "%s%s_file", key->name, member);
		buffer_puts(out, ", ");
		add_bold(out, name);
	}
	describe_values(key, values, sizeof(values));
	buffer_puts(out, " (");
	add_plain(out, values);
	add_default(out, key);
	buffer_printf(out, "; reload: %s)\n\t", describe_reload(key));
	add_plain(out, key->help);
	if (key->sample && !key->computed) {
		buffer_puts(out, " Example: ");
		add_plain(out, key->sample);
	}
	buffer_puts(out, "\n\n");
}

static void add_sections(struct buffer *out, const char *header)
{
	(void)header;
	for (const struct config_kind *kind = config_kinds; kind < config_kinds + KIND_COUNT; kind++) {
		buffer_printf(out, "## [%s%s]\n\n", kind->name, kind->named ? ":NAME" : "");
		add_plain(out, kind->help);
		buffer_puts(out, "\n\n");
		for (size_t k = 0; k < kind->key_count; k++)
			add_key(out, &kind->keys[k]);
	}
}

/* --- effectd-plugin(7) --- */

/* The constants of one enum of plugin.h, which are one a line with a comment behind. */
static void add_constants(struct buffer *out, const char *header, const char *type)
{
	char name[64], declared[80], comment[256];
	snprintf(declared, sizeof(declared), " %s;\nenum {\n", type);
	const char *at = strstr(header, declared);
	at = at ? at + strlen(declared) : "}";
	for (; *at && *at != '}'; at += strcspn(at, "\n"), at += *at == '\n') {
		if (sscanf(at, " %63[A-Z0-9_] = %*[^ \n] /* %255[^\n]", name, comment) != 2)
			continue;
		char *end = strstr(comment, " */");
		if (end)
			*end = '\0';
		add_bold(out, name);
		buffer_puts(out, "\n\t");
		add_plain(out, comment);
		buffer_puts(out, "\n\n");
	}
}

static void add_verdicts(struct buffer *out, const char *header)
{
	add_constants(out, header, "effectd_verdict");
}

static void add_rows(struct buffer *out, const char *header)
{
	add_constants(out, header, "effectd_rows");
}

static void add_otherwise(struct buffer *out, const char *header)
{
	add_constants(out, header, "effectd_otherwise");
}

static void add_types(struct buffer *out, const char *header)
{
	add_constants(out, header, "effectd_type");
}

/* --- the page --- */

static const struct part {
	const char *name;
	void (*add)(struct buffer *out, const char *header);
} parts[] = {
	{ "@commands@", add_commands }, { "@common_options@", add_common_options },
	{ "@sections@", add_sections }, { "@verdicts@", add_verdicts },
	{ "@rows@", add_rows },         { "@otherwise@", add_otherwise },
	{ "@value_types@", add_types },
};

static const char *const words[][2] = {
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
	{ "@version@", EFFECTD_VERSION },
	{ "@abi@", TEXT(EFFECTD_ABI_MAJOR) "." TEXT(EFFECTD_ABI_MINOR) },
};

static void add_line(struct buffer *out, const char *line)
{
	while (*line) {
		size_t i = 0;
		while (i < ARRAY_LEN(words) && strncmp(line, words[i][0], strlen(words[i][0])) != 0)
			i++;
		if (i < ARRAY_LEN(words)) {
			buffer_puts(out, words[i][1]);
			line += strlen(words[i][0]);
		} else {
			buffer_add(out, line++, 1);
		}
	}
	buffer_puts(out, "\n");
}

/* A part that adds nothing is a mistake: what it is made of was not found. Uses prose up. */
static bool add_page(struct buffer *out, char *prose, const char *header)
{
	for (char *line; (line = strsep(&prose, "\n"));) {
		size_t i = 0;
		while (i < ARRAY_LEN(parts) && strcmp(line, parts[i].name) != 0)
			i++;
		const size_t before = out->len;
		if (i < ARRAY_LEN(parts))
			parts[i].add(out, header);
		else
			add_line(out, line);
		if (out->len == before || (i == ARRAY_LEN(parts) && line[0] == '@')) {
			fprintf(stderr, "manual: there is nothing for %s\n", line);
			return false;
		}
	}
	return true;
}

static char *read_file(const char *path)
{
	struct buffer text = { 0 };
	char chunk[4096];
	FILE *f = fopen(path, "r");
	for (size_t n; f && (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
		buffer_add(&text, chunk, n);
	const bool good = f && !ferror(f) && !text.failed && text.data;
	if (f)
		fclose(f);
	if (good)
		return text.data;
	fprintf(stderr, "manual: %s cannot be read\n", path);
	buffer_finish(&text);
	return NULL;
}

int main(int argc, char **argv)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	AUTOFREE char *prose = argc == 3 ? read_file(argv[1]) : NULL;
	AUTOFREE char *header = prose ? read_file(argv[2]) : NULL;
	const bool good = header && add_page(&out, prose, header) && !out.failed;
	return good && fputs(buffer_text(&out), stdout) >= 0 && fflush(stdout) == 0 ? 0 : 1;
}

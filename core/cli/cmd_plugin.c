/* effectd plugin: what can be loaded from the plugin folder, and what one plugin declares. Looking at a plugin loads it
 * as the daemon would, with the same checks, and calls nothing but its entry. */
#include "cli/cmd_plugin.h"
#include "plugin/options.h"
#include <dirent.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static const char *const rows_names[] = {
	[EFFECTD_ANY] = "any",   [EFFECTD_ONE] = "one", [EFFECTD_SOME] = "some",
	[EFFECTD_EACH] = "each", [EFFECTD_NEW] = "new", [EFFECTD_NEWER] = "newer",
};

static const char *const otherwise_names[] = {
	[EFFECTD_OTHERWISE_REJECT] = "reject",
	[EFFECTD_OTHERWISE_RETRY] = "retry",
};

/* Text of a plugin is printed for people and as JSON: whatever its bytes, it becomes UTF-8 without control bytes. */
static void add_clean(struct buffer *out, const char *text)
{
	cli_add_clean(out, text, strlen(text));
}

/* SQL keeps its lines, indented. */
static void add_sql(struct buffer *out, const char *sql)
{
	while (*sql) {
		const size_t len = strcspn(sql, "\n");
		buffer_puts(out, "      ");
		cli_add_clean(out, sql, len);
		buffer_puts(out, "\n");
		sql += len + (sql[len] == '\n');
	}
}

static json_t *json_text(const char *text)
{
	CLEANUP(buffer_finish) struct buffer clean = { 0 };
	if (!text)
		return json_null();
	add_clean(&clean, text);
	return json_string(buffer_text(&clean));
}

static int print_json(const struct cli *cli, json_t *data)
{
	struct buffer out = { 0 };
	AUTOFREE char *text = data ? json_dumps(data, JSON_INDENT(2)) : NULL;
	json_decref(data);
	if (!text) {
		cli_message(cli, "out of memory");
		return EXIT_INTERNAL;
	}
	buffer_printf(&out, "%s\n", text);
	return cli_print(cli, &out);
}

/* ---- show ---- */

static void show_options(const struct plugin *p, struct buffer *out)
{
	buffer_puts(out, "\noptions (plugin.NAME = VALUE in the consumer's section)\n");
	for (uint32_t i = 0; i < p->descriptor.option_count; i++) {
		const struct effectd_option *o = &p->options[i];
		char range[96];
		buffer_printf(out, "  %s: %s", o->name, plugin_option_type_name(o->type));
		if (plugin_option_range(o, range, sizeof(range)))
			buffer_printf(out, " %s", range);
		if (o->fallback) {
			buffer_puts(out, ", default ");
			add_clean(out, o->fallback);
		} else if (o->required) {
			buffer_puts(out, ", required");
		}
		buffer_puts(out, "\n      ");
		add_clean(out, o->help ? o->help : "(not explained)");
		buffer_puts(out, "\n");
	}
}

static void show_statements(const struct plugin *p, struct buffer *out)
{
	buffer_printf(out, "\nstatements%s\n",
		      p->descriptor.configure ? " (the plugin may declare more when it is configured)" : "");
	for (uint32_t i = 0; i < p->descriptor.statement_count; i++) {
		const struct effectd_statement *s = &p->statements[i];
		buffer_printf(out, "  %s: rows %s, otherwise %s\n", s->name, rows_names[s->rows],
			      otherwise_names[s->otherwise]);
		add_sql(out, s->sql);
	}
}

static void show_line(struct buffer *out, const char *name, const char *text)
{
	buffer_printf(out, "%-12s ", name);
	add_clean(out, text);
	buffer_puts(out, "\n");
}

static void show_text(const struct plugin *p, struct buffer *out)
{
	const struct effectd_plugin *d = &p->descriptor;
	show_line(out, "file", p->path);
	buffer_printf(out, "%-12s %u.%u\n", "abi", d->abi_major, d->abi_minor);
	show_line(out, "version", d->version ? d->version : "(none)");
	show_line(out, "description", d->description ? d->description : "(none)");
	show_line(out, "consumer", d->consumer ? d->consumer : "(any section that names the file)");
	show_line(out, "batches", d->apply_batch ? "yes, with apply_batch" : "message by message");
	if (d->option_count > 0)
		show_options(p, out);
	if (d->statement_count > 0 || d->configure)
		show_statements(p, out);
}

static json_t *options_json(const struct plugin *p)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < p->descriptor.option_count; i++) {
		const struct effectd_option *o = &p->options[i];
		const bool bounded = o->min != 0 || o->max != 0;
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o}", "name", o->name, "type",
						      plugin_option_type_name(o->type), "required", o->required != 0,
						      "default", json_text(o->fallback), "min",
						      bounded ? json_integer(o->min) : json_null(), "max",
						      bounded ? json_integer(o->max) : json_null(), "help",
						      json_text(o->help)));
	}
	return list;
}

static json_t *statements_json(const struct plugin *p)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < p->descriptor.statement_count; i++) {
		const struct effectd_statement *s = &p->statements[i];
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:o}", "name", s->name, "rows", rows_names[s->rows],
						"otherwise", otherwise_names[s->otherwise], "sql", json_text(s->sql)));
	}
	return list;
}

static json_t *summary_json(const char *file, const struct plugin *p)
{
	const struct effectd_plugin *d = &p->descriptor;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "file", json_text(file), "abi",
			 json_sprintf("%u.%u", d->abi_major, d->abi_minor), "version", json_text(d->version),
			 "description", json_text(d->description), "consumer", json_text(d->consumer), "apply_batch",
			 d->apply_batch != NULL);
}

/* Somebody who has just built it means the file that lies here. */
static void hint_path(const struct cli *cli, const char *name)
{
	if (access(name, F_OK) == 0 && !strchr(name, '/'))
		cli_message(cli, "a name is looked up in plugin_dir, a path is not: did you mean ./%s?", name);
}

/* A path names a file as it does for every command; a bare name is one of the plugin folder, as in the configuration.
 */
static int load_named(struct cli *cli, const char *name, const struct plugin **ret)
{
	struct error err;
	enum status st;
	if (strchr(name, '/')) {
		AUTOFREE char *absolute = realpath(name, NULL);
		st = plugin_load(ret, "", absolute ? absolute : name, &err);
	} else {
		struct config *config;
		int rc = cli_load_config(cli, &config);
		if (rc != EXIT_FINE) {
			hint_path(cli, name);
			return rc;
		}
		st = plugin_load(ret, config->process.plugin_dir, name, &err);
		config_destroy(config);
	}
	if (st == ST_OK)
		return EXIT_FINE;
	cli_message(cli, "%s", err.text);
	hint_path(cli, name);
	return EXIT_FAILED;
}

static int run_show(struct cli *cli, int argc, char **argv)
{
	if (argc != 1)
		return cli_usage_error(cli, "show takes one plugin: a file of the plugin folder, or a path");
	const struct plugin *p;
	int rc = load_named(cli, argv[0], &p);
	if (rc != EXIT_FINE)
		return rc;
	if (cli->json) {
		json_t *data = summary_json(p->path, p);
		json_object_set_new(data, "options", options_json(p));
		json_object_set_new(data, "statements", statements_json(p));
		return print_json(cli, data);
	}
	struct buffer out = { 0 };
	show_text(p, &out);
	return cli_print(cli, &out);
}

/* ---- list ---- */

static int is_shared_object(const struct dirent *entry)
{
	const size_t len = strlen(entry->d_name);
	return entry->d_name[0] != '.' && len > 3 && strcmp(entry->d_name + len - 3, ".so") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* One file of the folder, as a line or an object. False: it was refused. */
static bool list_one(const char *dir, const char *file, int width, struct buffer *out, json_t *list)
{
	const struct plugin *p;
	struct error err;
	const bool good = plugin_load(&p, dir, file, &err) == ST_OK;
	if (list) {
		json_array_append_new(
			list, good ? summary_json(file, p)
				   : json_pack("{s:o, s:o}", "file", json_text(file), "refused", json_text(err.text)));
		return good;
	}
	add_clean(out, file);
	buffer_printf(out, "%*s  ", width - (int)strlen(file), "");
	if (!good) {
		buffer_puts(out, "refused: ");
		add_clean(out, err.text);
	} else {
		const struct effectd_plugin *d = &p->descriptor;
		buffer_printf(out, "ABI %u.%u  consumer ", d->abi_major, d->abi_minor);
		add_clean(out, d->consumer ? d->consumer : "any");
		buffer_puts(out, "  version ");
		add_clean(out, d->version ? d->version : "none");
		if (d->description) {
			buffer_puts(out, "  ");
			add_clean(out, d->description);
		}
	}
	buffer_puts(out, "\n");
	return good;
}

static int list_folder(struct cli *cli, const char *dir)
{
	struct dirent **entries = NULL;
	const int n = scandir(dir, &entries, is_shared_object, by_bytes);
	if (n < 0) {
		cli_message(cli, "%s: %m", dir);
		return EXIT_FAILED;
	}
	int width = 0;
	for (int i = 0; i < n; i++)
		if ((int)strlen(entries[i]->d_name) > width)
			width = (int)strlen(entries[i]->d_name);

	struct buffer out = { 0 };
	json_t *list = cli->json ? json_array() : NULL;
	bool all_good = true;
	for (int i = 0; i < n; i++) {
		all_good &= list_one(dir, entries[i]->d_name, width, &out, list);
		free(entries[i]);
	}
	free(entries);
	if (n == 0 && !cli->json)
		cli_message(cli, "there is no plugin in %s", dir);
	const int rc = cli->json ? print_json(cli, list) : cli_print(cli, &out);
	return rc == EXIT_FINE && !all_good ? EXIT_FAILED : rc;
}

static int run_list(struct cli *cli, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage_error(cli, "list takes at most one folder");
	if (argc == 1)
		return list_folder(cli, argv[0]);
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	rc = list_folder(cli, config->process.plugin_dir);
	config_destroy(config);
	return rc;
}

const struct cli_action plugin_actions[] = {
	{ "list", "[FOLDER]", "what can be loaded from plugin_dir, or from another folder", run_list },
	{ "show", "FILE", "what a plugin declares: options, statements, versions", run_show },
	{ "new", "NAME", "write a project for a plugin of your own into ./NAME", plugin_new },
	{ NULL },
};

#include "cli/ask.h"
#include "run/control.h"

int ask_daemon(const struct cli *cli, const char *line, json_t **ret)
{
	AUTOFREE char *runtime_dir = config_read_runtime_dir(cli->config_file);
	CLEANUP(buffer_finish) struct buffer text = { 0 };
	struct error err = { 0 };
	if (!runtime_dir)
		error_oom(&err);
	else if (control_ask(runtime_dir, line, &text, &err) == ST_OK &&
		 !(*ret = json_loadb(buffer_text(&text), text.len, 0, NULL)))
		error_set(&err, ST_INTERNAL, "what the daemon answered is no JSON");
	return err.status == ST_OK ? EXIT_FINE : cli_failure(cli, &err);
}

int ask_print_json(const struct cli *cli, json_t *answer)
{
	struct buffer out = { 0 };
	AUTOFREE char *text = json_dumps(answer, JSON_INDENT(2));
	json_decref(answer);
	if (!text) {
		cli_message(cli, "out of memory");
		return EXIT_INTERNAL;
	}
	buffer_printf(&out, "%s\n", text);
	return cli_print(cli, &out);
}

const char *ask_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

json_int_t ask_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

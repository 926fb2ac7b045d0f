/* The key table as Markdown. */
#include "config/private.h"
#include "config/show.h"
#include <string.h>

/* In a cell of a table | ends the cell; < and * would be markup outside of code. */
static void add_code(struct buffer *out, const char *text)
{
	buffer_puts(out, "`");
	for (; *text; text++) {
		if (*text == '|')
			buffer_puts(out, "\\");
		buffer_add(out, text, 1);
	}
	buffer_puts(out, "`");
}

static void add_default(struct buffer *out, const struct config_key *key)
{
	if (key->computed)
		buffer_puts(out, key->computed);
	else if (key->fallback && !*key->fallback)
		buffer_puts(out, "empty");
	else if (key->fallback)
		add_code(out, key->fallback);
	else if (key->flags & KEY_REQUIRED)
		buffer_puts(out, "**required**");
	else
		buffer_puts(out, "none");
}

static void add_row(struct buffer *out, const struct config_key *key)
{
	char values[128];
	describe_values(key, values, sizeof(values));
	buffer_printf(out, "| `%s%s`", key->name, key->type == KEY_FAMILY ? "NAME" : "");
	if (key->flags & KEY_FROM_FILE)
		buffer_printf(out, " `%s%s_file`", key->name, key->type == KEY_FAMILY ? "NAME" : "");
	buffer_printf(out, " | %s | ", values);
	add_default(out, key);
	buffer_printf(out, " | %s | %s", describe_reload(key), key->help);
	if (key->sample && !key->computed) {
		buffer_puts(out, " Example: ");
		add_code(out, key->sample);
	}
	buffer_puts(out, " |\n");
}

void config_reference(struct buffer *out)
{
	for (size_t i = 0; i < KIND_COUNT; i++) {
		const struct config_kind *kind = &config_kinds[i];
		buffer_printf(out, "%s### `[%s%s]`\n\n%s\n\n", i > 0 ? "\n" : "", kind->name,
			      kind->named ? ":NAME" : "", kind->help);
		buffer_puts(out, "| key | value | default | reload | what it does |\n|---|---|---|---|---|\n");
		for (size_t k = 0; k < kind->key_count; k++)
			add_row(out, &kind->keys[k]);
	}
}

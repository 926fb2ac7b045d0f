/* The key table as a complete sample: each key with its help, off, at its default; what must be given is on. */
#include "config/private.h"
#include "config/show.h"
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 100 };

/* Text as comment lines. */
static void add_comment(struct buffer *out, const char *text)
{
	buffer_puts(out, "# ");
	buffer_wrap(out, text, strlen("# "), "# ", COLUMNS);
	buffer_puts(out, "\n");
}

static void add_key(struct buffer *out, const struct config_key *key)
{
	char values[128], text[1024];
	const bool bounded = key->words || key->max != 0 || key->type == KEY_BOOL;
	describe_values(key, values, sizeof(values));
	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", key->help, bounded ? " (" : "", bounded ? values : "",
		 bounded ? ")" : "", key->computed ? " Default: " : "", key->computed ? key->computed : "",
		 key->computed ? "." : "");
	buffer_puts(out, "\n");
	add_comment(out, text);
	const char *off = key->flags & KEY_REQUIRED ? "" : "#", *shown = describe_default(key);
	if (key->type == KEY_FAMILY)
		buffer_printf(out, "%s%s\n", off, key->sample);
	else
		buffer_printf(out, "%s%s =%s%s\n", off, key->name, *shown ? " " : "", shown);
}

void config_default(struct buffer *out)
{
	add_comment(out,
		    "effectd: every key, off and at its default, or at an example where there is none. What must be "
		    "given is on. `effectd check` finds every mistake.");
	for (size_t i = 0; i < KIND_COUNT; i++) {
		const struct config_kind *kind = &config_kinds[i];
		buffer_puts(out, "\n");
		add_comment(out, kind->help);
		buffer_printf(out, "[%s%s%s]\n", kind->name, kind->named ? ":" : "", kind->named ? kind->sample : "");
		for (size_t k = 0; k < kind->key_count; k++)
			add_key(out, &kind->keys[k]);
	}
}

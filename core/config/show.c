/* Effective values, in the order of the key table, written for people or for programs by one walk. */
#include "config/show.h"
#include "config/private.h"
#include "config/value.h"
#include <stdio.h>
#include <string.h>

/* One value as it is shown. */
struct shown {
	const char *name;
	const char *value;         /* masked; of KEY_file: the file it is read from */
	const char *suffix;        /* "_file" with KEY_file, else "" */
	struct config_place place; /* file NULL: a default */
	size_t bytes;              /* of a secret, or of the file's content; 0: the value is all there is */
	bool masked;
};

typedef void show_value(struct buffer *out, const struct shown *v);

struct format {
	void (*begin_section)(struct buffer *out, const char *title, bool first);
	show_value *value;
	void (*end_section)(struct buffer *out);
};

/* --- the walk --- */

static void show_text(const struct format *format, struct buffer *out, const struct config_key *key, const char *name,
		      const char *value, const struct setting *setting)
{
	CLEANUP(buffer_finish) struct buffer masked = { 0 };
	struct shown shown = { .name = name, .suffix = "" };
	if (setting)
		shown.place = setting->place;
	if (setting && setting->written) {
		shown.value = setting->written;
		shown.suffix = "_file";
		shown.bytes = strlen(setting->value);
	} else {
		shown.masked = mask_value(key, name, value, &masked);
		shown.value = buffer_text(&masked);
		shown.bytes = shown.masked ? strlen(value) : 0;
	}
	out->failed |= masked.failed;
	format->value(out, &shown);
}

/* What stands in the struct: a path made absolute, a default that was computed. NULL: nothing. */
static const char *effective_text(const struct section *s, const struct config_key *key, const struct setting *setting,
				  char *number, size_t size)
{
	const void *field = (const char *)s->values + key->offset;
	const bool is_text = key->type == KEY_TEXT || key->type == KEY_PATH || key->type == KEY_SECRET_FILE ||
			     key->type == KEY_CREDENTIAL || key->type == KEY_WORD;
	if (is_text)
		return *(const char *const *)field;
	if (setting)
		return setting->value;
	if (key->fallback || !key->computed)
		return key->fallback;
	value_format(key, *(const int64_t *)field, number, size);
	return number;
}

static void show_secret_file(const struct format *format, struct buffer *out, const struct section *s,
			     const struct setting *setting, const char *path)
{
	const char *content = *(const char *const *)((const char *)s->values + setting->key->content);
	format->value(out, &(struct shown){ setting->name, path, "", setting->place, content ? strlen(content) : 0 });
}

static void show_key(const struct format *format, struct buffer *out, const struct section *s,
		     const struct config_key *key)
{
	char number[32];
	const struct setting *setting;
	if (key->type == KEY_FAMILY) {
		for (setting = s->settings; setting; setting = setting->next)
			if (setting->key == key)
				show_text(format, out, key, setting->name, setting->value, setting);
		return;
	}
	setting = section_find(s, key->name);
	const char *value = effective_text(s, key, setting, number, sizeof(number));
	if (!value || key->type == KEY_INCLUDE) /* what was included is shown itself */
		return;
	if (key->type == KEY_SECRET_FILE || key->type == KEY_CREDENTIAL)
		show_secret_file(format, out, s, setting, value);
	else
		show_text(format, out, key, key->name, value, setting);
}

static void show_all(const struct config *c, const struct format *format, struct buffer *out)
{
	bool first = true;
	for (size_t i = 0; i < KIND_COUNT; i++) {
		for (const struct section *s = c->private->sections; s; s = s->next) {
			if (s->kind != &config_kinds[i])
				continue;
			format->begin_section(out, s->title, first);
			first = false;
			for (size_t k = 0; k < s->kind->key_count; k++)
				show_key(format, out, s, &s->kind->keys[k]);
			format->end_section(out);
		}
	}
}

/* --- INI --- */

static void ini_section(struct buffer *out, const char *title, bool first)
{
	buffer_printf(out, "%s[%s]\n", first ? "" : "\n", title);
}

static void ini_section_end(struct buffer *out)
{
	(void)out;
}

static void ini_value(struct buffer *out, const struct shown *v)
{
	buffer_puts(out, "# ");
	if (v->place.file)
		buffer_printf(out, "%s:%d", v->place.file, v->place.line);
	else
		buffer_puts(out, "default");
	if (v->bytes > 0)
		buffer_printf(out, ", %zu bytes%s", v->bytes, v->masked ? " with the secret" : " in the file");
	buffer_printf(out, "\n%s%s =%s", v->name, v->suffix, *v->value ? " " : "");
	for (const char *at = v->value, *dollar;; at = dollar + 2) { /* so that it reads back as it is */
		dollar = strstr(at, "${");
		if (!dollar) {
			buffer_puts(out, at);
			break;
		}
		buffer_add(out, at, (size_t)(dollar - at));
		buffer_puts(out, "$${");
	}
	buffer_puts(out, "\n");
}

void config_show(const struct config *c, struct buffer *out)
{
	static const struct format ini = { ini_section, ini_value, ini_section_end };
	show_all(c, &ini, out);
}

/* --- JSON --- */

static void json_text(struct buffer *out, const char *text)
{
	buffer_puts(out, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buffer_printf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			buffer_printf(out, "\\u%04x", (unsigned)(unsigned char)*text);
		else
			buffer_add(out, text, 1);
	}
	buffer_puts(out, "\"");
}

static void json_comma(struct buffer *out)
{
	if (out->len > 0 && out->data[out->len - 1] != '{')
		buffer_puts(out, ", ");
}

static void json_section(struct buffer *out, const char *title, bool first)
{
	buffer_puts(out, first ? "" : ",\n ");
	json_text(out, title);
	buffer_puts(out, ": {");
}

static void json_section_end(struct buffer *out)
{
	buffer_puts(out, "}");
}

static void json_value(struct buffer *out, const struct shown *v)
{
	json_comma(out);
	buffer_printf(out, "\n  \"%s%s\": {\"value\": ", v->name, v->suffix);
	json_text(out, v->value);
	if (v->masked)
		buffer_puts(out, ", \"masked\": true");
	if (v->bytes > 0)
		buffer_printf(out, ", \"bytes\": %zu", v->bytes);
	if (v->place.file) {
		buffer_puts(out, ", \"file\": ");
		json_text(out, v->place.file);
		buffer_printf(out, ", \"line\": %d", v->place.line);
	}
	buffer_puts(out, "}");
}

void config_show_json(const struct config *c, struct buffer *out)
{
	static const struct format json = { json_section, json_value, json_section_end };
	buffer_puts(out, "{");
	show_all(c, &json, out);
	buffer_puts(out, "}\n");
}

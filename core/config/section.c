/* Sections and settings as lines come in: what exists, what was written before, where a value really comes from. */
#include "base/text.h"
#include "config/private.h"
#include <stdio.h>
#include <string.h>

/* --- sections --- */

static const struct config_kind *find_kind(const char *name, size_t len)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (strlen(config_kinds[i].name) == len && memcmp(config_kinds[i].name, name, len) == 0)
			return &config_kinds[i];
	return NULL;
}

static void unknown_section(struct loader *l, struct config_place place, const char *title, size_t len)
{
	const char *names[KIND_COUNT + 1] = { NULL }, *colon = memchr(title, ':', len);
	const size_t kind_len = colon ? (size_t)(colon - title) : len;
	for (size_t i = 0; i < KIND_COUNT; i++)
		names[i] = config_kinds[i].name;
	char kind[32];
	snprintf(kind, sizeof(kind), "%.*s", kind_len < sizeof(kind) ? (int)kind_len : 0, title);
	const char *near = text_nearest(kind, names);
	const struct config_kind *meant = near ? find_kind(near, strlen(near)) : NULL;
	const struct quoted section = loader_quote(title, len);
	if (meant)
		loader_problem(l, place, NULL, NULL, "there is no section [%s]: did you mean [%s%s]?", section.text,
			       near, meant->named ? (colon ? loader_quote(colon, len - kind_len).text : ":NAME") : "");
	else
		loader_problem(l, place, NULL, NULL,
			       "there is no section [%s]: there are [effectd] and [KIND:NAME] with the kinds broker, "
			       "database, consumer, target and relay",
			       section.text);
}

/* The kind of a title and the name in it; NULL: reported. */
static const struct config_kind *parse_title(struct loader *l, struct config_place place, const char *title, size_t len,
					     const char **ret_name)
{
	const char *colon = memchr(title, ':', len);
	const struct config_kind *kind = find_kind(title, colon ? (size_t)(colon - title) : len);
	if (!kind) {
		unknown_section(l, place, title, len);
		return NULL;
	}
	if (!kind->named) {
		if (colon)
			loader_problem(l, place, NULL, NULL, "the section [%s] takes no name", kind->name);
		*ret_name = NULL;
		return colon ? NULL : kind;
	}
	if (!colon) {
		loader_problem(l, place, NULL, NULL, "the section needs a name: [%s:NAME]", kind->name);
		return NULL;
	}
	const size_t name_len = len - (size_t)(colon + 1 - title);
	char *name = loader_copy(l, colon + 1, name_len);
	if (!name)
		return NULL;
	if (!text_is_name(name)) {
		/* Two names that differ only in case would be taken for one by people. */
		const bool capitals = strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		loader_problem(l, place, NULL, NULL, "the name in [%s] (%zu bytes) %s", loader_quote(title, len).text,
			       name_len,
			       capitals ? "has capital letters: names have none"
					: "must begin with a-z and go on with a-z, 0-9, _ and -, at most 63 of them");
		return NULL;
	}
	*ret_name = name;
	return kind;
}

static struct section *find_section(const struct loader *l, const char *title)
{
	for (struct section *s = l->private->sections; s; s = s->next)
		if (strcmp(s->title, title) == 0)
			return s;
	return NULL;
}

struct section *section_begin(struct loader *l, struct config_place place, const char *title, size_t len)
{
	struct config_private *p = l->private;
	const char *name;
	const struct config_kind *kind = parse_title(l, place, title, len, &name);
	char *copy = kind ? loader_copy(l, title, len) : NULL;
	if (!copy)
		return NULL;
	struct section *s = find_section(l, copy);
	if (s) {
		if (s->place.file == place.file)
			loader_problem(l, place, NULL, NULL, "the section [%s] stands in this file already, in line %d",
				       copy, s->place.line);
		else
			s->place = place;
		return s;
	}
	if (p->section_count == SECTIONS_MAX) {
		loader_problem(l, place, NULL, NULL, "more than %d sections", SECTIONS_MAX);
		return NULL;
	}
	s = loader_alloc(l, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct section){ .kind = kind, .title = copy, .name = name, .place = place };
	s->tail = &s->settings;
	*p->tail = s;
	p->tail = &s->next;
	p->section_count++;
	return s;
}

struct setting *section_find(const struct section *s, const char *name)
{
	for (struct setting *setting = s->settings; setting; setting = setting->next)
		if (strcmp(setting->name, name) == 0)
			return setting;
	return NULL;
}

struct config_place section_place(const struct section *s, const char *name)
{
	const struct setting *setting = section_find(s, name);
	return setting ? setting->place : s->place;
}

/* --- settings --- */

/* Mistakes that no spelling distance finds. */
static const struct {
	const char *key, *hint;
} hints[] = {
	{ "password", "secrets do not stand here: password_file = PATH, or password_credential = NAME" },
	{ "user", "the user is part of url or conninfo" },
	{ "host", "the host is part of url or conninfo" },
	{ "port", "the port is part of url or conninfo" },
	{ "dbname", "the database is part of conninfo" },
	{ "vhost", "the virtual host is part of url" },
};

/* [KIND:NAME] that has such a key; NULL: none. */
static const struct config_kind *kind_with_key(const char *name)
{
	const char *member;
	size_t member_len;
	bool from_file;
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (key_find(&config_kinds[i], name, &member, &member_len, &from_file))
			return &config_kinds[i];
	return NULL;
}

/* The key, or for plugn.x the family with its member, that name was most likely meant to be; "": none. */
static struct quoted nearest_key(const struct config_kind *kind, const char *name)
{
	const char *names[64] = { NULL };
	size_t n = 0;
	const char *dot = strchr(name, '.');
	struct quoted near = { "" };
	char family[sizeof(near.text)];
	snprintf(family, sizeof(family), "%.*s", dot && dot - name < 32 ? (int)(dot + 1 - name) : 0, name);
	for (size_t i = 0; i < kind->key_count && n < ARRAY_LEN(names) - 1; i++)
		if ((kind->keys[i].type == KEY_FAMILY) == (dot != NULL))
			names[n++] = kind->keys[i].name;
	const char *found = text_nearest(dot ? family : name, names);
	if (found)
		snprintf(near.text, sizeof(near.text), "%s%s", found,
			 dot ? loader_quote(dot + 1, strlen(dot + 1)).text : "");
	return near;
}

static void unknown_key(struct loader *l, const struct section *s, struct config_place place, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
		if (strcmp(hints[i].key, name) == 0) {
			loader_problem(l, place, s->title, name, "there is no such key: %s", hints[i].hint);
			return;
		}
	}
	const struct quoted near = nearest_key(s->kind, name);
	const struct config_kind *elsewhere = kind_with_key(name);
	if (near.text[0])
		loader_problem(l, place, s->title, name, "there is no such key: did you mean %s?", near.text);
	else if (elsewhere)
		loader_problem(l, place, s->title, name, "there is no such key here: it belongs into [%s%s]",
			       elsewhere->name, elsewhere->named ? ":NAME" : "");
	else
		loader_problem(l, place, s->title, name, "there is no such key");
}

/* The content of KEY_file without its last line end. NULL: reported. */
static const char *read_content(struct loader *l, const struct section *s, const struct setting *setting,
				const char *name, const char *path)
{
	const struct config_place place = setting->place;
	struct error err = { 0 };
	struct file_content content = { 0 };
	if (file_read(path, CONTENT_BYTES_MAX, FILE_ANY, &content, &err) != ST_OK) {
		/* A member's name is the user's own, and may end so by chance. */
		loader_problem(l, place, s->title, name, "%s %s%s", path, err.text,
			       setting->key->type == KEY_FAMILY ? ": what ends in _file takes its value from a file"
								: "");
		return NULL;
	}
	AUTOFREE char *data = content.data;
	size_t size = content.size;
	if (memchr(data, '\0', size) || !text_is_utf8(data, size)) {
		loader_problem(l, place, s->title, name, "%s is not UTF-8 text", path);
		return NULL;
	}
	if (size > 0 && data[size - 1] == '\n')
		size--;
	if (size > 0 && data[size - 1] == '\r')
		size--;
	return loader_copy(l, data, size);
}

static void set_value(struct loader *l, struct section *s, struct setting *setting, const char *name, const char *value,
		      bool from_file)
{
	char text[256];
	const char *expanded;
	setting->value = setting->written = NULL;
	if (!expand_value(l, value, &expanded, text, sizeof(text))) {
		loader_problem(l, setting->place, s->title, name, "%s", text);
		return;
	}
	if (!expanded)
		return;
	if (!*expanded && (from_file || !(setting->key->flags & KEY_MAY_BE_EMPTY))) {
		loader_problem(l, setting->place, s->title, name, "there is no value");
		return;
	}
	setting->value = expanded;
	if (!from_file)
		return;
	setting->value = NULL;
	setting->written = file_resolve(l, setting->place.file, expanded);
	if (setting->written)
		setting->value = read_content(l, s, setting, name, setting->written);
	if (setting->value && !*setting->value && !(setting->key->flags & KEY_MAY_BE_EMPTY)) {
		loader_problem(l, setting->place, s->title, name, "the file is empty");
		setting->value = NULL;
	}
}

static struct setting *add_setting(struct loader *l, struct section *s, struct config_place place,
				   const struct config_key *key, const char *name, size_t member_len)
{
	if (s->setting_count == SETTINGS_MAX) {
		loader_problem(l, place, s->title, name, "more than %d settings in the section", SETTINGS_MAX);
		return NULL;
	}
	struct setting *setting = loader_alloc(l, sizeof(*setting));
	if (!setting)
		return NULL;
	*setting = (struct setting){ .key = key, .name = name };
	if (member_len > 0)
		setting->member = name + strlen(key->name);
	*s->tail = setting;
	s->tail = &setting->next;
	s->setting_count++;
	return setting;
}

void section_set(struct loader *l, struct section *s, struct config_place place, const char *name, const char *value)
{
	const char *member;
	size_t member_len;
	bool from_file;
	const struct config_key *key = key_find(s->kind, name, &member, &member_len, &from_file);
	if (!key) {
		unknown_key(l, s, place, name);
		return;
	}
	char *full = loader_copy(l, name, strlen(name) - (from_file ? strlen("_file") : 0));
	if (!full)
		return;
	struct setting *setting = section_find(s, full);
	if (setting && setting->place.file == place.file) {
		loader_problem(l, place, s->title, name, "stands in this file already, in line %d",
			       setting->place.line);
		return;
	}
	if (!setting)
		setting = add_setting(l, s, place, key, full, member_len);
	if (!setting)
		return;
	setting->place = place;
	set_value(l, s, setting, name, value, from_file);
}

/* From settings to the typed structs, by the key table alone. */
#include "base/text.h"
#include "config/private.h"
#include "config/value.h"
#include <stdio.h>
#include <string.h>

/* --- where things go --- */

static void *field(const struct section *s, size_t offset)
{
	return (char *)s->values + offset;
}

/* The lists, in the order of the files; each section's values point into them. */
static bool make_lists(struct loader *l)
{
	struct section *s;
	for (size_t i = 0; i < KIND_COUNT; i++) {
		const struct config_kind *kind = &config_kinds[i];
		char *at = (char *)l->config + kind->list;
		size_t n = 0;
		for (s = l->private->sections; s; s = s->next)
			n += s->kind == kind;
		if (kind->named) {
			char *list = loader_alloc(l, (n + 1) * kind->size);
			if (!list)
				return false;
			memcpy(at, &list, sizeof(list)); /* the lists have types of their own */
			memcpy((char *)l->config + kind->count, &n, sizeof(n));
			at = list;
		}
		for (s = l->private->sections; s; s = s->next) {
			if (s->kind != kind)
				continue;
			s->values = at;
			if (kind->named)
				*(struct config_named *)s->values = (struct config_named){ s->name, s->place };
			at += kind->size;
		}
	}
	return true;
}

/* --- secrets --- */

/* What a file holds without its last line end; nothing but one line may be in it. NULL: reported. */
static const char *read_secret(struct loader *l, const struct section *s, const struct setting *setting,
			       const char *path, enum file_rule rule)
{
	struct error err = { 0 };
	struct file_content content = { 0 };
	if (file_read(path, SECRET_BYTES_MAX, rule, &content, &err) != ST_OK) {
		loader_problem(l, setting->place, s->title, setting->name, "%s %s", path, err.text);
		return NULL;
	}
	AUTOFREE char *data = content.data;
	size_t size = content.size;
	if (size > 0 && data[size - 1] == '\n')
		size--;
	if (size > 0 && data[size - 1] == '\r')
		size--;
	const char *wrong = NULL;
	if (size == 0)
		wrong = "is empty";
	else if (memchr(data, '\0', size))
		wrong = "has a NUL byte";
	else if (memchr(data, '\n', size))
		wrong = "has more than one line";
	if (wrong)
		loader_problem(l, setting->place, s->title, setting->name, "%s %s", path, wrong);
	const char *secret = wrong ? NULL : loader_copy(l, data, size);
	explicit_bzero(data, content.size);
	return secret;
}

static const char *credential_path(struct loader *l, const struct section *s, const struct setting *setting)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY"), *name = setting->value;
	if (!folder || !*folder) {
		loader_problem(l, setting->place, s->title, setting->name,
			       "CREDENTIALS_DIRECTORY is not set: systemd sets it for a unit with LoadCredential=");
		return NULL;
	}
	if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		loader_problem(l, setting->place, s->title, setting->name,
			       "must be the name of a credential, not a path");
		return NULL;
	}
	const size_t folder_len = strlen(folder), len = strlen(name);
	char *path = loader_alloc(l, folder_len + 1 + len + 1);
	if (path) {
		memcpy(path, folder, folder_len);
		path[folder_len] = '/';
		memcpy(path + folder_len + 1, name, len);
	}
	return path;
}

static void assign_secret(struct loader *l, const struct section *s, const struct setting *setting)
{
	const struct config_key *key = setting->key;
	const bool credential = key->type == KEY_CREDENTIAL;
	const char *path =
		credential ? credential_path(l, s, setting) : file_resolve(l, setting->place.file, setting->value);
	const char **content = field(s, key->content);
	if (*content) {
		loader_problem(l, setting->place, s->title, setting->name,
			       "there is a password already: give password_file or password_credential, not both");
		return;
	}
	*(const char **)field(s, key->offset) = credential ? setting->value : path;
	if (path) /* systemd gives out credentials with modes of its own */
		*content = read_secret(l, s, setting, path, credential ? FILE_ANY : FILE_SECRET);
}

/* --- values --- */

static void store_number(const struct section *s, const struct config_key *key, int64_t number)
{
	if (key->type == KEY_BOOL)
		*(bool *)field(s, key->offset) = number != 0;
	else if (key->type == KEY_WORD)
		*(const char **)field(s, key->offset) = key->words[number];
	else
		*(int64_t *)field(s, key->offset) = number;
}

/* False: text says what it must be. setting NULL: a default. */
static bool assign_value(struct loader *l, const struct section *s, const struct config_key *key, const char *value,
			 const struct setting *setting, char *text, size_t size)
{
	int64_t number;
	switch (key->type) {
	case KEY_TEXT:
		*(const char **)field(s, key->offset) = value;
		return !key->check || key->check(value, text, size);
	case KEY_PATH:
		*(const char **)field(s, key->offset) = setting ? file_resolve(l, setting->place.file, value) : value;
		return true;
	case KEY_SECRET_FILE:
	case KEY_CREDENTIAL:
		assign_secret(l, s, setting);
		return true;
	case KEY_FAMILY: /* put together in assign_family() */
		return !key->check || key->check(value, text, size);
	case KEY_INCLUDE:
		return true;
	case KEY_WORD:
	case KEY_CHOICE:
	case KEY_BOOL:
	case KEY_INT:
	case KEY_DURATION:
	case KEY_SIZE:
		if (!value_parse(key, value, &number, text, size))
			return false;
		store_number(s, key, number);
		return true;
	}
	return false;
}

static void assign_defaults(struct loader *l, const struct section *s)
{
	char text[128];
	for (const struct config_key *key = s->kind->keys; key < s->kind->keys + s->kind->key_count; key++)
		if (key->fallback && !assign_value(l, s, key, key->fallback, NULL, text, sizeof(text)))
			loader_problem(l, s->place, s->title, key->name, "its default %s", text);
}

static void assign_family(struct loader *l, const struct section *s, const struct config_key *key)
{
	struct config_pairs *pairs = field(s, key->offset);
	size_t n = 0;
	for (const struct setting *setting = s->settings; setting; setting = setting->next)
		n += setting->key == key;
	pairs->list = loader_alloc(l, (n + 1) * sizeof(*pairs->list));
	if (!pairs->list)
		return;
	for (const struct setting *setting = s->settings; setting; setting = setting->next)
		if (setting->key == key && setting->value)
			pairs->list[pairs->count++] =
				(struct config_pair){ setting->member, setting->value, setting->place };
}

static void assign_section(struct loader *l, const struct section *s)
{
	assign_defaults(l, s);
	for (const struct setting *setting = s->settings; setting; setting = setting->next) {
		char text[256];
		if (setting->value && !assign_value(l, s, setting->key, setting->value, setting, text, sizeof(text)))
			loader_problem(l, setting->place, s->title, setting->name, "%s", text);
	}
	for (const struct config_key *key = s->kind->keys; key < s->kind->keys + s->kind->key_count; key++) {
		if (key->type == KEY_FAMILY)
			assign_family(l, s, key);
		if (!(key->flags & KEY_REQUIRED))
			continue;
		const struct setting *setting = s->settings;
		while (setting && setting->key != key)
			setting = setting->next;
		if (!setting)
			loader_problem(l, s->place, s->title, NULL, "%s%s is missing", key->name,
				       key->type == KEY_FAMILY ? "NAME" : "");
	}
}

void assign_values(struct loader *l)
{
	if (!make_lists(l))
		return;
	for (const struct section *s = l->private->sections; s && !l->out_of_memory; s = s->next)
		assign_section(l, s);
}

#include "config/diff.h"
#include "config/private.h"
#include "config/value.h"
#include <string.h>

struct diff {
	config_change_report *report;
	void *arg;
	size_t count;
};

static const struct section *find(const struct config *c, const char *title)
{
	for (const struct section *s = c->private->sections; s; s = s->next)
		if (strcmp(s->title, title) == 0)
			return s;
	return NULL;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* NULL: not set. */
static struct quoted shown(const struct config_key *key, const char *name, const char *value)
{
	CLEANUP(buffer_finish) struct buffer masked = { 0 };
	if (!value)
		return (struct quoted){ "none" };
	mask_value(key, name, value, &masked);
	return loader_quote(buffer_text(&masked), masked.len);
}

static void changed(struct diff *d, const struct config_key *key, const char *name, const char *before,
		    const char *after)
{
	d->count++;
	if (d->report)
		d->report(d->arg, &(struct config_change){ key, name, before, after });
}

static void diff_text(struct diff *d, const struct config_key *key, const char *name, const char *before,
		      const char *after)
{
	if (!same(before, after))
		changed(d, key, name, shown(key, name, before).text, shown(key, name, after).text);
}

/* The file may be the same and its content another. */
static void diff_secret(struct diff *d, const struct config_key *key, const void *before, const void *after)
{
	const char *const *old = (const void *)((const char *)before + key->offset);
	const char *const *new = (const void *)((const char *)after + key->offset);
	const char *const *old_content = (const void *)((const char *)before + key->content);
	const char *const *new_content = (const void *)((const char *)after + key->content);
	if (!same(*old, *new))
		diff_text(d, key, key->name, *old, *new);
	else if (*old && !same(*old_content, *new_content))
		changed(d, key, key->name, "a secret", "another one");
}

static int64_t number_at(const struct config_key *key, const void *values)
{
	const void *field = (const char *)values + key->offset;
	return key->type == KEY_BOOL ? *(const bool *)field : *(const int64_t *)field;
}

static void diff_number(struct diff *d, const struct config_key *key, const void *before, const void *after)
{
	const int64_t old = number_at(key, before), new = number_at(key, after);
	char old_text[64], new_text[64];
	if (old == new)
		return;
	value_format(key, old, old_text, sizeof(old_text));
	value_format(key, new, new_text, sizeof(new_text));
	changed(d, key, key->name, old_text, new_text);
}

static const char *pair_value(const struct config_pairs *pairs, const char *name)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (strcmp(pairs->list[i].name, name) == 0)
			return pairs->list[i].value;
	return NULL;
}

static void diff_pair(struct diff *d, const struct config_key *key, const char *member, const char *before,
		      const char *after)
{
	CLEANUP(buffer_finish) struct buffer name = { 0 };
	buffer_printf(&name, "%s%s", key->name, member);
	diff_text(d, key, buffer_text(&name), before, after);
}

static void diff_family(struct diff *d, const struct config_key *key, const void *before, const void *after)
{
	const struct config_pairs *old = (const void *)((const char *)before + key->offset);
	const struct config_pairs *new = (const void *)((const char *)after + key->offset);
	for (size_t i = 0; i < old->count; i++)
		diff_pair(d, key, old->list[i].name, old->list[i].value, pair_value(new, old->list[i].name));
	for (size_t i = 0; i < new->count; i++)
		if (!pair_value(old, new->list[i].name))
			diff_pair(d, key, new->list[i].name, NULL, new->list[i].value);
}

size_t config_diff(const struct config *before, const struct config *after, const char *title,
		   config_change_report *report, void *arg)
{
	struct diff d = { .report = report, .arg = arg };
	const struct section *s = find(before, title), *other = find(after, title);
	for (size_t i = 0; s && other && i < s->kind->key_count; i++) {
		const struct config_key *key = &s->kind->keys[i];
		const void *old = s->values, *new = other->values;
		switch (key->type) {
		case KEY_TEXT:
		case KEY_PATH:
		case KEY_WORD:
			diff_text(&d, key, key->name, *(const char *const *)((const char *)old + key->offset),
				  *(const char *const *)((const char *)new + key->offset));
			break;
		case KEY_CHOICE:
		case KEY_BOOL:
		case KEY_INT:
		case KEY_DURATION:
		case KEY_SIZE:
			diff_number(&d, key, old, new);
			break;
		case KEY_SECRET_FILE:
		case KEY_CREDENTIAL:
			diff_secret(&d, key, old, new);
			break;
		case KEY_FAMILY:
			diff_family(&d, key, old, new);
			break;
		case KEY_INCLUDE:
			break;
		}
	}
	return d.count;
}

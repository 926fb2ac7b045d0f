/* From files to a configuration: lines, values, cross checks, in passes that each find all they can. */
#include "config/private.h"
#include <string.h>

void *loader_alloc(struct loader *l, size_t bytes)
{
	void *p = l->out_of_memory ? NULL : arena_alloc(&l->private->arena, bytes);
	if (p)
		memset(p, 0, bytes);
	else
		l->out_of_memory = true;
	return p;
}

char *loader_copy(struct loader *l, const char *data, size_t len)
{
	char *p = l->out_of_memory ? NULL : arena_copy(&l->private->arena, data, len);
	if (!p)
		l->out_of_memory = true;
	return p;
}

struct config *config_hold(struct config *c)
{
	c->holds++;
	return c;
}

void config_destroy(struct config *c)
{
	if (!c || c->holds-- > 0)
		return;
	if (c->private) {
		arena_finish(&c->private->arena);
		free(c->private);
	}
	free(c);
}

static void destroy_config(struct config **c)
{
	config_destroy(*c);
}

static struct config *create_config(void)
{
	struct config *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->private = calloc(1, sizeof(*c->private));
	if (!c->private) {
		free(c);
		return NULL;
	}
	arena_init(&c->private->arena);
	c->private->tail = &c->private->sections;
	return c;
}

/* The process has a section even where none was written: its defaults hold. */
static void complete_sections(struct loader *l, const char *path)
{
	struct config_private *p = l->private;
	if (p->section_count == 0 && l->problem_count == 0)
		loader_problem(l, (struct config_place){ path, 0 }, NULL, NULL,
			       "there is no section in it: `effectd config default` prints a complete sample");
	for (const struct section *s = p->sections; s; s = s->next)
		if (s->kind == &config_kinds[KIND_PROCESS])
			return;
	const struct config_place main_file = { p->file_count > 0 ? p->files[0] : path, 0 };
	struct section *s = section_begin(l, main_file, "effectd", strlen("effectd"));
	(void)s;
}

static void read_files(struct loader *l, const char *path)
{
	l->private->files = loader_alloc(l, FILES_MAX * sizeof(*l->private->files));
	l->identities = loader_alloc(l, FILES_MAX * sizeof(*l->identities));
	if (!l->out_of_memory)
		files_load(l, path);
}

static void read_all(struct loader *l, const char *path)
{
	read_files(l, path);
	if (!l->out_of_memory)
		complete_sections(l, path);
	if (!l->out_of_memory)
		assign_values(l);
}

static void ignore(void *arg, const struct config_problem *problem)
{
	(void)arg;
	(void)problem;
}

char *config_read_runtime_dir(const char *path)
{
	CLEANUP(destroy_config) struct config *c = create_config();
	if (!c)
		return NULL;
	struct loader l = { .config = c, .private = c->private };
	read_all(&l, path);
	loader_report(&l, ignore, NULL);
	return l.out_of_memory ? NULL : strdup(c->process.runtime_dir);
}

void config_read_names(const char *path, const char *kind, config_name *each, void *arg)
{
	CLEANUP(destroy_config) struct config *c = create_config();
	if (!c)
		return;
	struct loader l = { .config = c, .private = c->private };
	read_files(&l, path);
	for (const struct section *s = c->private->sections; s; s = s->next)
		if (s->name && strcmp(s->kind->name, kind) == 0)
			each(arg, s->name);
}

enum status config_load(struct config **ret, const char *path, config_report *report, void *arg)
{
	CLEANUP(destroy_config) struct config *c = create_config();
	if (!c)
		return ST_INTERNAL;
	struct loader l = { .config = c, .private = c->private };
	read_all(&l, path);
	if (!l.out_of_memory)
		check_all(&l);
	loader_report(&l, report, arg);
	if (l.out_of_memory) {
		report(arg, &(struct config_problem){ .text = "out of memory" });
		return ST_INTERNAL;
	}
	if (l.problem_count > 0)
		return ST_INVALID;
	*ret = c;
	c = NULL;
	return ST_OK;
}

const struct config_consumer *config_find_consumer(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->consumer_count; i++)
		if (strcmp(c->consumers[i].name, name) == 0)
			return &c->consumers[i];
	return NULL;
}

/* Configuration tests: a folder of their own with files in it, and the problems that reading them gave. */
#ifndef CONFIG_FIXTURE_H
#define CONFIG_FIXTURE_H

#include "base/buffer.h"
#include "config/config.h"
#include "config/show.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* What every complete configuration needs; a consumer is added behind it. */
#define BASE                                                 \
	"[broker:main]\nurl = amqp://effectd@127.0.0.1/\n"   \
	"[database:main]\nconninfo = host=/run/postgresql\n" \
	"[consumer:loyalty]\nplugin = loyalty.so\nqueue = q\n"

static char folder[64];        /* ends without a slash */
static struct buffer problems; /* `file:line: [section] key: text` a line, files without the folder */
static struct config *loaded;  /* NULL: refused */
static size_t problem_count;

static inline int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/effectd-config-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
	(void)state;
	char command[128];
	config_destroy(loaded);
	loaded = NULL;
	buffer_finish(&problems);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static inline const char *path_of(const char *name)
{
	static char path[8][512];
	static unsigned next;
	char *p = path[next++ % 8];
	snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
	return p;
}

static inline void write_bytes(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(path_of(name), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static inline void write_file(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static inline void collect(void *arg, const struct config_problem *p)
{
	(void)arg;
	const size_t len = strlen(folder);
	const char *file = p->place.file ? p->place.file : "";
	if (strncmp(file, folder, len) == 0 && file[len] == '/')
		file += len + 1;
	buffer_printf(&problems, "%s:%d: [%s] %s: %s\n", file, p->place.line, p->section ? p->section : "",
		      p->key ? p->key : "", p->text);
	problem_count++;
}

/* Reads NAME of the folder; what was read before is gone. */
static inline enum status load(const char *name)
{
	config_destroy(loaded);
	loaded = NULL;
	buffer_clear(&problems);
	problem_count = 0;
	const enum status st = config_load(&loaded, path_of(name), collect, NULL);
	assert_true((st == ST_OK) == (loaded != NULL));
	assert_true((st == ST_OK) == (problem_count == 0));
	return st;
}

/* Writes text as effectd.ini and reads it. */
static inline enum status load_text(const char *text)
{
	write_file("effectd.ini", text);
	return load("effectd.ini");
}

static inline void expect_good(enum status st)
{
	if (st != ST_OK)
		print_error("%s", buffer_text(&problems));
	assert_int_equal(st, ST_OK);
}

/* A problem line that begins so, and has that text in it. */
static inline void expect_problem(const char *begin, const char *text)
{
	const char *at = buffer_text(&problems);
	const size_t len = strlen(begin);
	for (const char *end; *at; at = end + 1) {
		end = strchr(at, '\n');
		const char *found = strstr(at, text);
		if (strncmp(at, begin, len) == 0 && found && found < end)
			return;
	}
	fail_msg("no problem like %s...%s in\n%s", begin, text, buffer_text(&problems));
}

/* What config_show() says, without the comments that say where it comes from. */
static inline void settings_of(const char *shown, struct buffer *out)
{
	for (const char *end; *shown; shown = end + 1) {
		end = strchr(shown, '\n');
		if (*shown != '#')
			buffer_add(out, shown, (size_t)(end + 1 - shown));
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)

#endif

/* The configuration while it is read, and what `config show` knows of it later. Nothing outside core/config includes
 * this.
 *
 * Everything lives in one arena. A function that finds a problem reports it and goes on, so that one run finds them
 * all; out of memory is remembered in the loader and ends the run. */
#ifndef CONFIG_PRIVATE_H
#define CONFIG_PRIVATE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "config/keys.h"

enum {
	FILE_BYTES_MAX = 16 << 20,   /* of an INI file */
	CONTENT_BYTES_MAX = 4 << 20, /* of KEY_file */
	SECRET_BYTES_MAX = 64 << 10, /* of password_file */
	FILES_MAX = 1000,
	DEPTH_MAX = 8, /* of includes */
	SECTIONS_MAX = 1000,
	SETTINGS_MAX = 10000, /* of one section */
	PROBLEMS_MAX = 1000,  /* said; more are only counted */
};

/* A value that was written. What is not written has no setting: its default is in the key. */
struct setting {
	const struct config_key *key;
	const char *name;    /* as the key would be written without _file: workers, plugin.cents_per_point */
	const char *member;  /* behind the dot of a family; else NULL */
	const char *value;   /* effective: variables replaced, files read; NULL: wrong, and reported */
	const char *written; /* of KEY_file: the file that value was read from; else NULL */
	struct config_place place;
	struct setting *next;
};

struct section {
	const struct config_kind *kind;
	const char *title; /* consumer:loyalty */
	const char *name;  /* loyalty; NULL: the kind has no names */
	struct config_place place;
	struct setting *settings, **tail; /* in the order in which they were first written */
	size_t setting_count;
	void *values; /* its struct in struct config */
	struct section *next;
};

struct config_private {
	struct arena arena;
	struct section *sections, **tail;
	size_t section_count;
	const char **files; /* in the order of reading */
	size_t file_count;
};

/* A problem waiting to be reported, in the order of files and lines. */
struct found {
	struct config_problem problem;
	size_t file, sequence;
	struct found *next;
};

struct loader {
	struct config *config;
	struct config_private *private;
	struct found *found;
	size_t problem_count;
	bool out_of_memory;
	struct {
		uint64_t device, inode;
	} * identities; /* parallel to private->files */
};

/* --- report.c --- */

/* section and key may be NULL. */
void loader_problem(struct loader *l, struct config_place place, const char *section, const char *key, const char *fmt,
		    ...) PRINTF(5, 6);
void loader_report(struct loader *l, config_report *report, void *arg); /* in order */

/* What a person wrote, made fit for a message: at most 60 bytes, cut with "..." */
struct quoted {
	char text[80];
};
struct quoted loader_quote(const char *data, size_t len);

/* --- load.c --- */

/* From the arena; NULL: out of memory, remembered. The second copies text and adds a NUL. */
void *loader_alloc(struct loader *l, size_t bytes) MUST_USE;
char *loader_copy(struct loader *l, const char *data, size_t len) MUST_USE;

struct setting *section_find(const struct section *s, const char *name); /* NULL: not written */

/* Of the setting if it was written, else of the section. */
struct config_place section_place(const struct section *s, const char *name);

/* --- section.c --- */

/* What a line says, once it is known to be well-formed. A section that does not exist gives NULL, and its settings are
 * passed over. */
struct section *section_begin(struct loader *l, struct config_place place, const char *title, size_t len) MUST_USE;
void section_set(struct loader *l, struct section *s, struct config_place place, const char *name, const char *value);

/* --- reader.c --- */

struct include {
	const char *pattern;
	struct config_place place;
};

/* Reads one file's text, which it may change and which must end with a NUL behind size; *ret_include: what it names. */
void reader_read(struct loader *l, const char *file, char *text, size_t size, struct include *ret_include);

/* --- files.c --- */

enum file_rule { FILE_ANY, FILE_SECRET /* 0600 or stricter */ };

struct file_content {
	char *data; /* size bytes and a NUL; free() it */
	size_t size;
	uint64_t device, inode;
};

/* A whole regular file of at most max bytes. ST_INVALID: err says what is wrong, without the path. */
enum status file_read(const char *path, size_t max, enum file_rule rule, struct file_content *ret,
		      struct error *err) MUST_USE;

/* path, or path relative to the folder of file. NULL: out of memory. */
const char *file_resolve(struct loader *l, const char *file, const char *path) MUST_USE;

/* Reads path and what it includes. */
void files_load(struct loader *l, const char *path);

/* --- expand.c --- */

/* Replaces ${VAR} and ${VAR:-default}; $${ is a literal ${. False: text says what is wrong. NULL in *ret: out of
 * memory. */
bool expand_value(struct loader *l, const char *value, const char **ret, char *text, size_t size) MUST_USE;

/* --- assign.c --- */

/* Makes the lists of the config and fills the structs with what was written and with defaults. */
void assign_values(struct loader *l);

/* --- check.c --- */

/* What no single value shows: names that exist nowhere, pairs that do not fit. */
void check_all(struct loader *l);

/* --- mask.c --- */

/* Adds value with every secret in it replaced; true: something was. */
bool mask_value(const struct config_key *key, const char *name, const char *value, struct buffer *out);

#endif

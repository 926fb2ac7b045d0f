/* Files of the source that are compiled in, made into tables by embed.py. */
#ifndef CLI_EMBEDDED_H
#define CLI_EMBEDDED_H

#include <stdbool.h>
#include <stddef.h>

struct embedded_file {
	const char *part; /* the folder below the table's own */
	const char *path; /* in it */
	bool executable;
	const char *text;
};

/* Both end with a part of NULL. */
extern const struct embedded_file
	skeleton_files[]; /* core/cli/skeleton: what `effectd plugin new` writes, with a name for "example" */
extern const struct embedded_file completion_files[]; /* tools/completion: a script a shell, the part is its name */

#endif

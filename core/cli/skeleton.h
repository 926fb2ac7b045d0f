/* The files of `effectd plugin new`, embedded from core/cli/skeleton. */
#ifndef CLI_SKELETON_H
#define CLI_SKELETON_H

#include <stdbool.h>
#include <stddef.h>

struct skeleton_file {
	const char *part; /* all, built, c ...: which projects have it */
	const char *path; /* in the project; the word example stands for its name */
	bool executable;
	const char *text;
};

extern const struct skeleton_file skeleton_files[]; /* ends with a part of NULL */

#endif

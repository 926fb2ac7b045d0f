/* The parts of `effectd plugin` that have files of their own. */
#ifndef CLI_CMD_PLUGIN_H
#define CLI_CMD_PLUGIN_H

#include "cli/cli.h"

extern const char *const plugin_languages[]; /* ends with NULL */

int plugin_new(struct cli *cli, int argc, char **argv);

#endif

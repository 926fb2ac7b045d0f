/* Questions to the running daemon. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/cli.h"
#include <jansson.h>

/* Asks the one whose runtime_dir the configuration names, right or wrong as that is by now. EXIT_FINE: *ret is its
 * answer, json_decref() it. */
int ask_daemon(const struct cli *cli, const char *line, json_t **ret) MUST_USE;

/* Frees it. */
int ask_print_json(const struct cli *cli, json_t *answer);

/* Members of an answer; "" or 0 where there is none. */
const char *ask_text(const json_t *object, const char *name);
json_int_t ask_number(const json_t *object, const char *name);

#endif

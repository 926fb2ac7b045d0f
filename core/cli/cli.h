/* What every command shares: how it is called, what it prints where, how it exits.
 *
 * Data goes to stdout, messages to stderr. A command is one file cmd_NAME.c with one function and a line in the table
 * of verbs.c; it gets its positional arguments and asks for options by name. Nothing here exits the process. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/buffer.h"
#include "config/config.h"
#include <stdio.h>

enum exit_code {
	EXIT_FINE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_UNAVAILABLE = 69, /* broker or database */
	EXIT_INTERNAL = 70,
	EXIT_TRY_AGAIN = 75,
	EXIT_PERMISSION = 77,
	EXIT_CONFIGURATION = 78,
};

/* The tables of verbs.c say all that is known of commands and options: parsing, help, completion and the manual read
 * them.
 *
 * An argument's name also says what a shell may put there: FILE and FOLDER stand for paths, CONSUMER for a consumer of
 * the configuration, and an option's NAME for a section of the option's own name, --relay NAME for [relay:NAME]. */
struct cli_option {
	const char *name;
	const char *argument; /* what help calls its argument; NULL: it takes none */
	const char *help;
	const char *actions;      /* those that it goes with, as help shows them: "retry, drop"; NULL: all */
	const char *const *words; /* what its argument may be, ends with NULL; NULL: anything */
	char letter;              /* the short form; 0: none */
};

struct cli;

/* The word that some commands begin with: `parked list`. */
struct cli_action {
	const char *name;
	const char *arguments;                              /* as help shows them; "" for none */
	const char *help;                                   /* one line */
	int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the first argument behind the action */
};

struct verb {
	const char *name;
	const char *arguments;            /* positional ones, for help; "" for none, NULL with actions */
	const char *help;                 /* one line */
	const char *examples;             /* lines with what each does, the first thing that --help shows */
	const char *notes;                /* a few sentences on one line; NULL: none */
	const struct cli_option *options; /* ends with a name of NULL; NULL: none */
	const struct cli_action *actions; /* ends with a name of NULL; NULL: none, then there is run() */
	bool first_action_is_default;
	int (*run)(struct cli *cli, int argc, char **argv); /* argv[0] is the first positional argument */
};

extern const struct verb verbs[];                    /* ends with a name of NULL */
extern const struct cli_option cli_common_options[]; /* of every command; ends with a name of NULL */
enum { COMMON_CONFIG, COMMON_JSON, COMMON_HELP, COMMON_VERSION, COMMON_COUNT };

extern const char cli_default_config_file[];

const struct verb *cli_find_verb(const char *name);                                     /* NULL: none */
const struct cli_action *cli_find_action(const struct verb *verb, const char *name);    /* the same */
bool cli_option_goes_with(const struct cli_option *o, const struct cli_action *action); /* NULL: not known yet */

struct cli_given {
	const struct cli_option *option;
	const char *value; /* a flag's is "" */
};

struct cli {
	const struct verb *verb;
	const struct cli_action *action; /* NULL: the command has none */
	const char *config_file;
	bool json;
	struct cli_given *given; /* the command's own options in the order they were given */
	size_t given_count;
};

/* The program: finds the command, parses its options, runs it; returns the exit code. */
int cli_main(int argc, char **argv);

/* The index-th value of an option of the command (a flag's value is ""); NULL behind the last. */
const char *cli_option_value(const struct cli *cli, const char *name, size_t index);
bool cli_option_given(const struct cli *cli, const char *name);

/* A message on stderr, `effectd COMMAND: ...`; the last two return the exit code to end with. */
void cli_message(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);
int cli_usage_error(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);
int cli_failure(const struct cli *cli, const struct error *err);

/* The exit code that an error stands for. */
int cli_exit_code(const struct error *err);

/* Reads the configuration; problems go to stderr with their number, and the answer is EXIT_CONFIGURATION. */
int cli_load_config(const struct cli *cli, struct config **ret) MUST_USE;

/* The section of --consumer NAME; without it that of the only consumer. Else it is said what there is. */
int cli_find_consumer(const struct cli *cli, const struct config *config, const struct config_consumer **ret) MUST_USE;

/* The consumer of --consumer NAME with its plugin loaded; what is wrong with it goes to stderr. */
struct consumer;
int cli_load_consumer(const struct cli *cli, const struct config *config, struct consumer **ret) MUST_USE;
void cli_consumer_destroy(struct consumer **c); /* for CLEANUP */

/* Writes data to stdout and frees it; EXIT_FAILED with a message when it cannot be written. */
int cli_print(const struct cli *cli, struct buffer *data);

/* Adds text of others, whatever its bytes: UTF-8 without control bytes, which a terminal might obey. */
void cli_add_clean(struct buffer *out, const char *text, size_t len);

/* Help on all commands, or on one. */
void help_print(FILE *out);
void help_print_verb(const struct verb *verb, FILE *out);

/* The commands, one file each: those with actions have a table of them, which ends with a name of NULL. */
int cmd_check(struct cli *cli, int argc, char **argv);
int cmd_explain(struct cli *cli, int argc, char **argv);
int cmd_feed(struct cli *cli, int argc, char **argv);
int cmd_retention(struct cli *cli, int argc, char **argv);
int cmd_reload(struct cli *cli, int argc, char **argv);
int cmd_run(struct cli *cli, int argc, char **argv);
int cmd_try(struct cli *cli, int argc, char **argv);
int cmd_status(struct cli *cli, int argc, char **argv);
int cmd_version(struct cli *cli, int argc, char **argv);
extern const struct cli_action completion_actions[];
extern const struct cli_action config_actions[];
extern const struct cli_action migrate_actions[];
extern const struct cli_action outbox_actions[];
extern const struct cli_action parked_actions[];
extern const struct cli_action plugin_actions[];

#endif

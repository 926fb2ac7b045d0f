/* What `check` found so far: problems and facts, said at once or collected for JSON. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/cli.h"
#include "pg/session.h"
#include "run/consumer.h"
#include <jansson.h>

struct check {
	const struct cli *cli;
	const struct config *config;
	struct consumer
		*consumers; /* config->consumer_count of them; plugin NULL: it cannot be loaded, which was said */
	size_t problems;
	int exit_code;                                   /* the gravest so far */
	json_t *problem_list, *warning_list, *fact_list; /* with --json, else NULL */
};

/* What findings are about. */
struct check_subject {
	char section[80]; /* consumer:loyalty */
	char title[80];   /* consumer loyalty, for facts */
	struct config_place place;
};

struct check_subject check_subject_of(const char *kind, const char *name, struct config_place place);

/* A config_report; arg is the struct check. */
void check_report(void *arg, const struct config_problem *problem);

/* A problem with its exit code; key may be NULL. */
void check_problem(struct check *c, int exit_code, struct config_place place, const char *section, const char *key,
		   const char *fmt, ...) PRINTF(6, 7);

/* What may be meant so, and yet should be looked at: it does not change the exit code. */
void check_warning(struct check *c, struct config_place place, const char *section, const char *key, const char *fmt,
		   ...) PRINTF(5, 6);

/* What holds: `subject: text` on stdout. */
void check_fact(struct check *c, const char *subject, const char *fmt, ...) PRINTF(3, 4);

/* What a server or a session answered; key NULL: the section's place is the place. */
void check_error(struct check *c, const struct check_subject *s, struct config_place place, const char *key,
		 int exit_code, const struct error *err);

/* For what RabbitMQ or a target answered. */
int check_peer_exit_code(const struct error *err);

/* Asks every server that a consumer or a relay uses. */
void check_live(struct check *c);

/* check_relays.c */
void check_targets(struct check *c);      /* without asking anybody */
void check_live_targets(struct check *c); /* is there who is called? */
/* The rows of one database: who takes them? */
enum status check_outbox(struct check *c, const struct config_database *config, struct pg_session *session,
			 struct error *err) MUST_USE;

#endif

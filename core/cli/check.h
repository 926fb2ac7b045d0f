/* What `check` found so far: problems and facts, said at once or collected for JSON. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli/cli.h"
#include "pg/session.h"
#include "run/consumer.h"
#include "run/interlock.h"
#include <jansson.h>

struct check {
	const struct cli *cli;
	const struct config *config;
	struct consumer
		*consumers; /* config->consumer_count of them; plugin NULL: it cannot be loaded, which was said */
	struct interlock_queue *queues; /* the same number: what --live found out */
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

/* 250ms, 30s, 12h, 30d: exactly. */
struct check_span {
	char text[32];
};
struct check_span check_span(int64_t ms);

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
void check_broker(struct check *c, const struct config_broker *config);

/* What the broker does to the messages of a queue, and what that means for effects that happen once. */
struct management;
struct queue_facts;
void check_queue_facts(struct check *c, const struct config_consumer *config, const struct queue_facts *q);
/* And where its dead letters end; anything but ST_OK: the management interface did not say. */
enum status check_dead_letters(struct check *c, const struct config_consumer *config, struct management *m,
			       const char *vhost, const struct queue_facts *q, struct error *err) MUST_USE;

/* check_relays.c */
void check_targets(struct check *c);      /* without asking anybody */
void check_live_targets(struct check *c); /* is there who is called? */
/* The rows of one database: who takes them? */
enum status check_outbox(struct check *c, const struct config_database *config, struct pg_session *session,
			 struct error *err) MUST_USE;

#endif

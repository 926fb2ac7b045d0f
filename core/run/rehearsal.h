/* A dry run: messages go through key, claim and apply exactly as a delivery would, in transactions that are rolled
 * back. What was seen is told as JSON, after the rollback: nothing is read or written while rows are locked. */
#ifndef RUN_REHEARSAL_H
#define RUN_REHEARSAL_H

#include "plugin/message.h"
#include "run/consumer.h"
#include <jansson.h>

struct rehearsal_params {
	const struct config_process *process;
	const struct consumer *consumer; /* loaded */
	bool ignore_claim;               /* apply although its key may be claimed */
	bool twice;                      /* each message again behind itself: the second time nothing may be applied */
};

struct rehearsal;

/* Connects and prepares every statement. */
enum status rehearsal_open(struct rehearsal **ret, const struct rehearsal_params *params, struct error *err) MUST_USE;
void rehearsal_close(struct rehearsal *t); /* NULL is fine */

/* One message, whose bytes live until this returns. *ret is the caller's to json_decref():
 *	outcome     as of a delivery; or "again": the environment failed, "stops": the consumer would stop
 *	key, event_time, lock_order, claim ("new", "taken", "ignored", "none")
 *	verdict, text        what apply() answered
 *	statements  [{name, parameters, rows or error}], outbox [{kind, payload, ...}]
 *	parked      {status, reason, sqlstate, detail}, error {sqlstate, text}
 *	second      with twice: the same of the second time
 *	took_ms     of all of it
 * ST_UNAVAILABLE and others: the session is lost, nothing more can be tried. */
enum status rehearsal_run(struct rehearsal *t, const struct message *m, json_t **ret, struct error *err) MUST_USE;

#endif

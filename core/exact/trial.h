/* A trial: would what the heart gave up on be applied now? It has a copy of one message, and nothing that this one
 * brings is committed. So nobody need ask the broker for it again just to find out: each return of a delivery counts
 * against a quorum queue's delivery limit, and in the end the message would be dropped. */
#ifndef EXACT_TRIAL_H
#define EXACT_TRIAL_H

#include "exact/exact.h"

struct trial;

/* Copies the message in hand whose statement failed last, or another one. NULL: there is none to try. */
enum status trial_create(struct trial **ret, const struct exact *x, struct error *err) MUST_USE;
void trial_destroy(struct trial *t); /* NULL is fine */

/* On a fresh session, as exact_attach(); it is used up then. */
enum status trial_attach(struct trial *t, struct pg_session *s, struct error *err) MUST_USE;

/* As exact_turn(): after IDLE and WORKED the message can be settled, all else says what is still wrong. */
enum exact_result trial_turn(struct trial *t, struct error *err) MUST_USE;

bool trial_misses_day(const struct trial *t); /* as exact_misses_day() */

#endif

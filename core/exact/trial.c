#include "exact/trial.h"
#include "exact/heart.h"
#include <stdlib.h>
#include <string.h>

struct trial {
	struct source base; /* must be first: the heart's source of this one message */
	struct exact *heart;
	struct consumer_counters counters; /* nobody's: nothing that happens here is an outcome */
	struct delivery delivery;
	bool out; /* the heart holds it */
	char data[];
};

static struct delivery *trial_next(struct source *src)
{
	struct trial *t = (struct trial *)src;
	if (t->out)
		return NULL;
	t->out = true;
	return &t->delivery;
}

static enum status trial_enlist(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				int *ret_sent, struct error *err)
{
	(void)src, (void)s, (void)d, (void)arena, (void)err;
	*ret_sent = 0;
	return ST_OK;
}

static enum status trial_park(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
			      struct arena *arena, int *ret_sent, struct error *err)
{
	const struct trial *t = (const struct trial *)src;
	*ret_sent = 1;
	return park_send(s, t->heart->params.consumer, &d->message, why, arena, err);
}

static void trial_give_back(struct source *src, struct delivery *d)
{
	(void)d;
	((struct trial *)src)->out = false;
}

static void trial_settle(struct source *src, struct delivery *d, enum outcome outcome)
{
	(void)outcome;
	trial_give_back(src, d);
}

static void trial_flush(struct source *src)
{
	(void)src;
}

/* It is never careful: enter and leave are for those who are. */
static const struct source_ops trial_ops = {
	.next = trial_next,
	.enlist = trial_enlist,
	.park = trial_park,
	.settle = trial_settle,
	.give_back = trial_give_back,
	.flush = trial_flush,
};

/* What is too large to be applied is too large to be kept as well. */
static const struct delivery *choose(const struct exact *x)
{
	const struct delivery *first = NULL;
	for (size_t i = 0; i < x->hand_count; i++) {
		if (x->hand[i] == x->failed)
			return x->failed;
		if (!first && !x->hand[i]->oversized)
			first = x->hand[i];
	}
	return first;
}

static char *keep(char *to, struct str *ret, struct str from)
{
	*ret = (struct str){ from.data ? to : NULL, from.len };
	if (from.len)
		memcpy(to, from.data, from.len);
	return to + from.len;
}

enum status trial_create(struct trial **ret, const struct exact *x, struct error *err)
{
	*ret = NULL;
	const struct delivery *d = choose(x);
	if (!d)
		return ST_OK;
	const struct message *m = &d->message;
	struct trial *t =
		calloc(1, sizeof(*t) + m->body.len + m->routing_key.len + m->exchange.len + m->properties.len);
	if (!t)
		return error_oom(err);
	t->base.ops = &trial_ops;
	struct message *copy = &t->delivery.message;
	*copy = (struct message){ .codec = m->codec, .redelivered = m->redelivered, .attempt = m->attempt };
	char *to = keep(t->data, &copy->body, m->body);
	to = keep(to, &copy->routing_key, m->routing_key);
	to = keep(to, &copy->exchange, m->exchange);
	keep(to, &copy->properties, m->properties);

	struct exact_params params = x->params;
	params.batch_max = 1;
	params.in_order = params.stop_on_dead = false; /* it is behind nothing, and nothing is behind it */
	params.counters = &t->counters;
	params.observer = NULL;
	const enum status st = exact_create(&t->heart, &params, x->instance, &t->base, err);
	if (st != ST_OK) {
		free(t);
		return st;
	}
	t->heart->trial = true;
	t->heart->oldest_event_ms = x->oldest_event_ms;
	/* A row of messages that are parked is no shorter for having gone back. */
	t->heart->streak = x->streak;
	t->heart->streak_reason = x->streak_reason;
	memcpy(t->heart->streak_sqlstate, x->streak_sqlstate, sizeof(t->heart->streak_sqlstate));
	*ret = t;
	return ST_OK;
}

void trial_destroy(struct trial *t)
{
	if (!t)
		return;
	exact_destroy(t->heart);
	free(t);
}

enum status trial_attach(struct trial *t, struct pg_session *s, struct error *err)
{
	return exact_attach(t->heart, s, err);
}

enum exact_result trial_turn(struct trial *t, struct error *err)
{
	const enum exact_result result = exact_turn(t->heart, err);
	exact_detach(t->heart);
	return result;
}

bool trial_misses_day(const struct trial *t)
{
	return exact_misses_day(t->heart);
}

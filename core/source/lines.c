#include "source/lines.h"
#include "source/envelope.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line_delivery {
	struct delivery pub; /* must be first: the heart holds this */
	struct line *line;
	json_t *envelope;
	/* why it is rejected, if this transaction commits */
	struct park why;
	char *why_text;             /* owns detail and key */
	struct line_delivery *next; /* in the free list */
};

struct lines_source {
	struct source base; /* must be first */
	struct lines_params params;
	struct line *taken; /* from the input, not handed on yet */
	struct line_delivery *free;
};

size_t lines_longest(bool envelope, size_t max_body)
{
	enum { AROUND_BODY = 64 << 10, ESCAPED = 6 /* \u0000 is one byte */ };
	return envelope ? ESCAPED * max_body + AROUND_BODY : max_body;
}

static struct str line_text(const struct line *line)
{
	return line->too_long ? (struct str){ 0 } : (struct str){ line->text, line->len };
}

/* Before the heart sees it. */
static void reject(struct lines_source *s, const struct line *line, enum park_reason reason, const char *detail)
{
	const struct rejected_line rejected = {
		.number = line->number,
		.text = line_text(line),
		.reason = reason,
		.sqlstate = "",
		.detail = detail,
	};
	counter_add(&s->params.counters->outcomes[OUTCOME_PARKED], 1);
	s->params.rejected(s->params.arg, &rejected);
}

static struct line_delivery *delivery_get(struct lines_source *s)
{
	struct line_delivery *d = s->free;
	if (d)
		s->free = d->next;
	return d ? d : malloc(sizeof(*d));
}

static void release(struct lines_source *s, struct line_delivery *d)
{
	json_decref(d->envelope);
	free(d->line);
	free(d->why_text);
	d->next = s->free;
	s->free = d;
}

/* False: the line is rejected. */
static bool read_line(struct lines_source *s, struct line_delivery *d)
{
	char text[512];
	struct message *m = &d->pub.message;
	m->body = (struct str){ d->line->text, d->line->len };
	if (d->line->too_long) {
		snprintf(text, sizeof(text), "the line is longer than max_body = %zu allows", s->params.max_body);
		reject(s, d->line, PARK_TOO_BIG, text);
		return false;
	}
	if (s->params.envelope && !envelope_read(m->body, m, &d->envelope, text, sizeof(text))) {
		reject(s, d->line, PARK_BAD_BODY, text);
		return false;
	}
	d->pub.oversized = m->body.len > s->params.max_body;
	return true;
}

static struct delivery *lines_next(struct source *src)
{
	struct lines_source *s = (struct lines_source *)src;
	for (;;) {
		if (!s->taken)
			s->taken = input_take(s->params.input, s->params.batch_max);
		struct line *line = s->taken;
		struct line_delivery *d = line ? delivery_get(s) : NULL;
		if (!d)
			return NULL; /* without memory the line stays and is asked for again */
		s->taken = line->next;
		*d = (struct line_delivery){ .pub = { .message = { .attempt = 1 } }, .line = line };
		counter_add(&s->params.counters->deliveries[0], 1);
		if (read_line(s, d))
			return &d->pub;
		release(s, d);
	}
}

static enum status lines_enlist(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				int *ret_sent, struct error *err)
{
	(void)src, (void)s, (void)d, (void)arena, (void)err;
	*ret_sent = 0;
	return ST_OK;
}

/* Nothing is sent: what was decided is kept until the transaction committed. */
static enum status lines_park(struct source *src, struct pg_session *s, struct delivery *delivery,
			      const struct park *why, struct arena *arena, int *ret_sent, struct error *err)
{
	(void)src, (void)s, (void)arena;
	struct line_delivery *d = (struct line_delivery *)delivery;
	const size_t detail_len = why->detail ? strlen(why->detail) : 0;
	char *text = malloc(detail_len + why->key.len + 2);
	if (!text)
		return error_oom(err);
	free(d->why_text);
	d->why_text = text;
	d->why = *why;
	d->why.detail = text;
	if (detail_len > 0)
		memcpy(text, why->detail, detail_len);
	text[detail_len] = '\0';
	if (why->key.data)
		d->why.key.data = memcpy(text + detail_len + 1, why->key.data, why->key.len);
	*ret_sent = 0;
	return ST_OK;
}

static void lines_settle(struct source *src, struct delivery *delivery, enum outcome outcome)
{
	struct lines_source *s = (struct lines_source *)src;
	struct line_delivery *d = (struct line_delivery *)delivery;
	if (outcome == OUTCOME_PARKED || outcome == OUTCOME_RETRIED) {
		const struct rejected_line rejected = {
			.number = d->line->number,
			.text = line_text(d->line),
			.key = d->why.key,
			.reason = d->why.reason,
			.retry = d->why.retry,
			.sqlstate = d->why.sqlstate,
			.detail = d->why.detail,
		};
		s->params.rejected(s->params.arg, &rejected);
	}
	release(s, d);
}

static void lines_give_back(struct source *src, struct delivery *d)
{
	release((struct lines_source *)src, (struct line_delivery *)d);
}

static void lines_flush(struct source *src)
{
	(void)src;
}

/* Never in careful mode: a line that kills the process is found by whoever fed it. */
static const struct source_ops lines_ops = {
	.next = lines_next,
	.enlist = lines_enlist,
	.park = lines_park,
	.settle = lines_settle,
	.give_back = lines_give_back,
	.flush = lines_flush,
};

enum status lines_source_create(struct lines_source **ret, const struct lines_params *params, struct error *err)
{
	struct lines_source *s = calloc(1, sizeof(*s));
	if (!s)
		return error_oom(err);
	s->base.ops = &lines_ops;
	s->params = *params;
	*ret = s;
	return ST_OK;
}

struct source *lines_source_base(struct lines_source *s)
{
	return &s->base;
}

void lines_source_destroy(struct lines_source *s)
{
	if (!s)
		return;
	for (struct line *line = s->taken, *next; line; line = next) {
		next = line->next;
		free(line);
	}
	for (struct line_delivery *d = s->free, *next; d; d = next) {
		next = d->next;
		free(d);
	}
	free(s);
}

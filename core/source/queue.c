/* The queue as a source: takes deliveries from the session as they came, hands them to the heart without copying a
 * byte, and acknowledges what the heart settled. It never rejects, never requeues, and forgets acks of a channel that
 * is gone: the redelivery finds its claim. */
#include "source/queue.h"
#include "amqp/properties.h"
#include "source/journal.h"
#include "source/tags.h"
#include <stdlib.h>
#include <string.h>

struct queue_delivery {
	struct delivery pub; /* must be first: the heart holds this */
	struct amqp_delivery *from;
	struct journal_entry entry;  /* of a journalled one */
	struct queue_delivery *next; /* in the free list */
};

struct queue_source {
	struct source base; /* must be first */
	const char *consumer;
	struct consumer_counters *counters;
	struct amqp_session *session; /* NULL: none */
	struct tags tags;             /* of this epoch */
	uint32_t epoch;
	struct queue_delivery *free; /* as many as were ever out at once, which prefetch bounds */
	size_t out;
	struct journal_entry owed; /* counted as inside, given back since: the count is to be taken back */
};

static struct queue_delivery *wrapper_get(struct queue_source *q)
{
	struct queue_delivery *w = q->free;
	if (w)
		q->free = w->next;
	else
		w = malloc(sizeof(*w));
	return w;
}

static void wrapper_put(struct queue_source *q, struct queue_delivery *w)
{
	w->next = q->free;
	q->free = w;
}

static struct delivery *queue_next(struct source *src)
{
	struct queue_source *q = (struct queue_source *)src;
	struct amqp_delivery *from = q->session ? amqp_session_peek(q->session) : NULL;
	if (!from)
		return NULL;
	if (from->epoch != q->epoch) {
		tags_reset(&q->tags);
		q->epoch = from->epoch;
	}
	/* What cannot be tracked for want of memory stays in the session and is asked for again. */
	struct queue_delivery *w = wrapper_get(q);
	if (!w)
		return NULL;
	if (!tags_add(&q->tags, from->tag)) {
		wrapper_put(q, w);
		return NULL;
	}
	*w = (struct queue_delivery){
		.pub = { .message = { .body = from->body,
				      .routing_key = from->routing_key,
				      .exchange = from->exchange,
				      .properties = from->properties,
				      .codec = &amqp_properties,
				      .redelivered = from->redelivered,
				      .attempt = 1 },
			 .oversized = from->oversized },
		.from = amqp_session_take(q->session),
	};
	q->out++;
	counter_add(&q->counters->deliveries[from->redelivered], 1);
	return &w->pub;
}

/* What went back while its count could not be taken back did not die here: it must not add up. */
static enum status queue_enter(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
			       bool suspects, enum entry *ret, struct error *err)
{
	struct queue_source *q = (struct queue_source *)src;
	enum status st = q->owed.counted ? journal_leave(s, q->consumer, &q->owed, err) : ST_OK;
	if (st == ST_OK)
		st = journal_enter(s, q->consumer, &d->message, arena, suspects, &((struct queue_delivery *)d)->entry,
				   ret, err);
	if (st == ST_OK)
		d->journalled = true;
	return st;
}

static enum status queue_leave(struct source *src, struct pg_session *s, struct delivery *d, struct error *err)
{
	const struct queue_source *q = (const struct queue_source *)src;
	return journal_leave(s, q->consumer, &((struct queue_delivery *)d)->entry, err);
}

static enum status queue_enlist(struct source *src, struct pg_session *s, struct delivery *d, struct arena *arena,
				int *ret_sent, struct error *err)
{
	(void)arena;
	const struct queue_source *q = (const struct queue_source *)src;
	*ret_sent = d->journalled;
	if (!d->journalled)
		return ST_OK;
	return journal_forget_send(s, q->consumer, &((struct queue_delivery *)d)->entry, err);
}

static enum status queue_park(struct source *src, struct pg_session *s, struct delivery *d, const struct park *why,
			      struct arena *arena, int *ret_sent, struct error *err)
{
	const struct queue_source *q = (const struct queue_source *)src;
	int left = 0;
	enum status st = park_send(s, q->consumer, &d->message, why, arena, err);
	if (st == ST_OK)
		st = queue_enlist(src, s, d, arena, &left, err);
	if (st == ST_OK)
		*ret_sent = 1 + left;
	return st;
}

static void release(struct queue_source *q, struct delivery *d)
{
	struct queue_delivery *w = (struct queue_delivery *)d;
	amqp_session_return(q->session, w->from);
	wrapper_put(q, w);
	q->out--;
}

static void queue_settle(struct source *src, struct delivery *d, enum outcome outcome)
{
	struct queue_source *q = (struct queue_source *)src;
	const struct amqp_delivery *from = ((struct queue_delivery *)d)->from;
	(void)outcome;
	if (from->epoch == q->epoch)
		tags_settle(&q->tags, from->tag);
	release(q, d);
}

/* Its tag stays unsettled for as long as the channel lives. */
static void queue_give_back(struct source *src, struct delivery *d)
{
	struct queue_source *q = (struct queue_source *)src;
	const struct journal_entry *entry = &((struct queue_delivery *)d)->entry;
	if (d->journalled && entry->counted)
		q->owed = *entry;
	release(q, d);
}

static void queue_flush(struct source *src)
{
	struct queue_source *q = (struct queue_source *)src;
	uint64_t tag;
	bool multiple;
	while (tags_next_ack(&q->tags, &tag, &multiple))
		/* A connection that breaks here is the next pump's to report: everything is unacknowledged then. */
		if (amqp_session_ack(q->session, q->epoch, tag, multiple, NULL) != ST_OK)
			return;
}

static const struct source_ops queue_ops = {
	.next = queue_next,
	.enter = queue_enter,
	.leave = queue_leave,
	.enlist = queue_enlist,
	.park = queue_park,
	.settle = queue_settle,
	.give_back = queue_give_back,
	.flush = queue_flush,
};

enum status queue_source_create(struct queue_source **ret, const char *consumer, struct consumer_counters *counters,
				struct error *err)
{
	struct queue_source *q = calloc(1, sizeof(*q));
	if (!q)
		return error_oom(err);
	q->base = (struct source){
		.ops = &queue_ops,
		.statements = journal_statements,
		.statement_count = JOURNAL_STATEMENT_COUNT,
	};
	q->consumer = consumer;
	q->counters = counters;
	tags_init(&q->tags);
	*ret = q;
	return ST_OK;
}

void queue_source_destroy(struct queue_source *q)
{
	if (!q)
		return;
	while (q->free) {
		struct queue_delivery *w = q->free;
		q->free = w->next;
		free(w);
	}
	tags_finish(&q->tags);
	free(q);
}

struct source *queue_source_base(struct queue_source *q)
{
	return &q->base;
}

enum status queue_source_attach(struct queue_source *q, struct amqp_session *s, struct error *err)
{
	if (q->out > 0)
		return error_set(err, ST_INTERNAL, "%zu deliveries of the old session are still held", q->out);
	q->session = s;
	q->epoch = 0;
	tags_reset(&q->tags);
	return ST_OK;
}

size_t queue_source_unsettled(const struct queue_source *q)
{
	return q->out;
}

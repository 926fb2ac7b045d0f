/* What a queue does to its messages, and what that means for effects that happen once.
 *
 * A problem is what loses messages in ordinary operation: restarts, outages, crashes. What lets messages go because
 * somebody said so, by age or by number, is a warning. */
#include "base/text.h"
#include "cli/check.h"
#include "management/management.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* docs/operations.md counts what a crash and its probation cost. */
enum { DELIVERY_LIMIT_LEAST = 20 };

/* One queue under judgement. */
struct judged {
	struct check *check;
	const struct config_consumer *config;
	const struct queue_facts *queue;
	struct check_subject subject;
};

static struct judged judged_of(struct check *c, const struct config_consumer *config, const struct queue_facts *q)
{
	return (struct judged){ c, config, q, check_subject_of("consumer", config->name, config->place) };
}

#define PROBLEM(j, ...)                                                                                        \
	check_problem((j)->check, EXIT_CONFIGURATION, (j)->config->queue_place, (j)->subject.section, "queue", \
		      __VA_ARGS__)
#define WARNING(j, ...) check_warning((j)->check, (j)->config->queue_place, (j)->subject.section, "queue", __VA_ARGS__)

static const struct queue_setting *get(const struct judged *j, enum queue_key key)
{
	return &j->queue->settings[key];
}

static bool is(const struct judged *j, enum queue_key key, const char *text)
{
	const struct queue_setting *s = get(j, key);
	return s->set && s->text && strcmp(s->text, text) == 0;
}

static bool has_dead_letters(const struct judged *j)
{
	return get(j, QUEUE_DEAD_LETTER_EXCHANGE)->set;
}

/* Too many messages: the oldest ones go. Else the new ones are refused, and their publishers learn it. */
static bool drops_head(const struct judged *j)
{
	return (get(j, QUEUE_MAX_LENGTH)->set || get(j, QUEUE_MAX_LENGTH_BYTES)->set) &&
	       !is(j, QUEUE_OVERFLOW, "reject-publish") && !is(j, QUEUE_OVERFLOW, "reject-publish-dlx");
}

static const struct queue_setting *length_of(const struct judged *j)
{
	return get(j, get(j, QUEUE_MAX_LENGTH)->set ? QUEUE_MAX_LENGTH : QUEUE_MAX_LENGTH_BYTES);
}

static const char *unit_of_length(const struct judged *j)
{
	return get(j, QUEUE_MAX_LENGTH)->set ? "messages" : "bytes";
}

/* --- what holds --- */

static void add_ways(const struct judged *j, struct buffer *out)
{
	const struct queue_setting *limit = get(j, QUEUE_DELIVERY_LIMIT), *ttl = get(j, QUEUE_MESSAGE_TTL);
	const char *before = "; a message also leaves it ";
	if (limit->set) {
		buffer_printf(out, "%safter %" PRId64 " returns (%s)", before, limit->number, limit->origin);
		before = ", ";
	}
	if (ttl->set) {
		buffer_printf(out, "%sat the age of %s (%s)", before, check_span(ttl->number).text, ttl->origin);
		before = ", ";
	}
	if (drops_head(j)) {
		buffer_printf(out, "%sbeyond %" PRId64 " %s (%s)", before, length_of(j)->number, unit_of_length(j),
			      length_of(j)->origin);
		before = ", ";
	}
	if (before[0] == ';')
		buffer_printf(out, "; %sonly an acknowledgement takes a message out of it",
			      j->queue->policies_known ? "" : "by its arguments ");
}

static void tell(const struct judged *j)
{
	const struct queue_setting *dead_letters = get(j, QUEUE_DEAD_LETTER_EXCHANGE);
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	buffer_printf(&out, "queue %s is %s%s", j->config->queue, j->queue->type,
		      j->queue->durable ? " and durable" : "");
	add_ways(j, &out);
	if (dead_letters->set) {
		buffer_printf(&out, "; dead letters go to %s",
			      *dead_letters->text ? "exchange " : "the default exchange");
		cli_add_clean(&out, dead_letters->text, strlen(dead_letters->text));
		buffer_printf(&out, " (%s)", dead_letters->origin);
	}
	check_fact(j->check, j->subject.title, "%s", buffer_text(&out));
}

/* --- what is judged, one function a trait --- */

static void judge_life(const struct judged *j)
{
	const struct queue_setting *expires = get(j, QUEUE_EXPIRES);
	if (!j->queue->durable)
		PROBLEM(j, "it is not durable: a restart of the broker loses it with all its messages");
	if (j->queue->exclusive)
		PROBLEM(j, "it is exclusive: it goes with the connection that made it");
	if (j->queue->auto_delete)
		PROBLEM(j, "it deletes itself with its last consumer: each restart of effectd loses what waits in it");
	if (expires->set)
		PROBLEM(j,
			"it is deleted when nobody consumes for %s (%s): an outage that is longer loses what waits in "
			"it",
			check_span(expires->number).text, expires->origin);
}

static void judge_type(const struct judged *j)
{
	if (strcmp(j->queue->type, "stream") == 0)
		PROBLEM(j, "it is a stream: an acknowledgement takes nothing out of it, and what comes while nobody "
			   "consumes is never delivered; take a quorum queue that is bound to the same exchange");
}

static void judge_delivery_limit(const struct judged *j)
{
	const struct queue_setting *limit = get(j, QUEUE_DELIVERY_LIMIT);
	if (!limit->set)
		return;
	if (!has_dead_letters(j))
		PROBLEM(j,
			"the broker drops a message after %" PRId64 " returns (%s), and there is no dead-letter "
			"exchange: crashes and outages lose messages. Set dead-letter-exchange by a policy, or take "
			"the "
			"limit away",
			limit->number, limit->origin);
	else if (limit->number < DELIVERY_LIMIT_LEAST)
		WARNING(j,
			"a message becomes a dead letter after %" PRId64 " returns (%s): a few crashes do that to "
			"innocent ones; %d is enough to find the culprit",
			limit->number, limit->origin, DELIVERY_LIMIT_LEAST);
}

static void judge_age(const struct judged *j)
{
	const struct queue_setting *ttl = get(j, QUEUE_MESSAGE_TTL);
	if (ttl->set && !has_dead_letters(j))
		WARNING(j,
			"messages that wait for %s are gone unseen (%s): there is no dead-letter exchange, and their "
			"effects never happen",
			check_span(ttl->number).text, ttl->origin);
}

static void judge_length(const struct judged *j)
{
	if (drops_head(j) && !has_dead_letters(j))
		WARNING(j,
			"beyond %" PRId64
			" %s the oldest messages are gone unseen (%s): with overflow = reject-publish "
			"their publishers would learn it",
			length_of(j)->number, unit_of_length(j), length_of(j)->origin);
}

/* Something makes dead letters; effectd itself never does. */
static bool makes_dead_letters(const struct judged *j)
{
	return has_dead_letters(j) &&
	       (get(j, QUEUE_DELIVERY_LIMIT)->set || get(j, QUEUE_MESSAGE_TTL)->set || drops_head(j));
}

/* They stay until their target has confirmed them; the broker does this only where it may refuse publishers. */
static bool is_at_least_once(const struct judged *j)
{
	return is(j, QUEUE_DEAD_LETTER_STRATEGY, "at-least-once") && is(j, QUEUE_OVERFLOW, "reject-publish");
}

static void judge_strategy(const struct judged *j)
{
	if (!makes_dead_letters(j) || strcmp(j->queue->type, "quorum") != 0 || is_at_least_once(j))
		return;
	if (!is(j, QUEUE_DEAD_LETTER_STRATEGY, "at-least-once"))
		WARNING(j, "dead letters are sent at most once, without a confirm: one can get lost. "
			   "dead-letter-strategy = at-least-once with overflow = reject-publish keeps them");
	else
		WARNING(j,
			"dead-letter-strategy = at-least-once (%s) holds only with overflow = reject-publish: dead "
			"letters are sent at most once",
			get(j, QUEUE_DEAD_LETTER_STRATEGY)->origin);
}

static void judge_order(const struct judged *j)
{
	const bool single = get(j, QUEUE_SINGLE_ACTIVE)->set;
	const struct queue_setting *priority = get(j, QUEUE_MAX_PRIORITY);
	if (j->config->order == ORDER_QUEUE && !single)
		WARNING(j, "order = queue, but it has no x-single-active-consumer: a second process would take every "
			   "other message out of order");
	if (j->config->order == ORDER_QUEUE && priority->set)
		WARNING(j, "order = queue, but it has priorities (%s): they change the order", priority->origin);
	if (j->config->order == ORDER_NONE && single && j->config->workers > 1)
		WARNING(j, "it feeds one consumer at a time (%s): %" PRId64 " of the %" PRId64 " workers only wait",
			get(j, QUEUE_SINGLE_ACTIVE)->origin, j->config->workers - 1, j->config->workers);
}

/* With declare = yes each start makes it again, which the broker takes only with the arguments that it has. */
static void judge_declaration(const struct judged *j)
{
	const struct config_pairs *args = &j->config->queue_args;
	char name[64];
	if (j->config->declare != DECLARE_YES)
		return;
	AUTOFREE struct queue_argument *wanted = calloc(args->count + 1, sizeof(*wanted));
	for (size_t i = 0; wanted && i < args->count; i++)
		wanted[i] = (struct queue_argument){ args->list[i].name, args->list[i].value };
	if (strcmp(j->queue->type, j->config->queue_type) != 0)
		PROBLEM(j, "it is a %s queue, but declare = yes wants queue_type = %s: the broker refuses the start",
			j->queue->type, j->config->queue_type);
	if (wanted && queue_facts_differ(j->queue, wanted, args->count, name, sizeof(name)))
		PROBLEM(j, "its argument %s is not what declare = yes would set: the broker refuses the start", name);
}

void check_queue_facts(struct check *c, const struct config_consumer *config, const struct queue_facts *q)
{
	static const struct {
		void (*judge)(const struct judged *j);
		bool needs_policies; /* which may say otherwise, or make good what an argument does */
	} judgements[] = {
		{ judge_life, false },    { judge_type, false },        { judge_order, false },
		{ judge_age, true },      { judge_length, true },       { judge_delivery_limit, true },
		{ judge_strategy, true }, { judge_declaration, false },
	};
	const struct judged j = judged_of(c, config, q);
	tell(&j);
	if (!q->policies_known)
		WARNING(&j, "its policies are not known: the management interface has no statistics of it");
	for (size_t i = 0; i < ARRAY_LEN(judgements); i++)
		if (q->policies_known || !judgements[i].needs_policies)
			judgements[i].judge(&j);
}

/* --- dead letters --- */

enum status check_dead_letters(struct check *c, const struct config_consumer *config, struct management *m,
			       const char *vhost, const struct queue_facts *q, struct error *err)
{
	static const char *const what[] = {
		[DEAD_LETTERS_NO_EXCHANGE] = "which does not exist",
		[DEAD_LETTERS_NO_QUEUE] = "which leads them to no queue",
		[DEAD_LETTERS_ITSELF] = "which leads them back here or nowhere",
	};
	const struct judged j = judged_of(c, config, q);
	const struct queue_setting *exchange = get(&j, QUEUE_DEAD_LETTER_EXCHANGE);
	enum dead_letters where = DEAD_LETTERS_KEPT;
	if (!exchange->set || !q->policies_known)
		return ST_OK;
	const enum status st = management_dead_letters(m, vhost, q, &where, err);
	if (st != ST_OK || where == DEAD_LETTERS_KEPT)
		return st;
	char name[160];
	text_escape(name, sizeof(name), exchange->text, strlen(exchange->text));
	if (makes_dead_letters(&j))
		PROBLEM(&j, "dead letters go to %s%s, %s (%s): %s", *name ? "exchange " : "the default exchange", name,
			what[where], exchange->origin,
			is_at_least_once(&j) ? "they pile up in the queue, and nothing takes them out"
					     : "they are lost");
	else
		WARNING(&j, "dead letters would go to %s%s, %s (%s)", *name ? "exchange " : "the default exchange",
			name, what[where], exchange->origin);
	return ST_OK;
}

/* A queue, and where its dead letters go. */
#include "base/clock.h"
#include "management/private.h"
#include <string.h>
#include <unistd.h>

enum { NOT_FOUND = 404, AGAIN_MS = 250 };

static bool is_absent(enum status st, const struct error *err)
{
	return st == ST_REFUSED && err->code == NOT_FOUND;
}

enum status management_queue(struct management *m, const char *vhost, const char *queue, struct queue_facts *ret,
			     struct error *err)
{
	for (;;) {
		json_t *all = NULL;
		enum status st = management_get(m, (const char *const[]){ "queues", vhost, queue, NULL }, &all, err);
		if (st == ST_OK)
			st = queue_facts_read(ret, all, management_version(m), err);
		if (st != ST_OK || ret->policies_known || clock_mono_ms() >= management_patient_until_ms(m))
			return st;
		queue_facts_finish(ret);
		(void)usleep(AGAIN_MS * 1000);
	}
}

/* ST_OK: *ret tells. */
static enum status exists(struct management *m, const char *const *parts, bool *ret, struct error *err)
{
	json_t *all = NULL;
	const enum status st = management_get(m, parts, &all, err);
	json_decref(all);
	*ret = st == ST_OK;
	return is_absent(st, err) ? ST_OK : st;
}

/* By the default exchange a routing key is a queue's name. Without one each letter keeps the key that it came with:
 * mostly this very queue's name. */
static enum status by_default_exchange(struct management *m, const char *vhost, const struct queue_facts *q,
				       enum dead_letters *ret, struct error *err)
{
	const struct queue_setting *key = &q->settings[QUEUE_DEAD_LETTER_ROUTING_KEY];
	bool there = false;
	if (!key->set || strcmp(key->text, q->name) == 0) {
		*ret = DEAD_LETTERS_ITSELF;
		return ST_OK;
	}
	const enum status st = exists(m, (const char *const[]){ "queues", vhost, key->text, NULL }, &there, err);
	*ret = there ? DEAD_LETTERS_KEPT : DEAD_LETTERS_NO_QUEUE;
	return st;
}

/* Only a direct exchange tells from its bindings what a key meets; of the others it is enough that somebody is bound.
 */
static bool leads_somewhere(const json_t *exchange, const json_t *bindings, const char *key)
{
	const char *type = json_string_value(json_object_get(exchange, "type"));
	size_t i;
	json_t *binding;
	if (!key || !type || strcmp(type, "direct") != 0)
		return json_array_size(bindings) > 0;
	json_array_foreach(bindings, i, binding)
	{
		const char *bound = json_string_value(json_object_get(binding, "routing_key"));
		if (bound && strcmp(bound, key) == 0)
			return true;
	}
	return false;
}

/* What it cannot route goes there. */
static bool has_alternate(const json_t *exchange)
{
	return json_object_get(json_object_get(exchange, "arguments"), "alternate-exchange") ||
	       json_is_string(json_object_get(exchange, "policy"));
}

static enum status by_exchange(struct management *m, const char *vhost, const char *name, const char *key,
			       enum dead_letters *ret, struct error *err)
{
	json_t *exchange = NULL, *bindings = NULL;
	enum status st = management_get(m, (const char *const[]){ "exchanges", vhost, name, NULL }, &exchange, err);
	if (is_absent(st, err)) {
		*ret = DEAD_LETTERS_NO_EXCHANGE;
		return ST_OK;
	}
	if (st == ST_OK)
		st = management_get(m, (const char *const[]){ "exchanges", vhost, name, "bindings", "source", NULL },
				    &bindings, err);
	if (st == ST_OK)
		*ret = leads_somewhere(exchange, bindings, key) || has_alternate(exchange) ? DEAD_LETTERS_KEPT
											   : DEAD_LETTERS_NO_QUEUE;
	json_decref(exchange);
	json_decref(bindings);
	return st;
}

enum status management_dead_letters(struct management *m, const char *vhost, const struct queue_facts *q,
				    enum dead_letters *ret, struct error *err)
{
	const char *exchange = q->settings[QUEUE_DEAD_LETTER_EXCHANGE].text;
	if (!*exchange)
		return by_default_exchange(m, vhost, q, ret, err);
	return by_exchange(m, vhost, exchange, q->settings[QUEUE_DEAD_LETTER_ROUTING_KEY].text, ret, err);
}

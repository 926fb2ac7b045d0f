/* What holds for a queue: its arguments, its policies and the broker's defaults, put together as the broker does it. */
#include "base/text.h"
#include "management/management.h"
#include <stdio.h>
#include <string.h>

/* Who wins where an argument and a policy say two things. */
enum rule {
	SMALLER,   /* numbers */
	LIMIT,     /* the same, and below zero is none */
	ARGUMENT,  /* texts */
	OVERFLOWS, /* quorum queues listen to the policy, classic ones to the argument */
	NO_POLICY, /* a policy cannot say it; numbers and true, false */
};

static const struct {
	const char *name; /* in a policy; an argument has x- before it */
	enum rule rule;
} keys[QUEUE_KEYS] = {
	[QUEUE_DELIVERY_LIMIT] = { "delivery-limit", LIMIT },
	[QUEUE_DEAD_LETTER_EXCHANGE] = { "dead-letter-exchange", ARGUMENT },
	[QUEUE_DEAD_LETTER_ROUTING_KEY] = { "dead-letter-routing-key", ARGUMENT },
	[QUEUE_DEAD_LETTER_STRATEGY] = { "dead-letter-strategy", ARGUMENT },
	[QUEUE_MESSAGE_TTL] = { "message-ttl", SMALLER },
	[QUEUE_EXPIRES] = { "expires", SMALLER },
	[QUEUE_MAX_LENGTH] = { "max-length", SMALLER },
	[QUEUE_MAX_LENGTH_BYTES] = { "max-length-bytes", SMALLER },
	[QUEUE_OVERFLOW] = { "overflow", OVERFLOWS },
	[QUEUE_CONSUMER_TIMEOUT] = { "consumer-timeout", SMALLER },
	[QUEUE_SINGLE_ACTIVE] = { "single-active-consumer", NO_POLICY },
	[QUEUE_MAX_PRIORITY] = { "max-priority", NO_POLICY },
};

enum { DEFAULT_DELIVERY_LIMIT = 20 /* quorum queues of RabbitMQ 4 */ };

struct version {
	int major, minor;
};

static struct version version_of(const char *text)
{
	struct version v = { 0 };
	(void)!sscanf(text, "%d.%d", &v.major, &v.minor);
	return v;
}

static bool is_text(enum rule rule)
{
	return rule == ARGUMENT || rule == OVERFLOWS;
}

static bool is_set(enum rule rule, const json_t *value)
{
	return is_text(rule) ? json_is_string(value) : json_is_integer(value) || json_is_true(value);
}

static int64_t number_of(const json_t *value)
{
	return json_is_true(value) ? 1 : json_integer_value(value);
}

/* Is it the argument that counts? Both are set. */
static bool argument_wins(enum rule rule, bool quorum, const json_t *argument, const json_t *policy)
{
	const int64_t a = number_of(argument), p = number_of(policy);
	switch (rule) {
	case SMALLER:
		return a <= p;
	case LIMIT:
		return a < 0 || p < 0 ? a >= p : a <= p;
	case ARGUMENT:
	case NO_POLICY:
		return true;
	case OVERFLOWS:
		return !quorum;
	}
	return true;
}

/* One line, whatever the names are. */
static void name_policies(char *origin, size_t size, const json_t *all)
{
	const char *own = json_string_value(json_object_get(all, "policy"));
	const char *operators = json_string_value(json_object_get(all, "operator_policy"));
	char own_text[100] = "", operators_text[100] = "";
	text_escape(own_text, sizeof(own_text), own ? own : "", own ? strlen(own) : 0);
	text_escape(operators_text, sizeof(operators_text), operators ? operators : "",
		    operators ? strlen(operators) : 0);
	if (own_text[0] && operators_text[0]) /* merged by the broker: whose it is cannot be seen */
		snprintf(origin, size, "policy %s or operator policy %s", own_text, operators_text);
	else if (operators_text[0])
		snprintf(origin, size, "operator policy %s", operators_text);
	else
		snprintf(origin, size, "policy %s", own_text);
}

static void read_setting(struct queue_facts *q, enum queue_key key)
{
	struct queue_setting *s = &q->settings[key];
	char name[48];
	snprintf(name, sizeof(name), "x-%s", keys[key].name);
	const json_t *argument = json_object_get(json_object_get(q->all, "arguments"), name);
	const json_t *policy = json_object_get(json_object_get(q->all, "effective_policy_definition"), keys[key].name);
	const enum rule rule = keys[key].rule;
	const bool by_argument = is_set(rule, argument), by_policy = rule != NO_POLICY && is_set(rule, policy);
	if (!by_argument && !by_policy)
		return;
	const bool quorum = strcmp(q->type, "quorum") == 0;
	const bool mine = by_argument && (!by_policy || argument_wins(rule, quorum, argument, policy));
	const json_t *value = mine ? argument : policy;
	s->number = number_of(value);
	s->text = json_string_value(value);
	s->set = rule != LIMIT || s->number >= 0;
	if (mine)
		snprintf(s->origin, sizeof(s->origin), "argument %s", name);
	else
		name_policies(s->origin, sizeof(s->origin), q->all);
}

static void apply_defaults(struct queue_facts *q, const char *version)
{
	const struct version v = version_of(version);
	struct queue_setting *limit = &q->settings[QUEUE_DELIVERY_LIMIT];
	struct queue_setting *timeout = &q->settings[QUEUE_CONSUMER_TIMEOUT];
	if (strcmp(q->type, "quorum") != 0) {
		*limit = (struct queue_setting){ 0 };
		q->settings[QUEUE_DEAD_LETTER_STRATEGY] = (struct queue_setting){ 0 };
	} else if (!limit->origin[0] && v.major >= 4) {
		limit->set = true;
		limit->number = DEFAULT_DELIVERY_LIMIT;
		snprintf(limit->origin, sizeof(limit->origin), "the default of RabbitMQ %s", version);
	}
	if (v.major < 3 || (v.major == 3 && v.minor < 12)) /* older ones take it and do nothing */
		*timeout = (struct queue_setting){ 0 };
}

enum status queue_facts_read(struct queue_facts *ret, json_t *all, const char *version, struct error *err)
{
	struct queue_facts q = { .all = all };
	const json_t *arguments = json_object_get(all, "arguments");
	const char *type = json_string_value(json_object_get(all, "type"));
	if (!type)
		type = json_string_value(json_object_get(arguments, "x-queue-type"));
	q.type = type ? type : "classic";
	q.name = json_string_value(json_object_get(all, "name"));
	if (!q.name || !arguments) {
		json_decref(all);
		return error_set(err, ST_INVALID, "what the management interface says of the queue is no queue");
	}
	q.durable = json_is_true(json_object_get(all, "durable"));
	q.exclusive = json_is_true(json_object_get(all, "exclusive"));
	q.auto_delete = json_is_true(json_object_get(all, "auto_delete"));
	q.policies_known = json_object_get(all, "effective_policy_definition");
	for (int key = 0; key < QUEUE_KEYS; key++)
		read_setting(&q, (enum queue_key)key);
	apply_defaults(&q, version);
	*ret = q;
	return ST_OK;
}

void queue_facts_finish(struct queue_facts *q)
{
	json_decref(q->all);
	*q = (struct queue_facts){ 0 };
}

/* --- another declaration of it --- */

static bool is_value(const json_t *there, const char *value)
{
	int64_t number;
	if (!value)
		return !there;
	if (json_is_boolean(there))
		return strcmp(value, json_is_true(there) ? "true" : "false") == 0;
	if (json_is_integer(there))
		return text_parse_int(value, &number) && number == json_integer_value(there);
	return json_is_string(there) && strcmp(value, json_string_value(there)) == 0;
}

static const char *wanted_value(const struct queue_argument *wanted, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(wanted[i].name, name) == 0)
			return wanted[i].value;
	return NULL;
}

bool queue_facts_differ(const struct queue_facts *q, const struct queue_argument *wanted, size_t count, char *name,
			size_t size)
{
	const json_t *arguments = json_object_get(q->all, "arguments");
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		snprintf(name, size, "x-%s", keys[i].name);
		if (!is_value(json_object_get(arguments, name), wanted_value(wanted, count, name)))
			return true;
	}
	return false;
}

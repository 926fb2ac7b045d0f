/* Calls into a plugin, and what it does during one: it queues operations, says a sentence, breaks a rule.
 *
 * A fault sticks to the call and outweighs whatever the plugin returns, so no error can be swallowed. Nothing is sent
 * to PostgreSQL from here. */
#include "base/log.h"
#include "plugin/host.h"
#include "plugin/types.h"
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1000 };

void plugin_call_init(struct plugin_call *call, struct plugin_instance *instance, struct arena *arena)
{
	memset(call, 0, offsetof(struct plugin_call, text) + 1); /* not the whole text: this is done for each call */
	call->pub = (struct effectd_call){ &plugin_host, instance->state };
	call->instance = instance;
	call->arena = arena;
	call->tail = &call->first;
}

void call_fault(struct plugin_call *call, effectd_verdict fault, const char *fmt, ...)
{
	if (fault <= call->fault)
		return;
	call->fault = fault;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(call->text, sizeof(call->text), fmt, ap);
	va_end(ap);
}

static struct plugin_call *call_of(struct effectd_call *call)
{
	return (struct plugin_call *)call;
}

void host_say(struct effectd_call *pub, const char *text)
{
	struct plugin_call *call = call_of(pub);
	if (!text || call->fault != EFFECTD_OK)
		return;
	const size_t len = strnlen(text, TEXT_MAX + 4);
	text_escape(call->text, sizeof(call->text), text, text_utf8_cut(text, len, TEXT_MAX));
}

void host_log(struct effectd_call *pub, const char *text)
{
	(void)pub;
	if (text)
		log_info("plugin", LOG_STR("text", text));
}

static void append(struct plugin_call *call, struct plugin_op *op)
{
	*call->tail = op;
	call->tail = &op->next;
	call->op_count++;
}

static bool may_queue(struct plugin_call *call, const char *what)
{
	if (call->in_key)
		call_fault(call, EFFECTD_BROKEN, "key() queued %s: only apply() and apply_batch() may", what);
	return call->fault == EFFECTD_OK;
}

/* A deciding statement is the first of its message and the only one: what stands before it would be applied twice. */
static bool may_decide(struct plugin_call *call, const struct effectd_statement *statement)
{
	if (statement->rows != EFFECTD_NEW && statement->rows != EFFECTD_NEWER)
		return true;
	if (call->batch)
		call_fault(call, EFFECTD_BROKEN,
			   "statement %s decides for one message, apply_batch() has many: use one that expects EACH",
			   statement->name);
	else if (call->decides)
		call_fault(call, EFFECTD_BROKEN, "statement %s is the second that decides: a message has one at most",
			   statement->name);
	else if (call->first)
		call_fault(call, EFFECTD_BROKEN,
			   "statement %s decides, so it must be the first that the message queues", statement->name);
	call->decides = true;
	return call->fault == EFFECTD_OK;
}

void host_exec(struct effectd_call *pub, uint32_t index, const struct effectd_value *values, size_t count)
{
	struct plugin_call *call = call_of(pub);
	const struct plugin_instance *p = call->instance;
	if (!may_queue(call, "a statement"))
		return;
	if (index >= p->statement_count) {
		call_fault(call, EFFECTD_BROKEN, "statement %u does not exist: the plugin declares %zu", index,
			   p->statement_count);
		return;
	}
	if (!may_decide(call, &p->statements[index]))
		return;
	struct plugin_op *op =
		values_encode(call, p->statements[index].name, &p->prepared[index], values, values ? count : 0);
	if (!op)
		return;
	op->kind = PLUGIN_OP_STATEMENT;
	op->statement = index;
	append(call, op);
}

/* The parameters of an outbox row that come from the plugin, as the core's statement has them. */
static const struct pg_statement outbox_parameters = {
	.param_count = 5,
	.param_types = { OID_TEXT, OID_JSONB, OID_JSONB, OID_TEXT,
			 OID_TEXT }, /* kind, payload, headers, ordering_key, idempotency_key */
};

/* The row as the first version of the ABI had it; it only grows. */
static const size_t outbox_row_first_size =
	offsetof(struct effectd_outbox_row, idempotency_key) + sizeof(struct effectd_str);

void host_outbox(struct effectd_call *pub, const struct effectd_outbox_row *given)
{
	struct plugin_call *call = call_of(pub);
	if (!may_queue(call, "an outbox row"))
		return;
	if (call->batch) {
		call_fault(call, EFFECTD_BROKEN, "an outbox row belongs to one message: queue it in apply()");
		return;
	}
	struct effectd_outbox_row row = { 0 };
	if (given && given->size >= outbox_row_first_size)
		memcpy(&row, given, given->size < sizeof(row) ? given->size : sizeof(row));
	if (!row.kind || !*row.kind || !row.payload.data) {
		call_fault(call, EFFECTD_BROKEN, "an outbox row needs its size, a kind and a payload");
		return;
	}
	if (call->instance->claim == EFFECTD_CLAIM_NONE && !row.idempotency_key.data) {
		call_fault(call, EFFECTD_BROKEN, "an outbox row needs an idempotency key where there is no claim");
		return;
	}
	const struct effectd_value values[] = {
		effectd_cstr(row.kind),         effectd_jsonb(row.payload),        effectd_jsonb(row.headers),
		effectd_text(row.ordering_key), effectd_text(row.idempotency_key),
	};
	struct plugin_op *op = values_encode(call, "outbox", &outbox_parameters, values, ARRAY_LEN(values));
	if (!op)
		return;
	op->kind = PLUGIN_OP_OUTBOX;
	append(call, op);
}

/* No clock is read for each call: the watchdog has one of its own. */
static void begin(struct plugin_call *call, struct message *m, enum plugin_function function)
{
	struct plugin_instance *p = call->instance;
	plugin_call_init(call, p, call->arena);
	call->message = m;
	p->calls++;
	atomic_store_explicit(p->doing, p->calls << PLUGIN_FUNCTION_BITS | function, memory_order_relaxed);
}

/* Where nothing claims the key, the first statement must tell a message that was applied before: by deciding, or in a
 * batch by touching as many rows as there are messages. */
static void require_guard(struct plugin_call *call)
{
	const struct plugin_instance *p = call->instance;
	if (p->claim == EFFECTD_CLAIM_KEY || !call->first || call->decides)
		return;
	const struct plugin_op *op = call->first;
	if (call->batch && p->statements[op->statement].rows == EFFECTD_EACH)
		return;
	call_fault(call, EFFECTD_BROKEN, "without a claim the first statement must be one %s",
		   call->batch ? "that expects EACH" : "that decides (NEW or NEWER)");
}

static effectd_verdict finish(struct plugin_call *call, effectd_verdict verdict)
{
	struct plugin_instance *instance = call->instance;
	atomic_store_explicit(instance->doing, instance->calls << PLUGIN_FUNCTION_BITS, memory_order_relaxed);
	if (verdict == EFFECTD_OK)
		require_guard(call);
	if (call->message && call->message->json_error == json_out_of_memory)
		call_fault(call, EFFECTD_RETRY, "%s", json_out_of_memory);
	if (verdict < EFFECTD_OK || verdict > EFFECTD_BROKEN)
		call_fault(call, EFFECTD_BROKEN, "the plugin returned the verdict %d, which does not exist",
			   (int)verdict);
	return call->fault != EFFECTD_OK ? call->fault : verdict;
}

/* NULL: the key is good. */
static const char *judge_key(const struct effectd_key *key, char *text, size_t size)
{
	if (key->len == 0)
		return "the key is empty";
	if (key->len > EFFECTD_KEY_MAX) {
		snprintf(text, size, "the key is %zu bytes long, at most %d are allowed", key->len, EFFECTD_KEY_MAX);
		return text;
	}
	if (memchr(key->text, '\0', key->len))
		return "the key contains a NUL byte";
	if (!text_is_utf8(key->text, key->len))
		return "the key is not valid UTF-8";
	return NULL;
}

effectd_verdict plugin_call_key(struct plugin_call *call, struct message *m, struct effectd_key *ret, bool *ret_bad_key)
{
	begin(call, m, PLUGIN_KEY);
	call->in_key = true;
	ret->host = &plugin_host;
	ret->len = 0;
	ret->lock_order = 0;
	ret->has_event_time = false;
	ret->event_time_us = 0;
	ret->text[0] = '\0';
	*ret_bad_key = false;
	const effectd_verdict verdict = finish(call, call->instance->plugin->descriptor.key(&call->pub, &m->pub, ret));
	if (verdict != EFFECTD_OK)
		return verdict;
	char text[80];
	const char *wrong = judge_key(ret, text, sizeof(text));
	if (!wrong)
		return EFFECTD_OK;
	call_fault(call, EFFECTD_REJECT, "%s", wrong);
	*ret_bad_key = true;
	return EFFECTD_REJECT;
}

effectd_verdict plugin_call_apply(struct plugin_call *call, struct message *m)
{
	begin(call, m, PLUGIN_APPLY);
	return finish(call, call->instance->plugin->descriptor.apply(&call->pub, &m->pub));
}

effectd_verdict plugin_call_apply_batch(struct plugin_call *call, struct message *const *messages, size_t n)
{
	begin(call, NULL, PLUGIN_APPLY_BATCH);
	call->batch = true;
	/* struct message begins with what plugins see, so a list of one is a list of the other */
	const struct effectd_message *const *msgs = (const struct effectd_message *const *)(const void *)messages;
	return finish(call, call->instance->plugin->descriptor.apply_batch(&call->pub, msgs, n));
}

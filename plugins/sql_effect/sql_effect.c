/* sql_effect - a consumer without C: what a message does is SQL in the consumer's section.
 *
 * All that can be known of the options is found before the first message: configure() reads them, described() compares
 * what the statements want with what fields can give, and an example (plugin.sample) is taken through all of it. Each
 * mistake is said with the option that has it. */
#include "config.h"
#include <stdlib.h>

static const struct effectd_option options[] = {
	{ .name = "key",
	  .required = 1,
	  .help = "names the effect: order-completed:{order_id}; texts and whole numbers of the body" },
	{ .name = "sql.*",
	  .help = "sql.1, sql.2 ...: the statements in their order, with :order_id, :customer.id, :body as "
		  "parameters" },
	{ .name = "rows.*", .help = "rows.1 ...: how many rows: one (the default), some, any, new, newer" },
	{ .name = "otherwise.*", .help = "otherwise.1 ...: reject (the default) or retry when the rows are others" },
	{ .name = "where.*", .help = "where.FIELD = VALUE: messages whose field is another are ignored" },
	{ .name = "routing_key", .help = "messages with another routing key are ignored; several with spaces between" },
	{ .name = "event_time", .help = "the field with the event's time; needed for claims = daily" },
	{ .name = "lock_order", .help = "the field that names the row which messages share" },
	{ .name = "claim", .fallback = "key", .help = "none: sql.1 decides by itself (rows.1 = new or newer)" },
	{ .name = "outbox.*",
	  .help = "outbox.KIND = order_id total=total_cents: an outbox row with these fields, or body" },
	{ .name = "outbox_key.*", .help = "outbox_key.KIND: its idempotency key, like key; default: of the claim" },
	{ .name = "outbox_order.*", .help = "outbox_order.KIND: its ordering key, like key; default: no order" },
	{ .name = "sample", .help = "an example of a message's body, with which check tries everything" },
};

static bool sql_effect_configure(struct effectd_setup *setup, void **ret_instance)
{
	struct sql_effect *self = calloc(1, sizeof(*self));
	if (!self) {
		effectd_setup_fail(setup, "out of memory");
		return false;
	}
	*ret_instance = self;
	if (config_read(self, setup))
		return true;
	sql_effect_destroy(self);
	return false;
}

void sql_effect_destroy(void *instance)
{
	struct sql_effect *self = instance;
	free(self->text.data);
	pool_free(&self->pool);
	free(self);
}

static bool sql_effect_described(struct effectd_setup *setup, void *instance)
{
	return config_compare(instance, setup);
}

static bool is_routed_here(const struct sql_effect *self, const struct effectd_message *msg)
{
	const struct effectd_str s = effectd_routing_key(msg);
	for (size_t i = 0; i < self->routing_key_count; i++)
		if (effectd_str_equals(s, self->routing_keys[i]))
			return true;
	return self->routing_key_count == 0;
}

static effectd_verdict sql_effect_key(struct effectd_call *call, const struct effectd_message *msg,
				      struct effectd_key *key)
{
	struct sql_effect *self = call->instance;
	struct reason why;

	if (!is_routed_here(self, msg))
		return effectd_ignore(call, "another routing key");
	if (effectd_json_error(msg))
		return effectd_reject(call, "%s", effectd_json_error(msg));
	for (size_t i = 0; i < self->condition_count; i++)
		if (!field_is(&self->conditions[i].field, msg, self->conditions[i].value))
			return effectd_ignore(call, "%s is another", self->conditions[i].field.name);

	self->text.len = 0;
	self->text.failed = false;
	if (!template_add(&self->key, msg, &self->text, &why))
		return self->text.failed ? effectd_retry(call, "%s", why.text) : effectd_reject(call, "%s", why.text);
	if (self->has_lock_order && !field_order(&self->lock_order, msg, &key->lock_order, &why))
		return effectd_reject(call, "%s", why.text);
	key->has_event_time = self->has_event_time;
	if (self->has_event_time && !field_time(&self->event_time, msg, &key->event_time_us, &why))
		return effectd_reject(call, "%s", why.text);
	return effectd_key_bytes(key, text_str(&self->text));
}

/* The texts of an outbox row follow each other in one, which may move while it grows: cut at the end. */
static effectd_verdict add_outbox_row(struct effectd_call *call, const struct effectd_message *msg,
				      const struct outbox *o)
{
	struct sql_effect *self = call->instance;
	struct text *text = &self->text;
	struct reason why;
	struct effectd_outbox_row row = { .size = sizeof(row), .kind = o->kind };

	text->len = 0;
	text->failed = false;
	bool good = outbox_add_payload(o, msg, text, &why);
	const size_t key_at = text->len;
	good = good && (!o->has_key || template_add(&o->key, msg, text, &why));
	const size_t order_at = text->len;
	good = good && (!o->has_order || template_add(&o->order, msg, text, &why));
	if (text->failed)
		return effectd_retry(call, "out of memory");
	if (!good)
		return effectd_reject(call, "outbox row %s: %s", o->kind, why.text);

	row.payload = (struct effectd_str){ text->data, key_at };
	if (o->has_key)
		row.idempotency_key = (struct effectd_str){ text->data + key_at, order_at - key_at };
	if (o->has_order)
		row.ordering_key = (struct effectd_str){ text->data + order_at, text->len - order_at };
	call->host->outbox(call, &row);
	return EFFECTD_OK;
}

static effectd_verdict sql_effect_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	const struct sql_effect *self = call->instance;
	struct effectd_value values[PARAMETERS_MOST];
	struct reason why;

	for (size_t i = 0; i < self->statement_count; i++) {
		const struct statement *s = &self->statements[i];
		for (size_t j = 0; j < s->count; j++)
			if (!value_of(&s->parameters[j], msg, &values[j], &why))
				return effectd_reject(call, "%s: %s", s->option, why.text);
		call->host->exec(call, s->index, values, s->count);
	}
	for (size_t i = 0; i < self->outbox_count; i++) {
		effectd_verdict verdict = add_outbox_row(call, msg, &self->outbox[i]);
		if (verdict != EFFECTD_OK)
			return verdict;
	}
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.version = "1.0", .description = "a consumer without C: its SQL stands in its section",
	       EFFECTD_OPTIONS(options), .configure = sql_effect_configure, .destroy = sql_effect_destroy,
	       .described = sql_effect_described, .key = sql_effect_key, .apply = sql_effect_apply);

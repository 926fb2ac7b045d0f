/* receipts - has a receipt sent for a completed order.
 *
 * Sending mail is an effect outside the database: no transaction can take it back, so a plugin must not do it. It
 * writes down that it is to be done, as an outbox row, which commits together with the claim or not at all. A relay
 * does it afterwards, at least once, always with the same idempotency key, by which the receiver can tell a repeat.
 *
 * This is about the smallest plugin there can be: no table, no statement, no option, no instance. */
#include <effectd/plugin.h>

static effectd_verdict receipts_key(struct effectd_call *call, const struct effectd_message *msg,
				    struct effectd_key *key)
{
	struct effectd_str event;
	int64_t order_id;

	if (!effectd_json_text(msg, "event", &event))
		return effectd_reject(call, "event must be a text");
	if (!effectd_str_equals(event, "OrderCompleted"))
		return effectd_ignore(call, "not an OrderCompleted event");
	if (!effectd_json_int64(msg, "order_id", &order_id))
		return effectd_reject(call, "order_id must be a whole number");

	/* No lock_order: a new outbox row is nobody else's. */
	key->has_event_time = effectd_json_time(msg, "completed_at", &key->event_time_us);
	return effectd_key_format(key, "order-completed:%" PRId64, order_id);
}

/* Three capital letters. What passes here needs no escaping in JSON. */
static bool is_currency(struct effectd_str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.data[i] < 'A' || s.data[i] > 'Z')
			return false;
	return s.len == 3;
}

static effectd_verdict receipts_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	int64_t order_id, customer_id, total_cents;
	struct effectd_str currency;

	if (!effectd_json_int64(msg, "order_id", &order_id) || !effectd_json_int64(msg, "customer_id", &customer_id))
		return effectd_reject(call, "order_id and customer_id must be whole numbers");
	if (!effectd_json_int64(msg, "total_cents", &total_cents) || total_cents < 0)
		return effectd_reject(call, "total_cents must be a whole number, zero or more");
	if (!effectd_json_text(msg, "currency", &currency) || !is_currency(currency))
		return effectd_reject(call, "currency must be three capital letters");

	/* The total is a text, because many JSON readers put numbers into a double. */
	char payload[256];
	int len = snprintf(payload, sizeof(payload),
			   "{\"order_id\":%" PRId64 ",\"customer_id\":%" PRId64 ",\"total\":\"%" PRId64 ".%02" PRId64
			   "\",\"currency\":\"%.3s\"}",
			   order_id, customer_id, total_cents / 100, total_cents % 100, currency.data);
	effectd_outbox(call, "send_receipt", (struct effectd_str){ payload, (size_t)len });
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.consumer = "receipts", .version = "1.0", .description = "an outbox row send_receipt for each order",
	       .key = receipts_key, .apply = receipts_apply);

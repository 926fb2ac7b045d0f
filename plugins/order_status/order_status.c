/* order_status - keeps the newest status of each order, in whatever order its updates arrive.
 *
 * An update carries the whole state and a version that rises with each change of the order. One statement writes it,
 * unless what is there is as new or newer. So a copy changes nothing, and neither does an update that was overtaken:
 * the row's version is a lock on the door that has no window and needs no claim. */
#include <effectd/plugin.h>

enum { STATUS };

static const struct effectd_statement statements[] = {
	/* Decides: no row touched means that the order has this version or a later one, so the message is stale. */
	[STATUS] = { "status",
		     "INSERT INTO order_status (order_id, version, status, changed_at) VALUES ($1, $2, $3, $4) "
		     "ON CONFLICT (order_id) DO UPDATE "
		     "SET version = excluded.version, status = excluded.status, changed_at = excluded.changed_at "
		     "WHERE order_status.version < excluded.version",
		     EFFECTD_NEWER },
};

/* A claim would be a row for each version of each order, and say nothing that the version does not. */
static bool order_status_configure(struct effectd_setup *setup, void **ret_instance)
{
	(void)ret_instance;
	setup->host->claim(setup, EFFECTD_CLAIM_NONE);
	return true;
}

struct update {
	int64_t order_id, version;
};

static bool read_update(const struct effectd_message *msg, struct update *ret)
{
	return effectd_json_int64(msg, "order_id", &ret->order_id) && effectd_json_int64(msg, "version", &ret->version);
}

/* Without a claim the key keeps nobody out, but it names the message for people and for parking. */
static effectd_verdict order_status_key(struct effectd_call *call, const struct effectd_message *msg,
					struct effectd_key *key)
{
	struct effectd_str event;
	struct update update;

	if (!effectd_json_text(msg, "event", &event))
		return effectd_reject(call, "event must be a text");
	if (!effectd_str_equals(event, "OrderStatusChanged"))
		return effectd_ignore(call, "not an OrderStatusChanged event");
	if (!read_update(msg, &update))
		return effectd_reject(call, "order_id and version must be whole numbers");

	key->lock_order = update.order_id; /* its row is what updates of one order share */
	key->has_event_time = effectd_json_time(msg, "changed_at", &key->event_time_us);
	return effectd_key_format(key, "order-status:%" PRId64 ":%" PRId64, update.order_id, update.version);
}

static effectd_verdict order_status_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	struct update update;
	struct effectd_str status;
	int64_t changed_at_us;

	if (!read_update(msg, &update))
		return effectd_reject(call, "order_id and version must be whole numbers");
	if (!effectd_json_text(msg, "status", &status) || status.len == 0)
		return effectd_reject(call, "status must be a text, and not empty");
	if (!effectd_json_time(msg, "changed_at", &changed_at_us))
		return effectd_reject(call, "changed_at must be a time like 2026-11-30T12:00:00Z");
	effectd_exec(call, STATUS, effectd_int8(update.order_id), effectd_int8(update.version), effectd_text(status),
		     effectd_timestamptz(changed_at_us));
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.consumer = "order_status", .version = "1.0", .description = "the newest status of each order",
	       EFFECTD_STATEMENTS(statements), .configure = order_status_configure, .key = order_status_key,
	       .apply = order_status_apply);

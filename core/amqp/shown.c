/* Every property of a message for a person who looks at it, nothing left out. */
#include "amqp/encoded.h"
#include "amqp/properties.h"
#include <string.h>

/* Those that are text, in the order of the protocol; headers come last. */
static const struct {
	const char *name;
	amqp_flags_t flag;
	size_t offset;
} texts[] = {
#define TEXT(field, flag)                                                                  \
	{                                                                                  \
#field, AMQP_BASIC_##flag##_FLAG, offsetof(amqp_basic_properties_t, field) \
	}
	TEXT(content_type, CONTENT_TYPE),
	TEXT(content_encoding, CONTENT_ENCODING),
	TEXT(correlation_id, CORRELATION_ID),
	TEXT(reply_to, REPLY_TO),
	TEXT(expiration, EXPIRATION),
	TEXT(message_id, MESSAGE_ID),
	TEXT(type, TYPE),
	TEXT(user_id, USER_ID),
	TEXT(app_id, APP_ID),
	TEXT(cluster_id, CLUSTER_ID),
#undef TEXT
};

static void show(struct buffer *json, const char *name, amqp_properties_show *show_one, void *arg)
{
	show_one(arg, name, NULL, buffer_text(json));
	buffer_clear(json);
}

bool amqp_properties_each(struct str encoded, amqp_properties_show *show_one, void *arg)
{
	CLEANUP(empty_amqp_pool) amqp_pool_t pool;
	CLEANUP(buffer_finish) struct buffer json = { 0 }, name = { 0 };
	const amqp_basic_properties_t *p = encoded_decode(encoded, &pool);
	if (!p)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		amqp_bytes_t value;
		if (!(p->_flags & texts[i].flag))
			continue;
		memcpy(&value, (const char *)p + texts[i].offset, sizeof(value));
		encoded_text_json(&json, value, &json_limits_none);
		show(&json, texts[i].name, show_one, arg);
	}
	if (p->_flags & AMQP_BASIC_DELIVERY_MODE_FLAG) {
		buffer_printf(&json, "%u", p->delivery_mode);
		show(&json, "delivery_mode", show_one, arg);
	}
	if (p->_flags & AMQP_BASIC_PRIORITY_FLAG) {
		buffer_printf(&json, "%u", p->priority);
		show(&json, "priority", show_one, arg);
	}
	if (p->_flags & AMQP_BASIC_TIMESTAMP_FLAG) {
		encoded_time_json(&json, p->timestamp);
		show(&json, "timestamp", show_one, arg);
	}
	const amqp_table_t headers = encoded_headers(p);
	for (int i = 0; i < headers.num_entries; i++) {
		encoded_text_json(&name, headers.entries[i].key, &json_limits_none);
		encoded_value_json(&json, &headers.entries[i].value, &json_limits_none);
		show_one(arg, NULL, buffer_text(&name), buffer_text(&json));
		buffer_clear(&name);
		buffer_clear(&json);
	}
	return !json.failed && !name.failed;
}

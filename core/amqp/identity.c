/* What identifies a message besides its body and routing key, as bytes for a fingerprint: message id, type, timestamp
 * and headers, without those that the broker adds or changes at a redelivery.
 *
 * Unambiguous: every text has its length before it, every value its kind. Headers count in the order of their names,
 * since publishers that keep them in hash tables send them in another order each time. Properties that cannot be taken
 * apart are taken as they are: two messages must never look like one, one may at worst look like two. */
#include "amqp/encoded.h"
#include <stdlib.h>
#include <string.h>

enum {
	FORM_RAW = 0,
	FORM_FIELDS = 1,
	DEPTH_MAX = 64, /* of nested tables and arrays */
};

/* Ends with a dash: every header that begins so. */
static const char *const broker_headers[] = {
	"x-delivery-count", "x-acquired-count", "x-death", "x-first-death-", "x-last-death-",
};

static bool is_broker_header(amqp_bytes_t name)
{
	for (size_t i = 0; i < ARRAY_LEN(broker_headers); i++) {
		const size_t len = strlen(broker_headers[i]);
		const bool prefix = broker_headers[i][len - 1] == '-';
		if ((prefix ? name.len >= len : name.len == len) && memcmp(name.bytes, broker_headers[i], len) == 0)
			return true;
	}
	return false;
}

static void add_number(struct buffer *out, uint64_t number)
{
	unsigned char bytes[8];
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(number >> (56 - 8 * i));
	buffer_add(out, bytes, sizeof(bytes));
}

static void add_bytes(struct buffer *out, amqp_bytes_t bytes)
{
	add_number(out, bytes.len);
	buffer_add(out, bytes.bytes, bytes.len);
}

static bool add_table(struct buffer *out, amqp_table_t table, int depth);

static bool add_array(struct buffer *out, amqp_array_t array, int depth);

static uint64_t real_bits(double real)
{
	uint64_t bits;
	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

static bool add_value(struct buffer *out, const amqp_field_value_t *v, int depth)
{
	buffer_add(out, &v->kind, 1);
	switch (v->kind) {
	case AMQP_FIELD_KIND_TABLE:
		return add_table(out, v->value.table, depth + 1);
	case AMQP_FIELD_KIND_ARRAY:
		return add_array(out, v->value.array, depth + 1);
	case AMQP_FIELD_KIND_UTF8:
	case AMQP_FIELD_KIND_BYTES:
		add_bytes(out, v->value.bytes);
		break;
	case AMQP_FIELD_KIND_BOOLEAN:
		add_number(out, v->value.boolean ? 1 : 0);
		break;
	case AMQP_FIELD_KIND_I8:
	case AMQP_FIELD_KIND_U8:
		add_number(out, v->value.u8);
		break;
	case AMQP_FIELD_KIND_I16:
	case AMQP_FIELD_KIND_U16:
		add_number(out, v->value.u16);
		break;
	case AMQP_FIELD_KIND_I32:
	case AMQP_FIELD_KIND_U32:
		add_number(out, v->value.u32);
		break;
	case AMQP_FIELD_KIND_I64:
	case AMQP_FIELD_KIND_U64:
	case AMQP_FIELD_KIND_TIMESTAMP:
		add_number(out, v->value.u64);
		break;
	case AMQP_FIELD_KIND_F32:
		add_number(out, real_bits((double)v->value.f32));
		break;
	case AMQP_FIELD_KIND_F64:
		add_number(out, real_bits(v->value.f64));
		break;
	case AMQP_FIELD_KIND_DECIMAL:
		add_number(out, v->value.decimal.decimals);
		add_number(out, v->value.decimal.value);
		break;
	default: /* void: the kind is all */
		break;
	}
	return true;
}

static bool add_array(struct buffer *out, amqp_array_t array, int depth)
{
	if (depth > DEPTH_MAX)
		return false;
	add_number(out, (uint64_t)array.num_entries);
	for (int i = 0; i < array.num_entries; i++)
		if (!add_value(out, &array.entries[i], depth))
			return false;
	return true;
}

/* Sorts the table in place: it is the caller's, decoded for this call. */
static bool add_table(struct buffer *out, amqp_table_t table, int depth)
{
	if (depth > DEPTH_MAX)
		return false;
	add_number(out, (uint64_t)table.num_entries);
	if (table.num_entries > 1)
		qsort(table.entries, (size_t)table.num_entries, sizeof(*table.entries), amqp_table_entry_cmp);
	for (int i = 0; i < table.num_entries; i++) {
		add_bytes(out, table.entries[i].key);
		if (!add_value(out, &table.entries[i].value, depth))
			return false;
	}
	return true;
}

static void drop_broker_headers(amqp_table_t *table)
{
	int kept = 0;
	for (int i = 0; i < table->num_entries; i++)
		if (!is_broker_header(table->entries[i].key))
			table->entries[kept++] = table->entries[i];
	table->num_entries = kept;
}

static void add_text_property(struct buffer *out, bool present, amqp_bytes_t value)
{
	buffer_add(out, present ? "\1" : "\0", 1);
	if (present)
		add_bytes(out, value);
}

static bool add_fields(struct buffer *out, const amqp_basic_properties_t *p)
{
	add_text_property(out, p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG, p->message_id);
	add_text_property(out, p->_flags & AMQP_BASIC_TYPE_FLAG, p->type);
	const bool has_timestamp = p->_flags & AMQP_BASIC_TIMESTAMP_FLAG;
	buffer_add(out, has_timestamp ? "\1" : "\0", 1);
	if (has_timestamp)
		add_number(out, p->timestamp);
	amqp_table_t headers = encoded_headers(p);
	drop_broker_headers(&headers);
	return add_table(out, headers, 0);
}

void encoded_identity(struct str encoded, struct arena *arena, struct buffer *out)
{
	(void)arena;
	const size_t start = out->len;
	CLEANUP(empty_amqp_pool) amqp_pool_t pool;
	const amqp_basic_properties_t *p = encoded_decode(encoded, &pool);
	if (p) {
		buffer_add(out, &(char){ FORM_FIELDS }, 1);
		if (add_fields(out, p))
			return;
		out->len = start;
	}
	buffer_add(out, &(char){ FORM_RAW }, 1);
	buffer_add(out, encoded.data, encoded.len);
}

/* A field as a statement's argument, by the type that PostgreSQL says the parameter has.
 *
 * Nothing is rounded and nothing guessed: a whole number goes into whole numbers, a text into texts, and where both
 * make sense (numeric) PostgreSQL gets the digits as they were written. What should be converted is converted in SQL,
 * where it can be seen: :price::text. */
#include "sql_effect.h"

/* By the value's type: what the member must be. NULL: no member can be one, the second sentence says what to do. */
static const struct {
	const char *wanted, *instead;
} kinds[] = {
	[EFFECTD_TYPE_BOOL] = { "true or false", NULL },
	[EFFECTD_TYPE_INT2] = { "a whole number that fits a smallint", NULL },
	[EFFECTD_TYPE_INT4] = { "a whole number that fits an integer", NULL },
	[EFFECTD_TYPE_INT8] = { "a whole number", NULL },
	[EFFECTD_TYPE_TEXT] = { "a text", NULL },
	[EFFECTD_TYPE_BYTEA] = { NULL, "bytes have no form in JSON: decode a text, decode(:name, 'base64')" },
	[EFFECTD_TYPE_NUMERIC] = { "a number, or a text with one", NULL },
	[EFFECTD_TYPE_JSON] = { "there", NULL },
	[EFFECTD_TYPE_DATE] = { "a date like 2026-11-30", NULL },
	[EFFECTD_TYPE_TIMESTAMPTZ] = { "a time like 2026-11-30T12:00:00Z", NULL },
	[EFFECTD_TYPE_BODY] = { NULL, NULL },
	[EFFECTD_TYPE_OTHER] = { "a text or a number", NULL },
};

bool value_possible(const struct parameter *p, struct reason *why)
{
	const effectd_type type = p->type;
	switch (p->field.source) {
	case FIELD_BODY:
		return type == EFFECTD_TYPE_JSON || type == EFFECTD_TYPE_TEXT || type == EFFECTD_TYPE_BYTEA ||
		       because(why, "PostgreSQL expects another type for :body than json: write :body::jsonb");
	case FIELD_TIMESTAMP:
		return type == EFFECTD_TYPE_TIMESTAMPTZ ||
		       because(why, "PostgreSQL expects another type for :@timestamp: write :@timestamp::timestamptz");
	case FIELD_PROPERTY:
	case FIELD_HEADER:
		return type == EFFECTD_TYPE_TEXT || type == EFFECTD_TYPE_OTHER ||
		       (type == EFFECTD_TYPE_INT8 && p->field.source == FIELD_HEADER) ||
		       because(why, "PostgreSQL expects another type for :%s than text: write :%s::text and cast that",
			       p->field.name, p->field.name);
	default:
		if (type & EFFECTD_TYPE_ARRAY)
			return because(why,
				       "PostgreSQL expects an array for :%s: take it as jsonb, "
				       "jsonb_array_elements(:%s::jsonb)",
				       p->field.name, p->field.name);
		return kinds[type].wanted || because(why, ":%s: %s", p->field.name, kinds[type].instead);
	}
}

static bool whole(const struct effectd_message *msg, const struct effectd_json *node, int64_t *n)
{
	return msg->host->json_int64(node, n);
}

static bool is_number(effectd_json_kind kind)
{
	return kind == EFFECTD_JSON_INTEGER || kind == EFFECTD_JSON_REAL;
}

static bool date(struct effectd_str s, int64_t *ret_days)
{
	char text[] = "0000-00-00T00:00:00Z";
	int64_t us;
	if (s.len != 10)
		return false;
	memcpy(text, s.data, s.len);
	const struct effectd_str midnight = { text, sizeof(text) - 1 };
	if (!effectd_parse_time(midnight, &us))
		return false;
	*ret_days = us / (INT64_C(24) * 60 * 60 * 1000000);
	return true;
}

/* A member's value; false: it is no such thing. */
static bool member(effectd_type type, const struct effectd_message *msg, const struct effectd_json *node,
		   struct effectd_value *ret)
{
	const struct effectd_host *host = msg->host;
	const effectd_json_kind kind = host->json_kind(node);
	struct effectd_str s;
	int64_t n;
	bool b;
	switch (type) {
	case EFFECTD_TYPE_BOOL:
		return host->json_bool(node, &b) && (*ret = effectd_bool(b), true);
	case EFFECTD_TYPE_INT2:
		return whole(msg, node, &n) && n == (int16_t)n && (*ret = effectd_int2((int16_t)n), true);
	case EFFECTD_TYPE_INT4:
		return whole(msg, node, &n) && n == (int32_t)n && (*ret = effectd_int4((int32_t)n), true);
	case EFFECTD_TYPE_INT8:
		return whole(msg, node, &n) && (*ret = effectd_int8(n), true);
	case EFFECTD_TYPE_TEXT:
		return host->json_text(node, &s) && (*ret = effectd_text(s), true);
	case EFFECTD_TYPE_NUMERIC:
		if (is_number(kind))
			s = host->json_source(msg, node);
		else if (!host->json_text(node, &s))
			return false;
		*ret = effectd_numeric(s);
		return true;
	case EFFECTD_TYPE_OTHER:
		if (is_number(kind))
			s = host->json_source(msg, node);
		else if (!host->json_text(node, &s))
			return false;
		*ret = effectd_text(s);
		return true;
	case EFFECTD_TYPE_JSON:
		*ret = effectd_jsonb(host->json_source(msg, node));
		return true;
	case EFFECTD_TYPE_DATE:
		return host->json_text(node, &s) && date(s, &n) && (*ret = effectd_date((int32_t)n), true);
	case EFFECTD_TYPE_TIMESTAMPTZ:
		return host->json_text(node, &s) && effectd_parse_time(s, &n) && (*ret = effectd_timestamptz(n), true);
	default:
		return false;
	}
}

static bool of_property(const struct parameter *p, const struct effectd_message *msg, struct effectd_value *ret)
{
	int64_t n;
	if (p->type == EFFECTD_TYPE_INT8)
		return msg->host->header_int64(msg, p->field.header, &n) && (*ret = effectd_int8(n), true);
	*ret = effectd_text(field_property(&p->field, msg));
	return ret->type != EFFECTD_TYPE_NULL;
}

static bool of_body(const struct parameter *p, const struct effectd_message *msg, struct effectd_value *ret)
{
	*ret = p->type == EFFECTD_TYPE_JSON   ? effectd_body_json()
	       : p->type == EFFECTD_TYPE_TEXT ? effectd_text(effectd_body(msg))
					      : effectd_bytea(effectd_body(msg));
	return true;
}

bool value_of(const struct parameter *p, const struct effectd_message *msg, struct effectd_value *ret,
	      struct reason *why)
{
	int64_t us;
	bool found = false;
	*ret = effectd_null();
	switch (p->field.source) {
	case FIELD_BODY:
		return of_body(p, msg, ret);
	case FIELD_TIMESTAMP:
		found = msg->host->timestamp_us(msg, &us);
		*ret = found ? effectd_timestamptz(us) : *ret;
		break;
	case FIELD_PROPERTY:
	case FIELD_HEADER:
		found = of_property(p, msg, ret);
		break;
	case FIELD_MEMBER: {
		const struct effectd_json *node = field_node(&p->field, msg);
		const effectd_json_kind kind = msg->host->json_kind(node);
		if (kind == EFFECTD_JSON_NULL && p->type != EFFECTD_TYPE_JSON)
			return true;
		if (kind == EFFECTD_JSON_ABSENT)
			break;
		return member(p->type, msg, node, ret) ||
		       because(why, "%s must be %s", p->field.name, kinds[p->type].wanted);
	}
	}
	if (found || p->field.optional)
		return true;
	return because(why, "%s is missing", p->field.name);
}

/* Outbox rows: a payload of chosen fields, each copied from the body as it is written there. */
#include "config.h"

static const char separators[] = " \t\r\n,";

/* NAME=FIELD, or FIELD with the last part of its name. */
static bool parse_member(struct pool *pool, const char *item, size_t len, struct member *ret, struct reason *why)
{
	const char *equals = memchr(item, '=', len);
	const char *name = equals ? equals + 1 : item;
	const size_t name_len = len - (size_t)(name - item);
	if (!field_parse(pool, name, name_len, false, &ret->field, why))
		return false;
	if (ret->field.source == FIELD_TIMESTAMP)
		return because(why, "@timestamp has no form in JSON");
	const char *dot = strrchr(ret->field.name, '.');
	const char *last = dot ? dot + 1 : ret->field.name + (ret->field.name[0] == '@');
	ret->name = equals ? pool_text(pool, item, (size_t)(equals - item)) : last;
	return (ret->name && *ret->name) || because(why, "a name is missing before =");
}

bool outbox_parse(struct pool *pool, const char *option, const char *kind, const char *value, struct outbox *ret,
		  struct reason *why)
{
	*ret = (struct outbox){ .option = option, .kind = kind };
	struct member *members = pool_alloc(pool, (strlen(value) / 2 + 1) * sizeof(*members));
	if (!members)
		return because(why, "out of memory");
	ret->members = members;
	for (const char *p = value + strspn(value, separators); *p; p += strspn(p, separators)) {
		const size_t len = strcspn(p, separators);
		struct member *member = &members[ret->member_count++];
		if (!parse_member(pool, p, len, member, why))
			return false;
		for (const struct member *other = members; other < member; other++)
			if (strcmp(other->name, member->name) == 0)
				return because(why, "two members would be called %s: write other=%s", member->name,
					       member->field.name);
		p += len;
	}
	ret->whole = ret->member_count == 1 && members[0].field.source == FIELD_BODY && strcmp(value, "body") == 0;
	return ret->member_count > 0 || because(why, "there is no field in it");
}

bool outbox_add_payload(const struct outbox *o, const struct effectd_message *msg, struct text *out, struct reason *why)
{
	if (o->whole)
		return field_add_json(&o->members[0].field, msg, out, why);
	for (size_t i = 0; i < o->member_count; i++) {
		const struct effectd_str name = { o->members[i].name, strlen(o->members[i].name) };
		text_add(out, i == 0 ? "{" : ",", 1);
		text_add_json_string(out, name);
		text_add(out, ":", 1);
		if (!field_add_json(&o->members[i].field, msg, out, why))
			return false;
	}
	text_add(out, "}", 1);
	return true;
}

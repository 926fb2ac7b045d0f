/* An instance, and how it is made of options. */
#ifndef SQL_EFFECT_CONFIG_H
#define SQL_EFFECT_CONFIG_H

#include "sql_effect.h"

struct condition {
	const char *option; /* where.event */
	struct field field;
	const char *value;
};

/* One member of an outbox row's payload. */
struct member {
	const char *name;
	struct field field;
};

struct outbox {
	const char *option; /* outbox.send_receipt */
	const char *kind;
	bool whole; /* the payload is the body */
	const struct member *members;
	size_t member_count;
	bool has_key, has_order;
	struct template key, order;
};

struct sql_effect {
	struct pool pool;
	const char **routing_keys;
	size_t routing_key_count;
	struct condition *conditions;
	size_t condition_count;
	struct template key;
	bool has_lock_order, has_event_time;
	struct field lock_order, event_time;
	bool claims;
	struct statement *statements;
	size_t statement_count;
	struct outbox *outbox;
	size_t outbox_count;
	const char *sample; /* NULL: none */
	struct text text;   /* of keys and payloads */
};

void sql_effect_destroy(void *instance);

/* Reads all options. False: what is wrong was said. */
bool config_read(struct sql_effect *self, struct effectd_setup *setup);

/* Compares the statements as they are described with what their fields can give, and the sample's do give. */
bool config_compare(struct sql_effect *self, struct effectd_setup *setup);

/* ---- outbox.c ---- */

/* The row of outbox.KIND, of which option and kind are kept. */
bool outbox_parse(struct pool *pool, const char *option, const char *kind, const char *value, struct outbox *ret,
		  struct reason *why);

/* Behind what is there. */
bool outbox_add_payload(const struct outbox *o, const struct effectd_message *msg, struct text *out,
			struct reason *why);

#endif

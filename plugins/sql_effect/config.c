/* Options, each with its mistakes; what options say together; what an example says of them. Nothing stops at the first
 * mistake: a person mends them all in one go. */
#include "config.h"
#include <stdlib.h>

/* While options are read. */
struct reading {
	struct sql_effect *self;
	struct effectd_setup *setup;
	bool good;
};

static void wrong(struct reading *r, const char *option, const char *text)
{
	r->good = false;
	r->setup->host->setup_problem(r->setup, option, text);
}

/* What stands behind "prefix." of an option's name; NULL: it is another. */
static const char *member_of(const char *option, const char *prefix)
{
	const size_t len = strlen(prefix);
	return strncmp(option, prefix, len) == 0 && option[len] == '.' ? option + len + 1 : NULL;
}

/* A name of the user's own may stand in braces, as in SQL: one that ends in _file must, for the configuration takes
 * where.log_file for where.log with its value in a file. NULL: out of memory. */
static const char *without_braces(struct pool *pool, const char *name)
{
	const size_t len = strlen(name);
	const bool braces = len > 2 && name[0] == '{' && name[len - 1] == '}';
	return pool_text(pool, name + braces, len - 2 * braces);
}

static const char *value_of_option(struct reading *r, const char *option)
{
	return effectd_option_text(r->setup, option);
}

/* The option prefix.rest, if it was given. */
static const char *sibling(struct reading *r, const char *prefix, const char *rest, char *name, size_t size)
{
	snprintf(name, size, "%s.%s", prefix, rest);
	return value_of_option(r, name);
}

/* ---- statements ---- */

struct word {
	const char *text;
	uint32_t value;
};

static const struct word rows_words[] = {
	{ "one", EFFECTD_ONE }, { "some", EFFECTD_SOME },   { "any", EFFECTD_ANY },
	{ "new", EFFECTD_NEW }, { "newer", EFFECTD_NEWER }, { NULL, 0 },
};
static const struct word otherwise_words[] = {
	{ "reject", EFFECTD_OTHERWISE_REJECT },
	{ "retry", EFFECTD_OTHERWISE_RETRY },
	{ NULL, 0 },
};

/* The option's word; the first one is the default. */
static uint32_t read_word(struct reading *r, const char *prefix, const char *number, const struct word *words)
{
	char option[64], text[128] = "must be one of:";
	const char *value = sibling(r, prefix, number, option, sizeof(option));
	for (const struct word *w = words; w->text; w++) {
		if (!value || strcmp(value, w->text) == 0)
			return w->value;
		strcat(strcat(text, " "), w->text);
	}
	wrong(r, option, text);
	return words[0].value;
}

static bool is_number(const char *s)
{
	return s[0] >= '1' && s[0] <= '9' && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 3;
}

static int by_number(const void *a, const void *b)
{
	return atoi(*(const char *const *)a) - atoi(*(const char *const *)b);
}

/* The numbers of sql.N, in their order. */
static size_t list_statements(struct reading *r, const char **numbers)
{
	size_t count = 0;
	const char *option;
	for (size_t i = 0; (option = r->setup->host->option_name(r->setup, i)); i++) {
		const char *number = member_of(option, "sql");
		if (!number)
			continue;
		if (!is_number(number))
			wrong(r, option, "statements are numbered: sql.1, sql.2 ...");
		else if (count == STATEMENTS_MOST)
			wrong(r, option, "there are too many statements");
		else
			numbers[count++] = number;
	}
	qsort(numbers, count, sizeof(*numbers), by_number);
	return count;
}

static void declare(struct reading *r, const char *number, bool first)
{
	struct pool *pool = &r->self->pool;
	struct statement *s = &r->self->statements[r->self->statement_count];
	char option[64], name[64];
	struct reason why;
	const char *sql = sibling(r, "sql", number, option, sizeof(option));
	s->option = pool_text(pool, option, strlen(option));
	const uint32_t rows = read_word(r, "rows", number, rows_words);
	const uint32_t otherwise = read_word(r, "otherwise", number, otherwise_words);
	const bool decides = rows == EFFECTD_NEW || rows == EFFECTD_NEWER;

	if (decides && !first) {
		snprintf(option, sizeof(option), "rows.%s", number);
		wrong(r, option, "only the first statement decides whether a message is new or newer");
	}
	if (first && !r->self->claims && !decides)
		wrong(r, "claim", "without a claim the first statement must decide: rows.1 = new or newer");
	const char *translated = sql ? statement_translate(pool, sql, s, &why) : NULL;
	if (!translated || !s->option) {
		wrong(r, s->option, translated ? "out of memory" : why.text);
		return;
	}
	snprintf(name, sizeof(name), "sql_%s", number);
	const struct effectd_statement statement = { name, translated, rows, otherwise, s->option };
	s->index = r->setup->host->statement(r->setup, &statement);
	r->good &= s->index != UINT32_MAX;
	r->self->statement_count++;
}

/* rows.3 without sql.3 is a slip of the pen. */
static void find_orphans(struct reading *r, const char *prefix, const char *of)
{
	const char *option;
	for (size_t i = 0; (option = r->setup->host->option_name(r->setup, i)); i++) {
		char name[128], text[192];
		const char *rest = member_of(option, prefix);
		if (!rest || sibling(r, of, rest, name, sizeof(name)))
			continue;
		snprintf(text, sizeof(text), "there is no plugin.%s that it could belong to", name);
		wrong(r, option, text);
	}
}

static void read_statements(struct reading *r)
{
	const char *numbers[STATEMENTS_MOST];
	const size_t count = list_statements(r, numbers);
	r->self->statements = pool_alloc(&r->self->pool, (count + 1) * sizeof(struct statement));
	for (size_t i = 0; i < count && r->self->statements; i++)
		declare(r, numbers[i], i == 0);
	if (count == 0 && !r->self->claims)
		wrong(r, "claim", "without a claim the first statement must decide, and there is none");
	find_orphans(r, "rows", "sql");
	find_orphans(r, "otherwise", "sql");
}

/* ---- outbox ---- */

static bool read_outbox_template(struct reading *r, const char *prefix, const char *kind, struct template *ret)
{
	char option[128];
	struct reason why;
	const char *value = sibling(r, prefix, kind, option, sizeof(option));
	if (value && !template_parse(&r->self->pool, value, ret, &why))
		wrong(r, option, why.text);
	return value != NULL;
}

static void read_outbox(struct reading *r)
{
	struct sql_effect *self = r->self;
	const char *option;
	size_t count = 0;
	while (r->setup->host->option_name(r->setup, count))
		count++;
	self->outbox = pool_alloc(&self->pool, (count + 1) * sizeof(struct outbox));
	for (size_t i = 0; self->outbox && (option = r->setup->host->option_name(r->setup, i)); i++) {
		struct outbox *o = &self->outbox[self->outbox_count];
		struct reason why;
		const char *name = member_of(option, "outbox");
		if (!name)
			continue;
		const char *kept = pool_text(&self->pool, option, strlen(option));
		const char *kind = without_braces(&self->pool, name);
		if (!kept || !kind)
			return;
		if (!outbox_parse(&self->pool, kept, kind, value_of_option(r, option), o, &why)) {
			wrong(r, option, why.text);
			continue;
		}
		o->has_key = read_outbox_template(r, "outbox_key", name, &o->key);
		o->has_order = read_outbox_template(r, "outbox_order", name, &o->order);
		if (!o->has_key && !self->claims)
			wrong(r, option, "without a claim it needs a plugin.outbox_key.KIND");
		self->outbox_count++;
	}
	find_orphans(r, "outbox_key", "outbox");
	find_orphans(r, "outbox_order", "outbox");
}

/* ---- key and filter ---- */

static bool read_field(struct reading *r, const char *option, struct field *ret)
{
	struct reason why;
	const char *value = value_of_option(r, option);
	if (!value)
		return false;
	if (!field_parse(&r->self->pool, value, strlen(value), false, ret, &why))
		wrong(r, option, why.text);
	else if (ret->source == FIELD_BODY || ret->optional)
		wrong(r, option, "must be one field that every message has");
	return true;
}

static void read_routing_keys(struct reading *r)
{
	struct sql_effect *self = r->self;
	const char *value = value_of_option(r, "routing_key");
	self->routing_keys = value ? pool_alloc(&self->pool, (strlen(value) + 1) * sizeof(char *)) : NULL;
	for (const char *p = value; p && self->routing_keys && *(p += strspn(p, " \t")); p += strcspn(p, " \t"))
		self->routing_keys[self->routing_key_count++] = pool_text(&self->pool, p, strcspn(p, " \t"));
}

static void read_conditions(struct reading *r)
{
	struct sql_effect *self = r->self;
	const char *option;
	size_t count = 0;
	while (r->setup->host->option_name(r->setup, count))
		count++;
	self->conditions = pool_alloc(&self->pool, (count + 1) * sizeof(struct condition));
	for (size_t i = 0; self->conditions && (option = r->setup->host->option_name(r->setup, i)); i++) {
		struct condition *c = &self->conditions[self->condition_count];
		struct reason why;
		const char *name = member_of(option, "where"), *value = value_of_option(r, option);
		if (!name || !(name = without_braces(&self->pool, name)))
			continue;
		c->option = pool_text(&self->pool, option, strlen(option));
		c->value = pool_text(&self->pool, value, strlen(value));
		if (!field_parse(&self->pool, name, strlen(name), true, &c->field, &why))
			wrong(r, option, why.text);
		self->condition_count++;
	}
}

static void read_key(struct reading *r)
{
	struct reason why;
	const char *key = value_of_option(r, "key");
	if (!template_parse(&r->self->pool, key, &r->self->key, &why))
		wrong(r, "key", why.text);
	r->self->has_lock_order = read_field(r, "lock_order", &r->self->lock_order);
	r->self->has_event_time = read_field(r, "event_time", &r->self->event_time);
}

static void read_claim(struct reading *r)
{
	const char *claim = value_of_option(r, "claim");
	r->self->claims = strcmp(claim, "none") != 0;
	if (!r->self->claims)
		r->setup->host->claim(r->setup, EFFECTD_CLAIM_NONE);
	else if (strcmp(claim, "key") != 0)
		wrong(r, "claim", "must be one of: key none");
}

/* ---- the example ---- */

static bool in_sample(const struct field *f, const struct effectd_message *msg)
{
	return f->source != FIELD_MEMBER || f->optional || field_node(f, msg);
}

static void missing(struct reading *r, const char *option, const struct field *f)
{
	char text[300];
	snprintf(text, sizeof(text), "plugin.sample has no %s", f->name);
	wrong(r, option, text);
}

static void try_template(struct reading *r, const char *option, const struct template *t,
			 const struct effectd_message *msg)
{
	struct reason why;
	bool from_body = true;
	for (const struct piece *p = t->pieces; !p->last; p++) {
		from_body &= p->field.source == FIELD_MEMBER;
		if (!in_sample(&p->field, msg))
			missing(r, option, &p->field);
		from_body &= in_sample(&p->field, msg);
	}
	r->self->text.len = 0;
	if (from_body && !template_add(t, msg, &r->self->text, &why))
		wrong(r, option, why.text);
}

static void try_outbox(struct reading *r, const struct outbox *o, const struct effectd_message *msg)
{
	char option[128];
	for (size_t i = 0; i < o->member_count; i++)
		if (!in_sample(&o->members[i].field, msg))
			missing(r, o->option, &o->members[i].field);
	snprintf(option, sizeof(option), "outbox_key.%s", o->kind);
	if (o->has_key)
		try_template(r, option, &o->key, msg);
	snprintf(option, sizeof(option), "outbox_order.%s", o->kind);
	if (o->has_order)
		try_template(r, option, &o->order, msg);
}

static void try_order_and_time(struct reading *r, const struct effectd_message *msg)
{
	const struct sql_effect *self = r->self;
	struct reason why;
	int64_t n;
	if (self->has_lock_order && self->lock_order.source == FIELD_MEMBER &&
	    !field_order(&self->lock_order, msg, &n, &why))
		wrong(r, "lock_order", why.text);
	if (self->has_event_time && self->event_time.source == FIELD_MEMBER &&
	    !field_time(&self->event_time, msg, &n, &why))
		wrong(r, "event_time", why.text);
}

static const struct effectd_message *sample_of(struct reading *r)
{
	const char *text = r->self->sample;
	if (!text)
		return NULL;
	const struct effectd_str body = { text, strlen(text) };
	return r->setup->host->sample(r->setup, body);
}

/* All but the values of statements, whose types are not known yet. */
static void try_sample(struct reading *r)
{
	const struct sql_effect *self = r->self;
	const struct effectd_message *msg = sample_of(r);
	if (!msg)
		return;
	if (effectd_json_error(msg)) {
		wrong(r, "sample", effectd_json_error(msg));
		return;
	}
	for (size_t i = 0; i < self->condition_count; i++) {
		const struct condition *c = &self->conditions[i];
		if (!in_sample(&c->field, msg))
			missing(r, c->option, &c->field);
		else if (c->field.source == FIELD_MEMBER && !field_is(&c->field, msg, c->value))
			wrong(r, c->option, "plugin.sample would be ignored: its field is another");
	}
	try_template(r, "key", &self->key, msg);
	try_order_and_time(r, msg);
	for (size_t i = 0; i < self->statement_count; i++)
		for (size_t j = 0; j < self->statements[i].count; j++)
			if (!in_sample(&self->statements[i].parameters[j].field, msg))
				missing(r, self->statements[i].option, &self->statements[i].parameters[j].field);
	for (size_t i = 0; i < self->outbox_count; i++)
		try_outbox(r, &self->outbox[i], msg);
}

/* ---- all of it ---- */

bool config_read(struct sql_effect *self, struct effectd_setup *setup)
{
	struct reading r = { self, setup, true };
	const char *sample = value_of_option(&r, "sample");
	self->sample = sample ? pool_text(&self->pool, sample, strlen(sample)) : NULL;
	read_routing_keys(&r);
	read_conditions(&r);
	read_key(&r);
	read_claim(&r);
	read_statements(&r);
	read_outbox(&r);
	if (r.good && self->statement_count == 0 && self->outbox_count == 0)
		wrong(&r, NULL, "there is neither a plugin.sql.1 nor a plugin.outbox.KIND: a message would do nothing");
	if (self->pool.exhausted)
		wrong(&r, NULL, "out of memory");
	if (r.good)
		try_sample(&r);
	return r.good;
}

bool config_compare(struct sql_effect *self, struct effectd_setup *setup)
{
	struct reading r = { self, setup, true };
	const struct effectd_message *msg = sample_of(&r);
	for (size_t i = 0; i < self->statement_count; i++) {
		struct statement *s = &self->statements[i];
		for (size_t j = 0; j < s->count; j++) {
			struct parameter *p = &s->parameters[j];
			struct effectd_value value;
			struct reason why;
			p->type = setup->host->parameter(setup, s->index, (uint32_t)j);
			const bool tries = msg && p->field.source == FIELD_MEMBER;
			if (!value_possible(p, &why) || (tries && !value_of(p, msg, &value, &why)))
				wrong(&r, s->option, why.text);
		}
	}
	return r.good;
}

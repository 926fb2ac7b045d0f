/* Cross checks: what no single value shows. Each reports all it finds; a value that was wrong by itself was reported
 * before, and its default stands in for it here. */
#include "base/text.h"
#include "config/private.h"
#include "config/value.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFETCH_DEFAULT_BATCHES = 3 /* one in work, one that has come, one on its way */, PREFETCH_MAX = 65535 };

#define PROBLEM(key, ...) loader_problem(l, section_place(s, key), s->title, key, __VA_ARGS__)

static const struct section *find_named(const struct loader *l, enum kind_index kind, const char *name)
{
	for (const struct section *s = l->private->sections; s; s = s->next)
		if (s->kind == &config_kinds[kind] && strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

/* --- references --- */

/* The section that is meant without a name: the one named main, or the only one. NULL: reported. */
static const struct section *find_default(struct loader *l, const struct section *s, enum kind_index kind)
{
	const struct section *found = NULL;
	size_t n = 0;
	for (const struct section *other = l->private->sections; other; other = other->next) {
		if (other->kind != &config_kinds[kind])
			continue;
		if (strcmp(other->name, "main") == 0)
			return other;
		found = other;
		n++;
	}
	const char *name = config_kinds[kind].name;
	if (n == 1)
		return found;
	if (n == 0)
		loader_problem(l, s->place, s->title, NULL, "there is no [%s:NAME] for it", name);
	else
		loader_problem(l, s->place, s->title, NULL,
			       "%s is missing: there are %zu sections [%s:NAME], and none is named main", name, n,
			       name);
	return NULL;
}

static void unknown_reference(struct loader *l, const struct section *s, struct config_place place, const char *key,
			      enum kind_index kind, const char *name)
{
	const char *names[64] = { NULL };
	size_t n = 0;
	for (const struct section *other = l->private->sections; other && n < ARRAY_LEN(names) - 1; other = other->next)
		if (other->kind == &config_kinds[kind])
			names[n++] = other->name;
	const char *near = text_nearest(name, names);
	loader_problem(l, place, s->title, key, "there is no section [%s:%s]%s%s%s", config_kinds[kind].name,
		       loader_quote(name, strlen(name)).text, near ? ": did you mean " : "", near ? near : "",
		       near ? "?" : "");
}

/* The values of the section that key names; *name is set to its name. NULL: reported. */
static void *resolve(struct loader *l, const struct section *s, const char *key, enum kind_index kind,
		     const char **name)
{
	if (*name) {
		const struct section *found = find_named(l, kind, *name);
		if (!found)
			unknown_reference(l, s, section_place(s, key), key, kind, *name);
		return found ? found->values : NULL;
	}
	const struct setting *wrong = section_find(s, key);
	const struct section *found = wrong ? NULL : find_default(l, s, kind);
	if (!found)
		return NULL;
	*name = found->name;
	return found->values;
}

/* --- one section --- */

static void check_pair_of_files(struct loader *l, const struct section *s, const char *cert, const char *key)
{
	if (cert && !key)
		PROBLEM("tls_cert_file", "needs tls_key_file");
	if (key && !cert)
		PROBLEM("tls_key_file", "needs tls_cert_file");
}

/* Two passwords, of which nobody could say which one holds. */
static void check_url_password(struct loader *l, const struct section *s, const char *password)
{
	CLEANUP(buffer_finish) struct buffer masked = { 0 };
	const struct setting *url = section_find(s, "url");
	if (password && url && url->value && mask_value(url->key, "url", url->value, &masked))
		PROBLEM("url", "has a password besides the one that is read from a file: leave it out");
}

static void check_broker(struct loader *l, const struct section *s)
{
	const struct config_broker *b = s->values;
	check_url_password(l, s, b->password);
	check_pair_of_files(l, s, b->tls_cert_file, b->tls_key_file);
}

static void check_database(struct loader *l, const struct section *s)
{
	const struct config_database *d = s->values;
	if (d->lock_timeout_ms > d->statement_timeout_ms)
		PROBLEM("lock_timeout", "is longer than statement_timeout, which ends the wait before");
}

static void check_prefetch(struct loader *l, const struct section *s, struct config_consumer *c)
{
	if (!section_find(s, "prefetch")) {
		c->prefetch = PREFETCH_DEFAULT_BATCHES * c->batch_max;
		if (c->prefetch > PREFETCH_MAX)
			c->prefetch = PREFETCH_MAX;
	} else if (c->prefetch != 0 && c->prefetch < c->batch_max) {
		PROBLEM("prefetch", "is below batch_max = %" PRId64 ": no batch could get full", c->batch_max);
	}
}

static void check_consumer(struct loader *l, const struct section *s)
{
	struct config_consumer *c = s->values;
	c->plugin_place = section_place(s, "plugin");
	c->queue_place = section_place(s, "queue");
	if (c->plugin && strchr(c->plugin, '/')) /* a name is looked up in plugin_dir instead */
		c->plugin = file_resolve(l, c->plugin_place.file, c->plugin);
	c->broker = resolve(l, s, "broker", KIND_BROKER, &c->broker_name);
	c->database = resolve(l, s, "database", KIND_DATABASE, &c->database_name);
	check_prefetch(l, s, c);
	if (c->order == ORDER_QUEUE && c->workers != 1)
		PROBLEM("order", "queue needs workers = 1: two workers would overtake each other");
	if (c->stop_on_dead && c->order != ORDER_QUEUE)
		PROBLEM("stop_on_dead", "has a meaning only with order = queue");
	if (c->claims == CLAIMS_DAILY && c->retention_ms < 0)
		PROBLEM("retention", "never does not go with claims = daily: whole days are dropped");
	if (c->claims == CLAIMS_DAILY && c->retention_ms >= 0 && c->retention_ms < INT64_C(24) * 60 * 60 * 1000)
		PROBLEM("retention", "must be at least 1d with claims = daily");
	if (c->retry_max_ms < c->retry_min_ms)
		PROBLEM("retry_max", "is shorter than retry_min");
	if (c->declare != DECLARE_YES && c->queue_args.count > 0)
		loader_problem(l, c->queue_args.list[0].place, s->title, NULL,
			       "queue_arg.%s has a meaning only with declare = yes", c->queue_args.list[0].name);
}

#define HTTP (1U << TARGET_HTTP)
#define AMQP (1U << TARGET_AMQP)
#define SMTP (1U << TARGET_SMTP)

static const struct {
	const char *key; /* a family ends with a dot */
	unsigned types;
} target_only[] = {
	{ "body", HTTP | AMQP },       { "method", HTTP },   { "header.", HTTP },     { "answer.", HTTP },
	{ "bearer_token_file", HTTP }, { "exchange", AMQP }, { "routing_key", AMQP }, { "mail_from", SMTP },
};

static void check_target_url(struct loader *l, const struct section *s, const struct config_target *t)
{
	static const char *const schemes[] = { [TARGET_HTTP] = "http", [TARGET_AMQP] = "amqp", [TARGET_SMTP] = "smtp" };
	const char *scheme = schemes[t->type];
	const size_t len = strlen(scheme);
	if (strncmp(t->url, scheme, len) != 0 || strncmp(t->url + len + (t->url[len] == 's'), "://", 3) != 0)
		PROBLEM("url", "must be %s:// or %ss:// with type = %s", scheme, scheme, scheme);
}

/* What only one type has is unset with the others. */
static void default_target(struct config_target *t)
{
	if (t->type == TARGET_HTTP && !t->method)
		t->method = "POST";
	if (t->type == TARGET_AMQP && !t->exchange)
		t->exchange = "";
	if (t->type == TARGET_AMQP && !t->routing_key)
		t->routing_key = "";
}

static void check_answers(struct loader *l, const struct section *s, const struct config_target *t)
{
	for (size_t i = 0; i < t->answers.count; i++) {
		const struct config_pair *answer = &t->answers.list[i];
		int64_t status;
		if (!text_parse_int(answer->name, &status) || status < 200 || status > 599)
			loader_problem(l, answer->place, s->title, NULL,
				       "answer.%s: a status is a number from 200 to 599",
				       loader_quote(answer->name, strlen(answer->name)).text);
	}
}

static void check_target(struct loader *l, const struct section *s)
{
	struct config_target *t = s->values;
	check_pair_of_files(l, s, t->tls_cert_file, t->tls_key_file);
	check_url_password(l, s, t->password);
	default_target(t);
	if (!section_find(s, "type"))
		return;
	if (t->url)
		check_target_url(l, s, t);
	for (const struct setting *setting = s->settings; setting; setting = setting->next)
		for (size_t i = 0; i < ARRAY_LEN(target_only); i++)
			if (strcmp(target_only[i].key, setting->key->name) == 0 &&
			    !(target_only[i].types & (1U << t->type)))
				loader_problem(l, setting->place, s->title, setting->name,
					       "has no meaning with this type");
	check_answers(l, s, t);
	if (t->type == TARGET_AMQP && !*t->exchange && !*t->routing_key)
		loader_problem(l, s->place, s->title, NULL, "exchange or routing_key is missing");
	if (t->type == TARGET_SMTP && !section_find(s, "mail_from"))
		loader_problem(l, s->place, s->title, NULL, "mail_from is missing");
}

static void check_relay(struct loader *l, const struct section *s)
{
	struct config_relay *r = s->values;
	r->database = resolve(l, s, "database", KIND_DATABASE, &r->database_name);
	if (r->retry_max_ms < r->retry_min_ms)
		PROBLEM("retry_max", "is shorter than retry_min");
	for (size_t i = 0; i < r->kinds.count; i++) {
		const struct config_pair *kind = &r->kinds.list[i];
		const struct section *target = find_named(l, KIND_TARGET, kind->value);
		char key[160];
		snprintf(key, sizeof(key), "kind.%s", kind->name);
		if (!target)
			unknown_reference(l, s, kind->place, key, KIND_TARGET, kind->value);
		else if (((const struct config_target *)target->values)->timeout_ms >= r->lease_ms)
			PROBLEM("lease", "must be longer than the timeout of [%s]: a slow call would be made twice",
				target->title);
	}
}

/* --- all of them --- */

static bool same_broker(const struct config_broker *a, const struct config_broker *b)
{
	return a && b && (a == b || (a->url && b->url && strcmp(a->url, b->url) == 0));
}

/* Two consumers of one queue would each get a part of its messages. */
static void check_queues(struct loader *l)
{
	const struct config *c = l->config;
	for (size_t i = 0; i < c->consumer_count; i++) {
		const struct config_consumer *mine = &c->consumers[i];
		for (size_t j = 0; mine->queue && j < i; j++) {
			const struct config_consumer *other = &c->consumers[j];
			if (!other->queue || strcmp(mine->queue, other->queue) != 0 ||
			    !same_broker(mine->broker, other->broker))
				continue;
			const struct section *s = find_named(l, KIND_CONSUMER, mine->name);
			PROBLEM("queue",
				"[consumer:%s] has the same queue: each message would reach only one of the two",
				other->name);
			break;
		}
	}
}

/* What params.c of core/run gives each session to hold: two batches, and one body above them. */
static void check_memory(struct loader *l)
{
	const struct config *c = l->config;
	char need[32], max[32];
	int64_t bytes = 0;
	for (size_t i = 0; i < c->consumer_count; i++)
		bytes += c->consumers[i].workers * (2 * c->consumers[i].batch_bytes + c->consumers[i].max_body_bytes);
	if (bytes <= c->process.memory_max_bytes)
		return;
	const struct config_key mib = { .type = KEY_SIZE };
	value_format(&mib, (bytes + (1 << 20) - 1) >> 20 << 20, need, sizeof(need));
	value_format(&mib, c->process.memory_max_bytes, max, sizeof(max));
	struct config_place place = c->consumers[0].place; /* where nobody wrote memory_max or [effectd] */
	for (const struct section *s = l->private->sections; s; s = s->next)
		if (s->kind == &config_kinds[KIND_PROCESS] && section_place(s, "memory_max").file)
			place = section_place(s, "memory_max");
	loader_problem(
		l, place, "effectd", "memory_max",
		"is %s, but the consumers may hold %s (workers x (2 x batch_bytes + max_body) of each): raise it, "
		"or lower those",
		max, need);
}

void check_all(struct loader *l)
{
	static void (*const checks[KIND_COUNT])(struct loader *, const struct section *) = {
		[KIND_BROKER] = check_broker, [KIND_DATABASE] = check_database, [KIND_CONSUMER] = check_consumer,
		[KIND_TARGET] = check_target, [KIND_RELAY] = check_relay,
	};
	for (const struct section *s = l->private->sections; s; s = s->next)
		if (checks[s->kind - config_kinds])
			checks[s->kind - config_kinds](l, s);
	check_queues(l);
	check_memory(l);
}

/* scripted - a plugin that does what the message says, so that a test can make any message do anything.
 *
 * The body is a JSON object. All of it is optional but the key:
 *
 *	"key"         names the effect; a text header `key` of any bytes outweighs it
 *	"key_verdict" what key() answers instead: ignore, retry, reject, broken
 *	"lock_order"  a whole number
 *	"event_time"  of the key, as JSON has times, or "now", which no plugin may do; "event_second" in seconds since
 *	              1970
 *	"do"          statements, in order: [["name", argument...], ...]; without it: [["effect"]]
 *	"verdict"     what apply() answers: ok, ignore, retry, reject, broken, and nonsense, which does not exist
 *	"say"         the sentence behind the verdict
 *	"sleep_ms"    apply() takes that long
 *	"die"         apply() ends the process: kill, segv, recurse, abort, exit, exit0; its thread: thread_exit; or
 *	              hangs: loop
 *	"key_die"     the same in key()
 *	"die_once"    kill, while the file of that name can be removed
 *	"die_while"   kill, while there is a file of that name
 *	"early"       the statements are queued before the verdict is given, whatever it is
 *
 * Arguments are texts and whole numbers, as the statement wants them. ["see", header...] writes down the properties and
 * those headers, as the plugin sees them; ["outbox"] adds an outbox row of the body. Built with -DBATCH it has an
 *apply_batch that means the same. */
#include <effectd/plugin.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EFFECT, EFFECTS, SEEN };

static const struct effectd_statement statements[] = {
	/* The effect that tests count: no key keeps it from being there twice. */
	[EFFECT] = { "effect", "INSERT INTO effects (consumer, key) VALUES ($1, $2)", EFFECTD_ONE },
	[EFFECTS] = { "effects", "INSERT INTO effects (consumer, key) SELECT $1, unnest($2::text[])", EFFECTD_EACH },

	[SEEN] = { "seen", "INSERT INTO seen (name, value) VALUES ($1, $2)", EFFECTD_ONE },

	/* Any SQL that a test can think of, in a function that runs it. */
	{ "run", "SELECT run($1::text)", EFFECTD_ANY },
	{ "run_retry", "SELECT run($1::text)", EFFECTD_ANY, EFFECTD_OTHERWISE_RETRY },
	{ "cast", "SELECT $1::text::numeric", EFFECTD_ANY },
	{ "body", "INSERT INTO bodies (body) VALUES ($1::jsonb)", EFFECTD_ONE },

	/* Row counts: as many rows of `things` as have the name. */
	{ "one", "UPDATE things SET touched = touched + 1 WHERE name = $1", EFFECTD_ONE },
	{ "one_retry", "UPDATE things SET touched = touched + 1 WHERE name = $1", EFFECTD_ONE,
	  EFFECTD_OTHERWISE_RETRY },
	{ "some", "UPDATE things SET touched = touched + 1 WHERE name = $1", EFFECTD_SOME },
	{ "any", "UPDATE things SET touched = touched + 1 WHERE name = $1", EFFECTD_ANY },
	{ "each", "UPDATE things SET touched = touched + 1 WHERE name = $1", EFFECTD_EACH },
	{ "add", "UPDATE things SET touched = touched + $2 WHERE name = $1", EFFECTD_ONE },

	/* Those that decide. */
	{ "new", "INSERT INTO natural_keys (key) VALUES ($1) ON CONFLICT (key) DO NOTHING", EFFECTD_NEW },
	{ "newer",
	  "INSERT INTO versions AS v (name, version) VALUES ($1, $2) "
	  "ON CONFLICT (name) DO UPDATE SET version = excluded.version WHERE v.version < excluded.version",
	  EFFECTD_NEWER },
};

enum { STATEMENT_COUNT = sizeof(statements) / sizeof(statements[0]), ARGUMENTS_MAX = 4, BATCH_MAX = 1000 };

struct scripted {
	const char *consumer;
	char memory[64];
};

static bool scripted_configure(struct effectd_setup *setup, void **ret_instance)
{
	struct scripted *self = calloc(1, sizeof(*self));
	if (!self)
		return false;
	snprintf(self->memory, sizeof(self->memory), "%s", setup->host->consumer(setup));
	self->consumer = self->memory;
	const char *claim = effectd_option_text(setup, "claim");
	if (claim && strcmp(claim, "none") == 0)
		setup->host->claim(setup, EFFECTD_CLAIM_NONE);
	*ret_instance = self;
	return true;
}

static effectd_verdict verdict_of(struct effectd_call *call, const struct effectd_message *msg, const char *member)
{
	static const struct {
		const char *name;
		effectd_verdict verdict;
	} verdicts[] = {
		{ "ok", EFFECTD_OK },         { "ignore", EFFECTD_IGNORE }, { "retry", EFFECTD_RETRY },
		{ "reject", EFFECTD_REJECT }, { "broken", EFFECTD_BROKEN }, { "nonsense", 99 },
	};
	struct effectd_str name, words;
	if (!effectd_json_text(msg, member, &name))
		return EFFECTD_OK;
	if (effectd_json_text(msg, "say", &words)) {
		char text[1004];
		snprintf(text, sizeof(text), "%.*s", (int)words.len, words.data);
		call->host->say(call, text);
	}
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (effectd_str_equals(name, verdicts[i].name))
			return verdicts[i].verdict;
	return effectd_broken(call, "the script has no verdict %.*s", (int)name.len, name.data);
}

static struct effectd_str key_of(const struct effectd_message *msg)
{
	struct effectd_str key = effectd_header(msg, "key");
	if (!key.data)
		(void)effectd_json_text(msg, "key", &key);
	return key;
}

/* Until the stack ends. */
static size_t recurse(struct effectd_str how)
{
	char some[4096];
	snprintf(some, sizeof(some), "%.*s", (int)how.len, how.data);
	return how.len == 0 ? 0 : recurse((struct effectd_str){ some, how.len }) + (size_t)some[0];
}

static void die(struct effectd_str how)
{
	if (effectd_str_equals(how, "kill"))
		kill(getpid(), SIGKILL);
	if (effectd_str_equals(how, "exit"))
		exit(3);
	if (effectd_str_equals(how, "exit0"))
		exit(0);
	if (effectd_str_equals(how, "segv"))
		raise(SIGSEGV);
	if (effectd_str_equals(how, "recurse"))
		recurse(how);
	if (effectd_str_equals(how, "thread_exit"))
		pthread_exit(NULL);
	if (effectd_str_equals(how, "abort"))
		abort();
	if (effectd_str_equals(how, "loop"))
		for (volatile bool forever = true; forever;)
			;
}

static effectd_verdict scripted_key(struct effectd_call *call, const struct effectd_message *msg,
				    struct effectd_key *key)
{
	struct effectd_str how;
	if (effectd_json_text(msg, "key_die", &how))
		die(how);
	const effectd_verdict verdict = verdict_of(call, msg, "key_verdict");
	if (verdict != EFFECTD_OK)
		return verdict;
	(void)effectd_json_int64(msg, "lock_order", &key->lock_order);
	int64_t second;
	struct effectd_str event_time;
	if (effectd_json_int64(msg, "event_second", &second)) {
		key->has_event_time = true;
		key->event_time_us = second * 1000000;
	} else if (effectd_json_text(msg, "event_time", &event_time) && effectd_str_equals(event_time, "now")) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		key->has_event_time = true;
		key->event_time_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
	} else if (effectd_json_text(msg, "event_time", &event_time)) {
		key->has_event_time = effectd_json_time(msg, "event_time", &key->event_time_us);
	}
	const struct effectd_str text = key_of(msg);
	if (!text.data && effectd_json_error(msg))
		return effectd_reject(call, "there is no key");
	return effectd_key_bytes(key, text); /* without one: an empty key */
}

static void see_number(struct effectd_call *call, const char *name, int64_t number)
{
	char digits[24];
	const int len = snprintf(digits, sizeof(digits), "%" PRId64, number);
	effectd_exec(call, SEEN, effectd_cstr(name), effectd_bytea((struct effectd_str){ digits, (size_t)len }));
}

static void see_header(struct effectd_call *call, const struct effectd_message *msg, const char *name)
{
	int64_t number;
	if (call->host->header_int64(msg, name, &number))
		see_number(call, name, number);
	else
		effectd_exec(call, SEEN, effectd_cstr(name), effectd_bytea(effectd_header(msg, name)));
}

/* All that the message says besides its body: each property, absent ones as NULL, and the headers named by words. */
static void see(struct effectd_call *call, const struct effectd_message *msg, const struct effectd_json *words)
{
	static const char *const properties[] = {
		[EFFECTD_ROUTING_KEY] = "routing_key",   [EFFECTD_EXCHANGE] = "exchange",
		[EFFECTD_CONTENT_TYPE] = "content_type", [EFFECTD_CONTENT_ENCODING] = "content_encoding",
		[EFFECTD_MESSAGE_ID] = "message_id",     [EFFECTD_CORRELATION_ID] = "correlation_id",
		[EFFECTD_MESSAGE_TYPE] = "type",         [EFFECTD_APP_ID] = "app_id",
	};
	const struct effectd_host *host = call->host;
	int64_t us;
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
		if (properties[i])
			effectd_exec(call, SEEN, effectd_cstr(properties[i]),
				     effectd_bytea(host->property(msg, (effectd_property)i)));
	if (host->timestamp_us(msg, &us))
		see_number(call, "timestamp_us", us);
	for (size_t i = 1; i < host->json_size(words); i++) {
		struct effectd_str name = { "", 0 };
		char text[64];
		host->json_text(host->json_element(words, i), &name);
		snprintf(text, sizeof(text), "%.*s", (int)name.len, name.data);
		see_header(call, msg, text);
	}
}

/* One step of the script: its statement by name, its arguments by their JSON kinds. */
static effectd_verdict step(struct effectd_call *call, const struct effectd_message *msg,
			    const struct effectd_json *words)
{
	const struct effectd_host *host = call->host;
	const struct scripted *self = call->instance;
	struct effectd_value values[ARGUMENTS_MAX];
	struct effectd_str name = { NULL, 0 }, text;
	int64_t number;
	size_t count = 0;

	host->json_text(host->json_element(words, 0), &name);
	if (effectd_str_equals(name, "effect")) {
		effectd_exec(call, EFFECT, effectd_cstr(self->consumer), effectd_text(key_of(msg)));
		return EFFECTD_OK;
	}
	if (effectd_str_equals(name, "outbox")) {
		effectd_outbox(call, "test", effectd_body(msg));
		return EFFECTD_OK;
	}
	if (effectd_str_equals(name, "see")) {
		see(call, msg, words);
		return EFFECTD_OK;
	}
	if (effectd_str_equals(name, "body"))
		values[count++] = effectd_body_json();
	for (size_t i = 1; i < host->json_size(words) && count < ARGUMENTS_MAX; i++) {
		const struct effectd_json *word = host->json_element(words, i);
		if (host->json_int64(word, &number))
			values[count++] = effectd_int8(number);
		else if (host->json_text(word, &text))
			values[count++] = effectd_text(text);
		else
			values[count++] = effectd_null();
	}
	for (uint32_t i = 0; i < STATEMENT_COUNT; i++) {
		if (effectd_str_equals(name, statements[i].name)) {
			host->exec(call, i, values, count);
			return EFFECTD_OK;
		}
	}
	return effectd_broken(call, "the script has no statement %.*s", (int)name.len, name.data ? name.data : "");
}

/* What happens besides statements. */
static void happen(const struct effectd_message *msg)
{
	struct effectd_str text;
	int64_t ms;

	if (effectd_json_int64(msg, "sleep_ms", &ms)) {
		struct timespec left = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000) };
		nanosleep(&left, NULL);
	}
	if (effectd_json_text(msg, "die", &text))
		die(text);
	char path[512];
	if (effectd_json_text(msg, "die_once", &text)) {
		snprintf(path, sizeof(path), "%.*s", (int)text.len, text.data);
		if (unlink(path) == 0)
			kill(getpid(), SIGKILL);
	}
	if (effectd_json_text(msg, "die_while", &text)) {
		snprintf(path, sizeof(path), "%.*s", (int)text.len, text.data);
		if (access(path, F_OK) == 0)
			kill(getpid(), SIGKILL);
	}
}

/* All that the message queues. */
static effectd_verdict queue(struct effectd_call *call, const struct effectd_message *msg)
{
	const struct effectd_host *host = call->host;
	const struct scripted *self = call->instance;
	const struct effectd_json *list = host->json_member(host->json(msg), "do");
	effectd_verdict verdict = EFFECTD_OK;

	if (!list)
		effectd_exec(call, EFFECT, effectd_cstr(self->consumer), effectd_text(key_of(msg)));
	for (size_t i = 0; i < host->json_size(list) && verdict == EFFECTD_OK; i++)
		verdict = step(call, msg, host->json_element(list, i));
	return verdict;
}

static effectd_verdict scripted_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	bool early = false;

	happen(msg);
	const effectd_verdict verdict = verdict_of(call, msg, "verdict");
	(void)effectd_json_bool(msg, "early", &early);
	if (verdict != EFFECTD_OK && !early)
		return verdict;
	const effectd_verdict queued = queue(call, msg);
	return queued != EFFECTD_OK ? queued : verdict;
}

#ifdef BATCH
/* Effects go together where no message has a script, else one by one. */
static effectd_verdict scripted_apply_batch(struct effectd_call *call, const struct effectd_message *const *msgs,
					    size_t count)
{
	const struct effectd_host *host = call->host;
	const struct scripted *self = call->instance;
	struct effectd_str keys[BATCH_MAX];
	bool scripts = false;

	if (count > BATCH_MAX)
		return effectd_broken(call, "the batch has %zu messages", count);
	for (size_t i = 0; i < count; i++) {
		happen(msgs[i]);
		const effectd_verdict verdict = verdict_of(call, msgs[i], "verdict");
		if (verdict != EFFECTD_OK)
			return verdict;
		keys[i] = key_of(msgs[i]);
		scripts |= host->json_member(host->json(msgs[i]), "do") != NULL;
	}
	if (!scripts)
		effectd_exec(call, EFFECTS, effectd_cstr(self->consumer), effectd_text_array(keys, count));
	for (size_t i = 0; i < count && scripts; i++) {
		const effectd_verdict verdict = queue(call, msgs[i]);
		if (verdict != EFFECTD_OK)
			return verdict;
	}
	return EFFECTD_OK;
}
#endif

static const struct effectd_option options[] = {
	{ .name = "claim", .type = EFFECTD_OPTION_TEXT, .help = "none: a statement decides instead" },
};

EFFECTD_PLUGIN(.version = "1.0", .description = "does what the message says", EFFECTD_STATEMENTS(statements),
	       EFFECTD_OPTIONS(options), .configure = scripted_configure, .destroy = free, .key = scripted_key,
#ifdef BATCH
	       .apply_batch = scripted_apply_batch,
#endif
	       .apply = scripted_apply);

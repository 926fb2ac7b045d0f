/* effectd/plugin.h - write an effect plugin for effectd.
 *
 * A plugin is one shared object with one exported function, written by EFFECTD_PLUGIN at the end of a file:
 *
 *	EFFECTD_PLUGIN(.consumer = "loyalty", .version = "1.0", EFFECTD_STATEMENTS(statements),
 *	               .key = loyalty_key, .apply = loyalty_apply);
 *
 * For each message effectd calls key(), which names the effect; claims (consumer, key) in a transaction; and, if nobody
 * claimed it before, calls apply(), which queues the plugin's own prepared statements in that same transaction. effectd
 * reads their results, checks the row counts that the statement table declares, commits, and only then acknowledges.
 *
 * Ownership   Whatever effectd passes in dies when the call returns. Whatever a plugin passes in is copied before the
 *             call of effectd returns; sample() alone says otherwise. Nothing crosses to be freed by the other side.
 *             What the descriptor points to is static: effectd keeps it, and never unloads a plugin.
 * Threading   An instance serves one worker. Its functions are never called concurrently, but configure() and
 *             destroy() may run in another thread than the rest: keep nothing in thread-local variables. Instances
 *             of one plugin run in parallel: keep no mutable globals.
 * Time        The transaction is open while apply() runs and heartbeats wait: compute little, call nobody outside.
 *             An effect outside the database is an outbox row (effectd_outbox).
 * Errors      A plugin answers with a verdict and a text. Never exit(), abort(), longjmp() or throw across the call.
 *             Code may run more than once for a message; its committed effect is there once. A function of effectd
 *             that finds nothing says so: false, NULL, absent data. What a plugin does wrong sticks to the call and
 *             outweighs the verdict that it returns.
 * Texts       char pointers are UTF-8 and end with a NUL, in both directions; struct effectd_str does not, and holds
 *             any bytes unless more is said. NULL where a text is needed is a mistake of the plugin, and no crash.
 * Units       Times are microseconds since 1970-01-01 00:00 UTC (_us), sizes are bytes, unless a name says otherwise.
 * Linking     A plugin links to nothing of effectd: all that it calls is reached through the `host` table of its
 *             arguments. Compile with -fvisibility=hidden -shared -fPIC; C11, C++17 or anything with a C ABI.
 *
 * ABI         A plugin records the version it was built with. effectd loads it when the major is its own and the minor
 *             is not newer; then all that its own header declares is there. Within a major nothing here moves, goes or
 *             changes its meaning. Structs that one side hands to the other by pointer grow at their ends only, and
 *             their sizes tell how much of them the other side knows: a plugin sets members of what effectd made, and
 *             never assigns it as a whole. struct effectd_str and struct effectd_value travel in arrays and by value,
 *             so they stay as they are. docs/plugin-guide.md has the policy.
 *
 * Changes
 *   1.0  2026-12-01  the first version that is promised
 */
#ifndef EFFECTD_PLUGIN_H
#define EFFECTD_PLUGIN_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EFFECTD_ABI_MAJOR 1
#define EFFECTD_ABI_MINOR 0

#define EFFECTD_KEY_MAX 512 /* bytes of a key, at most */

#if defined(__GNUC__)
#define EFFECTD_EXPORT          __attribute__((visibility("default")))
#define EFFECTD_PRINTF(fmt, at) __attribute__((format(printf, fmt, at)))
#else
#define EFFECTD_EXPORT
#define EFFECTD_PRINTF(fmt, at)
#endif

/* ---- what a plugin answers ------------------------------------------------------------------------------------- */

typedef int32_t effectd_verdict;
enum {
	EFFECTD_OK = 0,     /* key: the key is set; apply: the effect is queued */
	EFFECTD_IGNORE = 1, /* not for us: acknowledge, leave no claim */
	EFFECTD_RETRY = 2,  /* not now: park, try again later with backoff */
	EFFECTD_REJECT = 3, /* never: this message is wrong; park it for a person */
	EFFECTD_BROKEN = 4, /* the plugin itself cannot work: stop this consumer, keep its queue */
};

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Text or bytes of a known length; data is NULL when absent. No NUL follows it. */
struct effectd_str {
	const char *data;
	size_t len;
};

typedef uint32_t effectd_type;
enum {
	EFFECTD_TYPE_NULL = 0,  /* fits every parameter */
	EFFECTD_TYPE_BOOL = 1,  /* bool */
	EFFECTD_TYPE_INT2 = 2,  /* smallint */
	EFFECTD_TYPE_INT4 = 3,  /* integer */
	EFFECTD_TYPE_INT8 = 4,  /* bigint */
	EFFECTD_TYPE_TEXT = 5,  /* text, varchar, char(n), and types that have no value here (uuid, enums, inet ...) */
	EFFECTD_TYPE_BYTEA = 6, /* bytea */
	EFFECTD_TYPE_NUMERIC = 7,      /* numeric, as decimal text: exact */
	EFFECTD_TYPE_JSON = 8,         /* json, jsonb, as text */
	EFFECTD_TYPE_DATE = 9,         /* date, as days since 1970-01-01 */
	EFFECTD_TYPE_TIMESTAMPTZ = 10, /* timestamptz, as microseconds since 1970 */
	EFFECTD_TYPE_BODY = 11,        /* json, jsonb: the message's body as it came, numbers exact */
	EFFECTD_TYPE_OTHER = 12,    /* no value: what parameter() says of types that take TEXT for want of their own */
	EFFECTD_TYPE_ARRAY = 0x100, /* or-ed to BOOL .. TIMESTAMPTZ: a one-dimensional array of it */
};

/* A statement's argument. Made by the functions below; types are compared with what PostgreSQL says of the statement (a
 * domain counts as the type below it), nothing is converted, a mismatch is EFFECTD_BROKEN. A time outside PostgreSQL's
 * range, or a NUL byte in a value other than bytea, is the message's fault: EFFECTD_REJECT, or PostgreSQL's error. */
struct effectd_value {
	effectd_type type;
	uint32_t reserved; /* 0 */
	union {
		int64_t number;   /* BOOL, INT*, DATE, TIMESTAMPTZ */
		const void *data; /* TEXT, BYTEA, NUMERIC, JSON: bytes; arrays: the elements */
	} as;
	size_t len; /* of data: bytes, or elements of an array */
};

/* ---- the host table: all that a plugin can call ---------------------------------------------------------------- */

struct effectd_host;
struct effectd_json; /* a node of a parsed body; lives as long as its message */

/* One call of apply(), key() or apply_batch(). What is queued in it goes with the verdict: nothing of it is sent unless
 * that is EFFECTD_OK. */
struct effectd_call {
	const struct effectd_host *host;
	void *instance; /* what configure() set; NULL without */
};

/* A message. Lives until the call returns. */
struct effectd_message {
	const struct effectd_host *host;
};

/* While configure() or described() runs. */
struct effectd_setup {
	const struct effectd_host *host;
};

/* What key() fills; effectd hands it over with nothing set. Text of 1 to EFFECTD_KEY_MAX bytes, UTF-8 without NUL, else
 * the message is parked; never an id that the broker or a publisher's retry makes anew: two deliveries of one event
 * must give the same key, two events never the same. effectd_key_format() and effectd_key_bytes() set it. */
struct effectd_key {
	const struct effectd_host *host;
	size_t len;         /* bytes of text; more than EFFECTD_KEY_MAX: it did not fit */
	int64_t lock_order; /* messages of a batch are applied in this order, then by key: give the id of the row that
			       effects of different messages share (the customer), and batches never deadlock on it */
	bool has_event_time;
	int64_t event_time_us; /* the producer's time of the event: a pure function of the message */
	char text[EFFECTD_KEY_MAX + 1];
};

/* An effect outside the database, performed by a relay after the commit, at least once, always with the same
 * idempotency key. */
struct effectd_outbox_row {
	size_t size;                        /* sizeof(struct effectd_outbox_row) */
	const char *kind;                   /* chooses the target: kind.NAME = TARGET in the relay's section */
	struct effectd_str payload;         /* JSON */
	struct effectd_str headers;         /* a JSON object, or absent */
	struct effectd_str ordering_key;    /* rows of one key go one after another; absent: no order */
	struct effectd_str idempotency_key; /* absent: consumer/message_key/ordinal; needed where there is no claim;
					       unique among all rows that are kept */
};

typedef uint32_t effectd_property;
enum {
	EFFECTD_BODY = 0,
	EFFECTD_ROUTING_KEY = 1,
	EFFECTD_EXCHANGE = 2,
	EFFECTD_CONTENT_TYPE = 3,
	EFFECTD_CONTENT_ENCODING = 4,
	EFFECTD_MESSAGE_ID = 5,
	EFFECTD_CORRELATION_ID = 6,
	EFFECTD_MESSAGE_TYPE = 7,
	EFFECTD_APP_ID = 8,
};

typedef uint32_t effectd_json_kind;
enum {
	EFFECTD_JSON_ABSENT = 0,
	EFFECTD_JSON_NULL = 1,
	EFFECTD_JSON_BOOL = 2,
	EFFECTD_JSON_INTEGER = 3,
	EFFECTD_JSON_REAL = 4,
	EFFECTD_JSON_STRING = 5,
	EFFECTD_JSON_OBJECT = 6,
	EFFECTD_JSON_ARRAY = 7,
};

/* What configure() may add to the plugin's static declarations. */
typedef uint32_t effectd_claim;
enum {
	EFFECTD_CLAIM_KEY = 0,  /* effectd claims (consumer, key) */
	EFFECTD_CLAIM_NONE = 1, /* a NEW or NEWER statement of the plugin decides instead: first of every message */
};

struct effectd_statement;

struct effectd_host {
	uint32_t abi_major, abi_minor;
	size_t size; /* of this table, as the host knows it */

	/* Messages. What is returned lives as long as the message. */

	/* absent: the message has no such property; body, routing key and exchange are always there, maybe empty */
	struct effectd_str (*property)(const struct effectd_message *msg, effectd_property which);
	/* a header of text or bytes; absent: there is none of that name, or it is something else */
	struct effectd_str (*header)(const struct effectd_message *msg, const char *name);
	/* a header with a whole number, a bool (0, 1) or a time (in seconds since 1970) */
	bool (*header_int64)(const struct effectd_message *msg, const char *name, int64_t *ret);
	bool (*timestamp_us)(const struct effectd_message *msg, int64_t *ret); /* the AMQP property: whole seconds */
	bool (*redelivered)(const struct effectd_message *msg); /* by the broker's word: proves nothing either way */
	uint32_t (*attempt)(const struct effectd_message *msg); /* from 1; retries count, redeliveries do not */

	/* The body as JSON, parsed at the first question, once. Duplicate keys, more than 128 levels and integers
	 * beyond 64 bits are no JSON here. A node lives as long as its message; NULL, as a node, is absent, and all of
	 * these take it. */

	const struct effectd_json *(*json)(const struct effectd_message *msg); /* NULL: the body is none */
	const char *(*json_error)(const struct effectd_message *msg);          /* why; NULL: it is some */
	const struct effectd_json *(*json_member)(const struct effectd_json *object, const char *name); /* NULL: none */
	const struct effectd_json *(*json_element)(const struct effectd_json *array, size_t index);     /* NULL: none */
	size_t (*json_size)(const struct effectd_json *node); /* members, elements; 0 of all else */
	effectd_json_kind (*json_kind)(const struct effectd_json *node);
	bool (*json_int64)(const struct effectd_json *node, int64_t *ret); /* whole numbers; false for 12.0 */
	bool (*json_bool)(const struct effectd_json *node, bool *ret);
	bool (*json_text)(const struct effectd_json *node, struct effectd_str *ret); /* UTF-8, maybe with NULs */
	/* a node of the message's body as it is written there: 12.50, 1e3, { "a": 1 }, strings with quotes and escapes;
	 * absent for what is no node of it */
	struct effectd_str (*json_source)(const struct effectd_message *msg, const struct effectd_json *node);

	/* Calls. Mistakes in what is queued, a failed statement or a row count that does not fit decide the message's
	 * fate, whatever the plugin returns. */

	/* the sentence behind the verdict; the last one stays, cut at 1,000 bytes. It goes into logs: no secrets */
	void (*say)(struct effectd_call *call, const char *text);
	/* queues a statement, by its index; at most 64 values, as many as it has parameters */
	void (*exec)(struct effectd_call *call, uint32_t statement, const struct effectd_value *values, size_t count);
	void (*outbox)(struct effectd_call *call, const struct effectd_outbox_row *row); /* not in apply_batch() */
	void (*log)(struct effectd_call *call, const char *text); /* one line at level info; no secrets */

	/* configure() and described(). Names of options are without plugin. in front. */

	const char *(*option)(const struct effectd_setup *setup, const char *name); /* NULL: none, no default */
	/* INT, DURATION (ms), SIZE (bytes), BOOL (0, 1); 0: none, no default */
	int64_t (*option_int64)(const struct effectd_setup *setup, const char *name);
	/* the names of the settings that are there, for families; NULL behind the last */
	const char *(*option_name)(const struct effectd_setup *setup, size_t index);
	const char *(*consumer)(const struct effectd_setup *setup); /* the section's name */
	/* configure() only: one more statement; its index, behind those of the table */
	uint32_t (*statement)(struct effectd_setup *setup, const struct effectd_statement *statement);
	void (*claim)(struct effectd_setup *setup, effectd_claim mode); /* configure() only */
	/* described() only: the type of a statement's parameter, from 0; NULL when there are not so many */
	effectd_type (*parameter)(const struct effectd_setup *setup, uint32_t statement, uint32_t index);
	/* a message with this body and nothing else, to try one's own functions on; the body is not copied; lives until
	 * the next one or until the call returns */
	const struct effectd_message *(*sample)(struct effectd_setup *setup, struct effectd_str body);
	/* what is wrong, shown with the file and line of the option; NULL: of none. As often as there is something: the
	 * instance is refused whatever is returned */
	void (*setup_problem)(struct effectd_setup *setup, const char *option, const char *text);
};

/* ---- what a plugin declares ------------------------------------------------------------------------------------ */

typedef uint32_t effectd_rows;
enum {
	EFFECTD_ANY = 0,   /* any number of rows */
	EFFECTD_ONE = 1,   /* exactly one */
	EFFECTD_SOME = 2,  /* one or more */
	EFFECTD_EACH = 3,  /* as many as the call has messages: one in apply(), n in apply_batch() */
	EFFECTD_NEW = 4,   /* decides: one or more = new; none = the message is a duplicate */
	EFFECTD_NEWER = 5, /* decides: one or more = newer; none = the message is stale */
};
/* A statement that decides must have no other reason for touching no row, and must be the first that a message queues;
 * a plugin has one for a message at the most. When it decides "no", nothing else of the message stays. */

typedef uint32_t effectd_otherwise;
enum {
	EFFECTD_OTHERWISE_REJECT = 0, /* another number of rows: the message is wrong */
	EFFECTD_OTHERWISE_RETRY = 1,  /* another number of rows, or a missing foreign row (23503): try again later */
};

/* Prepared and described when a worker connects, so a wrong one is found at start. Begins with SELECT, INSERT, UPDATE,
 * DELETE, MERGE, WITH or VALUES. Tables of the plugin are unqualified. */
struct effectd_statement {
	const char *name;
	const char *sql;
	effectd_rows rows;
	effectd_otherwise otherwise;
	const char *option; /* the option that it was written in, where mistakes are shown; NULL: none */
};

typedef uint32_t effectd_option_type;
enum {
	EFFECTD_OPTION_TEXT = 0,
	EFFECTD_OPTION_INT = 1,
	EFFECTD_OPTION_BOOL = 2,     /* yes, no */
	EFFECTD_OPTION_DURATION = 3, /* 250ms 30s 5min 12h 30d */
	EFFECTD_OPTION_SIZE = 4,     /* 512 64KiB 1MiB */
};

/* plugin.NAME = VALUE in the consumer's section. */
struct effectd_option {
	const char *name; /* a trailing * takes every name that begins so */
	effectd_option_type type;
	uint32_t required;
	const char *fallback; /* the default, as written in an INI file; NULL: none */
	int64_t min, max;     /* of INT, DURATION (ms), SIZE (bytes), both allowed; both 0: no bounds */
	const char *help;     /* one line */
};

struct effectd_plugin {
	uint32_t abi_major, abi_minor;
	uint32_t size, statement_size, option_size; /* of the structs, as the plugin was built: strides of the tables */
	uint32_t statement_count, option_count;
	const struct effectd_statement *statements;
	const struct effectd_option *options;

	const char *consumer;    /* the consumer that this plugin is; NULL: serves any section that names it */
	const char *version;     /* the plugin's own, or NULL */
	const char *description; /* one line, or NULL */

	/* Both optional. One instance a worker, and one more where settings are checked; false: say why with
	 * effectd_setup_fail(). destroy() is called once for each configure() that returned true, as the last one. */
	bool (*configure)(struct effectd_setup *setup, void **ret_instance);
	void (*destroy)(void *instance);

	/* Names the effect. Called outside any transaction, also for duplicates; must not queue anything. */
	effectd_verdict (*key)(struct effectd_call *call, const struct effectd_message *msg, struct effectd_key *key);

	/* Queues the effect of one message. */
	effectd_verdict (*apply)(struct effectd_call *call, const struct effectd_message *msg);

	/* Optional: the same effects for many messages at once, only faster. Anything but OK, a failed statement or a
	 * row count that does not fit makes effectd try halves; a single message always goes through apply(). Without
	 * statements that decide (EACH does that here), the body as a value, and outbox rows: those belong to one
	 * message. */
	effectd_verdict (*apply_batch)(struct effectd_call *call, const struct effectd_message *const *msgs,
				       size_t count);

	/* Optional. Called on each new session, when PostgreSQL has described the statements and before any message:
	 * for a plugin that chooses its values by the types of parameters. False, or a problem: the consumer does not
	 * run until that is mended. */
	bool (*described)(struct effectd_setup *setup, void *instance);
};

/* The one exported symbol. */
#define EFFECTD_ENTRY_SYMBOL "effectd_plugin_entry"
typedef const struct effectd_plugin *effectd_entry_function(void);

#ifndef __cplusplus
#define EFFECTD_STATEMENTS(table) \
	.statement_count = (uint32_t)(sizeof(table) / sizeof((table)[0])), .statements = (table)
#define EFFECTD_OPTIONS(table) .option_count = (uint32_t)(sizeof(table) / sizeof((table)[0])), .options = (table)
#define EFFECTD_PLUGIN(...)                                                                                           \
	EFFECTD_EXPORT const struct effectd_plugin *effectd_plugin_entry(void);                                       \
	const struct effectd_plugin *effectd_plugin_entry(void)                                                       \
	{                                                                                                             \
		static const struct effectd_plugin plugin = { .abi_major = EFFECTD_ABI_MAJOR,                         \
							      .abi_minor = EFFECTD_ABI_MINOR,                         \
							      .size = (uint32_t)sizeof(struct effectd_plugin),        \
							      .statement_size =                                       \
								      (uint32_t)sizeof(struct effectd_statement),     \
							      .option_size = (uint32_t)sizeof(struct effectd_option), \
							      __VA_ARGS__ };                                          \
		return &plugin;                                                                                       \
	}                                                                                                             \
	_Static_assert(1, "a semicolon follows")
#endif

#ifdef __cplusplus
}
#endif

/* ---- the same in a plugin's own words: inline, nothing to link ------------------------------------------------- */

#if defined(__GNUC__)
#define EFFECTD_INLINE static inline __attribute__((unused))
#else
#define EFFECTD_INLINE static inline
#endif

EFFECTD_INLINE struct effectd_str effectd_body(const struct effectd_message *msg)
{
	return msg->host->property(msg, EFFECTD_BODY);
}

EFFECTD_INLINE struct effectd_str effectd_routing_key(const struct effectd_message *msg)
{
	return msg->host->property(msg, EFFECTD_ROUTING_KEY);
}

EFFECTD_INLINE struct effectd_str effectd_content_type(const struct effectd_message *msg)
{
	return msg->host->property(msg, EFFECTD_CONTENT_TYPE);
}

EFFECTD_INLINE struct effectd_str effectd_message_id(const struct effectd_message *msg)
{
	return msg->host->property(msg, EFFECTD_MESSAGE_ID);
}

EFFECTD_INLINE struct effectd_str effectd_header(const struct effectd_message *msg, const char *name)
{
	return msg->host->header(msg, name);
}

/* Members of the body's top-level object. False: no such member, or of another kind, or the body is no such JSON. */
EFFECTD_INLINE bool effectd_json_int64(const struct effectd_message *msg, const char *name, int64_t *ret)
{
	return msg->host->json_int64(msg->host->json_member(msg->host->json(msg), name), ret);
}

EFFECTD_INLINE bool effectd_json_text(const struct effectd_message *msg, const char *name, struct effectd_str *ret)
{
	return msg->host->json_text(msg->host->json_member(msg->host->json(msg), name), ret);
}

EFFECTD_INLINE bool effectd_json_bool(const struct effectd_message *msg, const char *name, bool *ret)
{
	return msg->host->json_bool(msg->host->json_member(msg->host->json(msg), name), ret);
}

/* A number as it is written, for effectd_numeric(): whole or with a fraction, with every digit. */
EFFECTD_INLINE bool effectd_json_numeric(const struct effectd_message *msg, const char *name, struct effectd_str *ret)
{
	const struct effectd_json *node = msg->host->json_member(msg->host->json(msg), name);
	const effectd_json_kind kind = msg->host->json_kind(node);
	if (kind != EFFECTD_JSON_INTEGER && kind != EFFECTD_JSON_REAL)
		return false;
	*ret = msg->host->json_source(msg, node);
	return true;
}

/* Why the body is no JSON that effectd takes; NULL: it is some. */
EFFECTD_INLINE const char *effectd_json_error(const struct effectd_message *msg)
{
	return msg->host->json_error(msg);
}

EFFECTD_INLINE bool effectd_str_equals(struct effectd_str s, const char *text)
{
	return s.data && s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* ---- time ---- */

EFFECTD_INLINE bool effectd_digits_(struct effectd_str s, size_t at, size_t count, int *ret)
{
	if (s.len < at + count)
		return false;
	*ret = 0;
	for (size_t i = at; i < at + count; i++) {
		if (s.data[i] < '0' || s.data[i] > '9')
			return false;
		*ret = *ret * 10 + (s.data[i] - '0');
	}
	return true;
}

/* An RFC 3339 time ("2026-11-30T12:00:00Z", "2026-11-30t13:00:00.25+01:00") as microseconds since 1970-01-01 00:00 UTC;
 * digits behind the microsecond are cut, a leap second is the second after it. False: it is anything else. */
EFFECTD_INLINE bool effectd_parse_time(struct effectd_str s, int64_t *ret_us)
{
	static const int month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int year, month, day, hour, minute, second, zone_hour = 0, zone_minute = 0;

	if (!effectd_digits_(s, 0, 4, &year) || !effectd_digits_(s, 5, 2, &month) || !effectd_digits_(s, 8, 2, &day) ||
	    !effectd_digits_(s, 11, 2, &hour) || !effectd_digits_(s, 14, 2, &minute) ||
	    !effectd_digits_(s, 17, 2, &second) || s.data[4] != '-' || s.data[7] != '-' || (s.data[10] | 32) != 't' ||
	    s.data[13] != ':' || s.data[16] != ':')
		return false;
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1] + (month == 2 && leap ? 1 : 0) ||
	    hour > 23 || minute > 59 || second > 60)
		return false;

	size_t at = 19;
	int64_t fraction = 0;
	if (at < s.len && s.data[at] == '.') {
		int64_t unit = 100000;
		int digit;
		if (!effectd_digits_(s, ++at, 1, &digit))
			return false;
		for (; effectd_digits_(s, at, 1, &digit); at++, unit /= 10)
			fraction += digit * unit;
	}

	int zone_sign = 1;
	if (at + 1 == s.len) {
		if ((s.data[at] | 32) != 'z')
			return false;
	} else {
		if (at + 6 != s.len || (s.data[at] != '+' && s.data[at] != '-') || s.data[at + 3] != ':' ||
		    !effectd_digits_(s, at + 1, 2, &zone_hour) || !effectd_digits_(s, at + 4, 2, &zone_minute) ||
		    zone_hour > 23 || zone_minute > 59)
			return false;
		zone_sign = s.data[at] == '-' ? -1 : 1;
	}

	/* Days by a year that begins in March, so that the leap day is its last. */
	int64_t y = year - (month <= 2 ? 1 : 0) + 400; /* above 0; 400 years are 146,097 days */
	int64_t days = y * 365 + y / 4 - y / 100 + y / 400 + (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int64_t seconds = ((days - 719468 - 146097) * 24 + hour) * 3600 + minute * 60 + second;
	seconds -= zone_sign * (zone_hour * 3600 + zone_minute * 60);
	*ret_us = seconds * 1000000 + fraction;
	return true;
}

/* The same of a text member of the body: the producer's event time, for a key's event_time_us. */
EFFECTD_INLINE bool effectd_json_time(const struct effectd_message *msg, const char *name, int64_t *ret_us)
{
	struct effectd_str s;
	return effectd_json_text(msg, name, &s) && effectd_parse_time(s, ret_us);
}

/* ---- values: called as PostgreSQL calls its types, so the digits count bytes: effectd_int8() is a bigint ---- */

EFFECTD_INLINE struct effectd_value effectd_number_(effectd_type type, int64_t number)
{
	struct effectd_value v;
	memset(&v, 0, sizeof(v));
	v.type = type;
	v.as.number = number;
	return v;
}

EFFECTD_INLINE struct effectd_value effectd_data_(effectd_type type, const void *data, size_t len)
{
	struct effectd_value v;
	memset(&v, 0, sizeof(v));
	v.type = data || type == EFFECTD_TYPE_BODY || (type & EFFECTD_TYPE_ARRAY) ? type
										  : (effectd_type)EFFECTD_TYPE_NULL;
	v.as.data = data;
	v.len = len;
	return v;
}

EFFECTD_INLINE struct effectd_value effectd_null(void)
{
	return effectd_number_(EFFECTD_TYPE_NULL, 0);
}
EFFECTD_INLINE struct effectd_value effectd_bool(bool b)
{
	return effectd_number_(EFFECTD_TYPE_BOOL, b);
}
EFFECTD_INLINE struct effectd_value effectd_int2(int16_t n)
{
	return effectd_number_(EFFECTD_TYPE_INT2, n);
}
EFFECTD_INLINE struct effectd_value effectd_int4(int32_t n)
{
	return effectd_number_(EFFECTD_TYPE_INT4, n);
}
EFFECTD_INLINE struct effectd_value effectd_int8(int64_t n)
{
	return effectd_number_(EFFECTD_TYPE_INT8, n);
}
EFFECTD_INLINE struct effectd_value effectd_date(int32_t days)
{
	return effectd_number_(EFFECTD_TYPE_DATE, days);
}
EFFECTD_INLINE struct effectd_value effectd_timestamptz(int64_t us)
{
	return effectd_number_(EFFECTD_TYPE_TIMESTAMPTZ, us);
}

/* Absent text (data NULL) is SQL NULL. */
EFFECTD_INLINE struct effectd_value effectd_text(struct effectd_str s)
{
	return effectd_data_(EFFECTD_TYPE_TEXT, s.data, s.len);
}
EFFECTD_INLINE struct effectd_value effectd_bytea(struct effectd_str s)
{
	return effectd_data_(EFFECTD_TYPE_BYTEA, s.data, s.len);
}
EFFECTD_INLINE struct effectd_value effectd_numeric(struct effectd_str s)
{
	return effectd_data_(EFFECTD_TYPE_NUMERIC, s.data, s.len);
}
EFFECTD_INLINE struct effectd_value effectd_jsonb(struct effectd_str s)
{
	return effectd_data_(EFFECTD_TYPE_JSON, s.data, s.len);
}
EFFECTD_INLINE struct effectd_value effectd_cstr(const char *s)
{
	return effectd_data_(EFFECTD_TYPE_TEXT, s, s ? strlen(s) : 0);
}

/* The body as it came, for json or jsonb. Only where the call has one message (apply). */
EFFECTD_INLINE struct effectd_value effectd_body_json(void)
{
	return effectd_data_(EFFECTD_TYPE_BODY, NULL, 0);
}

/* Arrays: n elements of plain C. A string element whose data is NULL is SQL NULL. */
EFFECTD_INLINE struct effectd_value effectd_bool_array(const bool *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_BOOL, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_int2_array(const int16_t *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT2, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_int4_array(const int32_t *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT4, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_int8_array(const int64_t *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_INT8, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_date_array(const int32_t *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_DATE, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_timestamptz_array(const int64_t *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TIMESTAMPTZ, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_text_array(const struct effectd_str *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_TEXT, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_bytea_array(const struct effectd_str *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_BYTEA, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_numeric_array(const struct effectd_str *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_NUMERIC, v, n);
}
EFFECTD_INLINE struct effectd_value effectd_jsonb_array(const struct effectd_str *v, size_t n)
{
	return effectd_data_(EFFECTD_TYPE_ARRAY | EFFECTD_TYPE_JSON, v, n);
}

/* ---- keys, verdicts, statements, outbox ---- */

/* A key by printf's rules; too long a one is never cut, the message is parked. Returns EFFECTD_OK. */
EFFECTD_INLINE effectd_verdict effectd_key_format(struct effectd_key *key, const char *fmt, ...) EFFECTD_PRINTF(2, 3);
EFFECTD_INLINE effectd_verdict effectd_key_format(struct effectd_key *key, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(key->text, sizeof(key->text), fmt, ap);
	va_end(ap);
	key->len = n < 0 ? 0 : (size_t)n;
	return EFFECTD_OK;
}

/* A key of given bytes; too long a one as above. Returns EFFECTD_OK. */
EFFECTD_INLINE effectd_verdict effectd_key_bytes(struct effectd_key *key, struct effectd_str s)
{
	key->len = s.len;
	if (s.len <= EFFECTD_KEY_MAX && s.len > 0)
		memcpy(key->text, s.data, s.len);
	return EFFECTD_OK;
}

EFFECTD_INLINE effectd_verdict effectd_verdict_text_(struct effectd_call *call, effectd_verdict verdict,
						     const char *fmt, va_list ap) EFFECTD_PRINTF(3, 0);
EFFECTD_INLINE effectd_verdict effectd_verdict_text_(struct effectd_call *call, effectd_verdict verdict,
						     const char *fmt, va_list ap)
{
	char text[1004]; /* longer than what is kept, so that the host cuts it between characters */
	vsnprintf(text, sizeof(text), fmt, ap);
	call->host->say(call, text);
	return verdict;
}

/* A verdict and its sentence by printf's rules, cut at 1,000 bytes: return effectd_reject(call, "..."). It is stored
 * beside the message and goes into logs: say what is wrong, do not quote the message. */
EFFECTD_INLINE effectd_verdict effectd_ignore(struct effectd_call *call, const char *fmt, ...) EFFECTD_PRINTF(2, 3);
EFFECTD_INLINE effectd_verdict effectd_retry(struct effectd_call *call, const char *fmt, ...) EFFECTD_PRINTF(2, 3);
EFFECTD_INLINE effectd_verdict effectd_reject(struct effectd_call *call, const char *fmt, ...) EFFECTD_PRINTF(2, 3);
EFFECTD_INLINE effectd_verdict effectd_broken(struct effectd_call *call, const char *fmt, ...) EFFECTD_PRINTF(2, 3);

#define EFFECTD_VERDICT_(name, verdict)                                                      \
	EFFECTD_INLINE effectd_verdict name(struct effectd_call *call, const char *fmt, ...) \
	{                                                                                    \
		va_list ap;                                                                  \
		va_start(ap, fmt);                                                           \
		effectd_verdict v = effectd_verdict_text_(call, verdict, fmt, ap);           \
		va_end(ap);                                                                  \
		return v;                                                                    \
	}
EFFECTD_VERDICT_(effectd_ignore, EFFECTD_IGNORE)
EFFECTD_VERDICT_(effectd_retry, EFFECTD_RETRY)
EFFECTD_VERDICT_(effectd_reject, EFFECTD_REJECT)
EFFECTD_VERDICT_(effectd_broken, EFFECTD_BROKEN)
#undef EFFECTD_VERDICT_

/* Queues a statement with values of which there are as many as a list has. */
EFFECTD_INLINE void effectd_exec_values(struct effectd_call *call, uint32_t statement,
					const struct effectd_value *values, size_t count)
{
	call->host->exec(call, statement, values, count);
}

/* effectd_exec(call, STATEMENT, values...): queues a statement. It returns nothing: what goes wrong with it, now or
 * when PostgreSQL answers, decides the message's fate whatever the plugin returns. */
#ifndef __cplusplus
#define effectd_exec(call, ...)                                                                             \
	effectd_exec_values(                                                                                \
		(call), EFFECTD_FIRST_(__VA_ARGS__, 0), EFFECTD_BEHIND_FIRST_(__VA_ARGS__, effectd_null()), \
		sizeof(EFFECTD_BEHIND_FIRST_(__VA_ARGS__, effectd_null())) / sizeof(struct effectd_value) - 1)
/* C11 wants at least one argument for the dots: one more stands at the end and is not counted. */
#define EFFECTD_FIRST_(first, ...)        (first)
#define EFFECTD_BEHIND_FIRST_(first, ...) ((const struct effectd_value[]){ __VA_ARGS__ })
#else
template <typename... Values> inline void effectd_exec(struct effectd_call *call, uint32_t statement, Values... values)
{
	const struct effectd_value list[] = { values... };
	effectd_exec_values(call, statement, list, sizeof...(values));
}
inline void effectd_exec(struct effectd_call *call, uint32_t statement)
{
	effectd_exec_values(call, statement, nullptr, 0);
}
#endif

/* Queues an outbox row with JSON as its payload. Only where the call has one message (apply). */
EFFECTD_INLINE void effectd_outbox(struct effectd_call *call, const char *kind, struct effectd_str payload)
{
	struct effectd_outbox_row row;
	memset(&row, 0, sizeof(row));
	row.size = sizeof(row);
	row.kind = kind;
	row.payload = payload;
	call->host->outbox(call, &row);
}

/* In configure(): an option of the plugin's table, checked, or its default. INT, DURATION (ms), SIZE (bytes), BOOL. */
EFFECTD_INLINE int64_t effectd_option_int64(const struct effectd_setup *setup, const char *name)
{
	return setup->host->option_int64(setup, name);
}

/* The same as text; NULL: not set, and no default. Dies when configure() returns. */
EFFECTD_INLINE const char *effectd_option_text(const struct effectd_setup *setup, const char *name)
{
	return setup->host->option(setup, name);
}

/* Why configure() or described() returns false. */
EFFECTD_INLINE void effectd_setup_fail(struct effectd_setup *setup, const char *text)
{
	setup->host->setup_problem(setup, NULL, text);
}

#ifdef __cplusplus
/* C++17 has no designated initializers: a constexpr function fills the descriptor, before any code runs. Tables are
 * static constexpr.
 *
 *	EFFECTD_PLUGIN_CXX(p.consumer = "loyalty"; p.version = "1.0"; p.key = key; p.apply = apply;
 *	                   effectd_declare_statements(p, statements);); */
template <size_t N> constexpr void effectd_declare_statements(effectd_plugin &p, const effectd_statement (&table)[N])
{
	p.statements = table;
	p.statement_count = N;
}
template <size_t N> constexpr void effectd_declare_options(effectd_plugin &p, const effectd_option (&table)[N])
{
	p.options = table;
	p.option_count = N;
}
#define EFFECTD_PLUGIN_CXX(...)                                                           \
	extern "C" EFFECTD_EXPORT const struct effectd_plugin *effectd_plugin_entry(void) \
	{                                                                                 \
		static constexpr effectd_plugin plugin = [] {                             \
			effectd_plugin p = {};                                            \
			p.abi_major = EFFECTD_ABI_MAJOR;                                  \
			p.abi_minor = EFFECTD_ABI_MINOR;                                  \
			p.size = sizeof(effectd_plugin);                                  \
			p.statement_size = sizeof(effectd_statement);                     \
			p.option_size = sizeof(effectd_option);                           \
			__VA_ARGS__                                                       \
			return p;                                                         \
		}();                                                                      \
		return &plugin;                                                           \
	}                                                                                 \
	static_assert(true, "a semicolon follows")
#endif

#endif

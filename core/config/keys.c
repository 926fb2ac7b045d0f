/* One line a key, in the order in which samples and the reference page show them. */
#include "config/keys.h"
#include "base/log.h"
#include "config/value.h"
#include <string.h>

#define KIB  INT64_C(1024)
#define MIB  (1024 * KIB)
#define GIB  (1024 * MIB)
#define SEC  INT64_C(1000)
#define MIN  (60 * SEC)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

static const char *const log_levels[] = {
	[LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARNING] = "warning", [LOG_ERROR] = "error", NULL,
};
static const char *const log_formats[] = { [LOG_LOGFMT] = "logfmt", [LOG_JSON] = "json", NULL };
static const char *const isolations[] = {
	[ISOLATION_READ_COMMITTED] = "read committed",
	[ISOLATION_REPEATABLE_READ] = "repeatable read",
	[ISOLATION_SERIALIZABLE] = "serializable",
	NULL,
};
static const char *const declares[] = {
	[DECLARE_NO] = "no", [DECLARE_PASSIVE] = "passive", [DECLARE_YES] = "yes", NULL
};
static const char *const queue_types[] = { "quorum", "classic", NULL };
static const char *const orders[] = { [ORDER_NONE] = "none", [ORDER_QUEUE] = "queue", NULL };
static const char *const claims[] = { [CLAIMS_TABLE] = "table", [CLAIMS_DAILY] = "daily", NULL };
static const char *const target_types[] = {
	[TARGET_HTTP] = "http",
	[TARGET_AMQP] = "amqp",
	[TARGET_SMTP] = "smtp",
	NULL,
};
static const char *const bodies[] = { [BODY_PAYLOAD] = "payload", [BODY_ENVELOPE] = "envelope", NULL };
static const char *const methods[] = { "POST", "PUT", "PATCH", NULL };

const char config_shipped_plugin_dir[] = EFFECTD_PLUGIN_DIR;

#define AT(field) .offset = offsetof(struct config_process, field)
static const struct config_key process_keys[] = {
	{ "plugin_dir", KEY_PATH, AT(plugin_dir), .fallback = config_shipped_plugin_dir, .reload = RELOAD_CONSUMER,
	  .help = "Where plugins are looked up that are named without a directory. The default is the folder of the "
		  "shipped ones: lib/effectd/plugins below the prefix that effectd was built for." },
	{ "include", KEY_INCLUDE, .sample = "conf.d/*.ini", .reload = RELOAD_LIVE,
	  .help = "More files, by a path or a pattern, relative to this file. They are read after this file, in byte "
		  "order of their names; what is set later wins." },
	{ "log_level", KEY_CHOICE, AT(log_level), .words = log_levels, .fallback = "info", .reload = RELOAD_LIVE,
	  .help = "The least level that is logged." },
	{ "log_format", KEY_CHOICE, AT(log_format), .words = log_formats, .fallback = "logfmt", .reload = RELOAD_LIVE,
	  .help = "How a log line is written." },
	{ "http_listen", KEY_TEXT, KEY_MAY_BE_EMPTY, AT(http_listen), .fallback = "127.0.0.1:9464",
	  .check = value_check_listen, .reload = RELOAD_PROCESS,
	  .help = "Address and port of metrics and health; empty: off. There is no password: keep it local." },
	{ "runtime_dir", KEY_PATH, AT(runtime_dir), .fallback = "/run/effectd", .reload = RELOAD_PROCESS,
	  .help = "For the pid file and the control socket." },
	{ "drain_timeout", KEY_DURATION, AT(drain_timeout_ms), .fallback = "25s", .max = 10 * MIN,
	  .reload = RELOAD_LIVE,
	  .help = "How long a stop may take; what is unfinished then is rolled back and goes back to its queue. Keep "
		  "it "
		  "below the service manager's own limit." },
	{ "watchdog", KEY_DURATION, AT(watchdog_ms), .fallback = "60s", .min = SEC, .max = HOUR,
	  .reload = RELOAD_CONSUMER,
	  .help = "How long one call into a plugin may take before the process is ended. A session may idle in its "
		  "transaction a little longer than this." },
	{ "memory_max", KEY_SIZE, AT(memory_max_bytes), .fallback = "512MiB", .min = 32 * MIB, .max = 1024 * GIB,
	  .reload = RELOAD_LIVE,
	  .help = "What all workers together may hold in deliveries: workers x (2 x batch_bytes + max_body) of all "
		  "consumers must fit." },
	{ "summary_interval", KEY_DURATION, AT(summary_interval_ms), .fallback = "60s", .max = DAY,
	  .reload = RELOAD_LIVE,
	  .help = "How often each consumer's deliveries and outcomes are logged; 0: only at the end." },
};
#undef AT

#define AT(field)      .offset = offsetof(struct config_broker, field)
#define CONTENT(field) .content = offsetof(struct config_broker, field)
static const struct config_key broker_keys[] = {
	{ "url", KEY_TEXT, KEY_REQUIRED | KEY_FROM_FILE, AT(url), .sample = "amqp://effectd@127.0.0.1:5672/%2f",
	  .check = value_check_amqp_url, .mask = MASK_URL, .reload = RELOAD_CONSUMER,
	  .help = "amqp:// or amqps://USER@HOST:PORT/VHOST; %2f is the virtual host /." },
	{ "password_file", KEY_SECRET_FILE, AT(password_file), CONTENT(password),
	  .sample = "/etc/effectd/broker.password", .reload = RELOAD_CONSUMER,
	  .help = "A file with nothing but the password, mode 0600 or stricter." },
	{ "password_credential", KEY_CREDENTIAL, AT(password_credential), CONTENT(password),
	  .sample = "broker-password", .reload = RELOAD_CONSUMER,
	  .help = "The same by the name of a systemd credential (LoadCredential=)." },
	{ "heartbeat", KEY_DURATION, AT(heartbeat_ms), .fallback = "30s", .min = SEC, .max = 10 * MIN,
	  .reload = RELOAD_CONSUMER,
	  .help = "A broker that is silent for about twice this is taken for lost. A plugin that computes longer loses "
		  "its connection. A consumer that gets nothing for so long asks whether messages are ready." },
	{ "tls_ca_file", KEY_PATH, AT(tls_ca_file), .sample = "/etc/effectd/ca.pem", .reload = RELOAD_CONSUMER,
	  .help = "Certificates that may sign the broker's (PEM); without it the system's." },
	{ "tls_cert_file", KEY_PATH, AT(tls_cert_file), .sample = "/etc/effectd/client.pem", .reload = RELOAD_CONSUMER,
	  .help = "Our own certificate (PEM), where the broker asks for one; with tls_key_file." },
	{ "tls_key_file", KEY_PATH, AT(tls_key_file), .sample = "/etc/effectd/client.key", .reload = RELOAD_CONSUMER,
	  .help = "The key of tls_cert_file (PEM)." },
	{ "tls_verify", KEY_BOOL, AT(tls_verify), .fallback = "yes", .reload = RELOAD_CONSUMER,
	  .help = "Checks the broker's certificate and name. Without it anyone in between can read and answer." },
	{ "management_url", KEY_TEXT, KEY_FROM_FILE, AT(management_url), .sample = "http://127.0.0.1:15672",
	  .check = value_check_http_url, .mask = MASK_URL, .reload = RELOAD_LIVE,
	  .help = "The broker's management interface, which `check --live` asks for arguments and policies of queues; "
		  "as "
		  "the user of url unless it names one. https:// takes the tls_ keys of this section." },
};
#undef AT
#undef CONTENT

#define AT(field)      .offset = offsetof(struct config_database, field)
#define CONTENT(field) .content = offsetof(struct config_database, field)
static const struct config_key database_keys[] = {
	{ "conninfo", KEY_TEXT, KEY_REQUIRED | KEY_FROM_FILE, AT(conninfo),
	  .sample = "host=/run/postgresql dbname=shop", .mask = MASK_CONNINFO, .reload = RELOAD_CONSUMER,
	  .help = "libpq's KEY=VALUE pairs, or a postgresql:// URL. Direct, or behind a pooler in session mode." },
	{ "password_file", KEY_SECRET_FILE, AT(password_file), CONTENT(password),
	  .sample = "/etc/effectd/database.password", .reload = RELOAD_CONSUMER,
	  .help = "A file with nothing but the password, mode 0600 or stricter." },
	{ "password_credential", KEY_CREDENTIAL, AT(password_credential), CONTENT(password),
	  .sample = "database-password", .reload = RELOAD_CONSUMER,
	  .help = "The same by the name of a systemd credential (LoadCredential=)." },
	{ "owner_conninfo", KEY_TEXT, KEY_FROM_FILE, AT(owner_conninfo), .computed = "conninfo",
	  .sample = "host=/run/postgresql dbname=shop user=effectd_owner", .mask = MASK_CONNINFO,
	  .reload = RELOAD_CONSUMER,
	  .help = "How `migrate` and the upkeep of daily claims connect: the role that owns the schema effectd." },
	{ "statement_timeout", KEY_DURATION, AT(statement_timeout_ms), .fallback = "30s", .min = 100, .max = HOUR,
	  .reload = RELOAD_CONSUMER, .help = "The longest that one statement may run." },
	{ "lock_timeout", KEY_DURATION, AT(lock_timeout_ms), .fallback = "10s", .min = 10, .max = HOUR,
	  .reload = RELOAD_CONSUMER,
	  .help = "The longest that one statement may wait for a lock; at most statement_timeout." },
	{ "isolation", KEY_CHOICE, AT(isolation), .words = isolations, .fallback = "read committed",
	  .reload = RELOAD_CONSUMER,
	  .help = "Of the transactions. What the stricter ones refuse (40001) is tried again; batches get smaller." },
	{ "allow_unsafe_durability", KEY_BOOL, AT(allow_unsafe_durability), .fallback = "no", .reload = RELOAD_CONSUMER,
	  .help = "Work on a server with fsync, full_page_writes or synchronous_commit = off, which can lose what was "
		  "acknowledged. For experiments only." },
	{ "retention_interval", KEY_DURATION, AT(retention_interval_ms), .fallback = "5min", .min = SEC, .max = DAY,
	  .reload = RELOAD_CONSUMER,
	  .help = "How often claims that are older than their consumer's window are deleted, and days of claims made "
		  "and dropped." },
	{ "retention_batch", KEY_INT, AT(retention_batch), .fallback = "50000", .min = 100, .max = 1000000,
	  .reload = RELOAD_CONSUMER, .help = "Claims that are deleted in one transaction." },
	{ "retention_pause", KEY_DURATION, AT(retention_pause_ms), .fallback = "200ms", .min = 0, .max = MIN,
	  .reload = RELOAD_CONSUMER,
	  .help = "Between two such transactions; never shorter than twice what the one before took." },
};
#undef AT
#undef CONTENT

#define AT(field) .offset = offsetof(struct config_consumer, field)
static const struct config_key consumer_keys[] = {
	{ "plugin", KEY_TEXT, KEY_REQUIRED, AT(plugin), .sample = "loyalty_points.so", .reload = RELOAD_CONSUMER,
	  .help = "The plugin's file: a name in plugin_dir, or a path. A plugin that declares a consumer fits only in "
		  "the "
		  "section of that name." },
	{ "queue", KEY_TEXT, KEY_REQUIRED, AT(queue), .sample = "loyalty.order-completed", .check = value_check_short,
	  .reload = RELOAD_CONSUMER, .help = "The queue that is consumed." },
	{ "broker", KEY_TEXT, AT(broker_name), .computed = "main, or the only one", .sample = "main",
	  .reload = RELOAD_CONSUMER, .help = "The [broker:NAME] that has the queue." },
	{ "database", KEY_TEXT, AT(database_name), .computed = "main, or the only one", .sample = "main",
	  .reload = RELOAD_CONSUMER, .help = "The [database:NAME] that gets claims and effects." },
	{ "workers", KEY_INT, AT(workers), .fallback = "1", .min = 1, .max = 64, .reload = RELOAD_CONSUMER,
	  .help = "Threads, each with a connection to the broker and one to the database." },
	{ "declare", KEY_CHOICE, AT(declare), .words = declares, .fallback = "no", .reload = RELOAD_CONSUMER,
	  .help = "no: the queue is somebody else's; passive: it must exist; yes: it is made, durable, with queue_type "
		  "and "
		  "queue_arg.NAME." },
	{ "queue_type", KEY_WORD, AT(queue_type), .words = queue_types, .fallback = "quorum", .reload = RELOAD_CONSUMER,
	  .help = "x-queue-type for declare = yes." },
	{ "queue_arg.", KEY_FAMILY, KEY_MAY_BE_EMPTY, AT(queue_args), .sample = "queue_arg.x-delivery-limit = 50",
	  .reload = RELOAD_CONSUMER,
	  .help = "An argument for declare = yes. Whole numbers and true, false are sent as such, all else as text." },
	{ "bind.", KEY_FAMILY, AT(binds), .sample = "bind.1 = orders:order.completed", .check = value_check_bind,
	  .reload = RELOAD_CONSUMER,
	  .help = "EXCHANGE:ROUTING_KEY that the queue is bound to at start; the last colon parts them." },
	{ "batch_max", KEY_INT, AT(batch_max), .fallback = "100", .min = 1, .max = 1000, .reload = RELOAD_CONSUMER,
	  .help = "Messages that may share a transaction. A batch is what has already come; nobody waits for a full "
		  "one." },
	{ "batch_bytes", KEY_SIZE, AT(batch_bytes), .fallback = "4MiB", .min = 64 * KIB, .max = 256 * MIB,
	  .reload = RELOAD_CONSUMER, .help = "Bytes that may share a transaction." },
	{ "prefetch", KEY_INT, AT(prefetch), .computed = "3 x batch_max", .sample = "300", .min = 1, .max = 65535,
	  .reload = RELOAD_CONSUMER,
	  .help = "What the broker may send ahead; at least batch_max. 0, which means no limit, is refused." },
	{ "max_body", KEY_SIZE, AT(max_body_bytes), .fallback = "1MiB", .min = KIB, .max = 128 * MIB,
	  .reload = RELOAD_CONSUMER, .help = "A larger body is parked unread." },
	{ "order", KEY_CHOICE, AT(order), .words = orders, .fallback = "none", .reload = RELOAD_CONSUMER,
	  .help = "queue: messages are applied in order of arrival; needs workers = 1 and a queue with a single active "
		  "consumer." },
	{ "stop_on_dead", KEY_BOOL, AT(stop_on_dead), .fallback = "no", .reload = RELOAD_CONSUMER,
	  .help = "With order = queue: a message that cannot be applied stops the consumer; else the next one goes "
		  "on." },
	{ "max_attempts", KEY_INT, AT(max_attempts), .fallback = "8", .min = 1, .max = 1000, .reload = RELOAD_CONSUMER,
	  .help = "How often a message is tried before it waits for a person." },
	{ "retry_min", KEY_DURATION, AT(retry_min_ms), .fallback = "1s", .min = 10, .max = DAY,
	  .reload = RELOAD_CONSUMER, .help = "The wait before the second attempt; it doubles with each, with jitter." },
	{ "retry_max", KEY_DURATION, AT(retry_max_ms), .fallback = "5min", .min = 10, .max = 30 * DAY,
	  .reload = RELOAD_CONSUMER, .help = "The longest wait between two attempts." },
	/* RabbitMQ's consumer_timeout closes the channel after 30 min; what is held must be given back before. */
	{ "hold_max", KEY_DURATION, AT(hold_max_ms), .fallback = "10min", .min = SEC, .max = 25 * MIN,
	  .reload = RELOAD_CONSUMER,
	  .help = "How long deliveries are held while the database is away; then they go back to the queue. Well below "
		  "the "
		  "broker's consumer_timeout." },
	{ "retention", KEY_DURATION, AT(retention_ms), .fallback = "30d", .min = SEC, .max = 3650 * DAY,
	  .never = "never", .reload = RELOAD_CONSUMER,
	  .help = "The window: how long claims are kept. Longer than the longest redelivery or replay that can "
		  "happen." },
	{ "claims", KEY_CHOICE, AT(claims), .words = claims, .fallback = "table", .reload = RELOAD_CONSUMER,
	  .help = "table: one table, old claims are deleted; daily: a partition a day of the event, dropped whole; the "
		  "plugin's key must give the event's time." },
	{ "plugin.", KEY_FAMILY, KEY_MAY_BE_EMPTY | KEY_FROM_FILE, AT(settings),
	  .sample = "plugin.cents_per_point = 100", .mask = MASK_SETTINGS, .reload = RELOAD_CONSUMER,
	  .help = "The plugin's own options; `effectd plugin show FILE` lists them." },
};
#undef AT

#define AT(field)      .offset = offsetof(struct config_target, field)
#define CONTENT(field) .content = offsetof(struct config_target, field)
static const struct config_key target_keys[] = {
	{ "type", KEY_CHOICE, KEY_REQUIRED, AT(type), .words = target_types, .sample = "http",
	  .reload = RELOAD_CONSUMER, .help = "How the target is called." },
	{ "url", KEY_TEXT, KEY_REQUIRED | KEY_FROM_FILE, AT(url), .sample = "https://mailer.internal/send",
	  .mask = MASK_URL, .reload = RELOAD_CONSUMER,
	  .help = "http:// https:// amqp:// amqps:// smtp:// smtps://, as type says." },
	{ "password_file", KEY_SECRET_FILE, AT(password_file), CONTENT(password),
	  .sample = "/etc/effectd/mailer.password", .reload = RELOAD_CONSUMER,
	  .help = "A file with nothing but the password of the URL's user, mode 0600 or stricter." },
	{ "password_credential", KEY_CREDENTIAL, AT(password_credential), CONTENT(password),
	  .sample = "mailer-password", .reload = RELOAD_CONSUMER,
	  .help = "The same by the name of a systemd credential (LoadCredential=)." },
	{ "timeout", KEY_DURATION, AT(timeout_ms), .fallback = "10s", .min = 100, .max = 10 * MIN,
	  .reload = RELOAD_CONSUMER, .help = "The longest that one call may take." },
	{ "max_per_second", KEY_INT, AT(max_per_second), .fallback = "0", .max = 1000000, .reload = RELOAD_CONSUMER,
	  .help = "Calls a second; 0: no limit." },
	{ "tls_ca_file", KEY_PATH, AT(tls_ca_file), .sample = "/etc/effectd/ca.pem", .reload = RELOAD_CONSUMER,
	  .help = "Certificates that may sign the target's (PEM); without it the system's." },
	{ "tls_cert_file", KEY_PATH, AT(tls_cert_file), .sample = "/etc/effectd/client.pem", .reload = RELOAD_CONSUMER,
	  .help = "Our own certificate (PEM), where the target asks for one; with tls_key_file." },
	{ "tls_key_file", KEY_PATH, AT(tls_key_file), .sample = "/etc/effectd/client.key", .reload = RELOAD_CONSUMER,
	  .help = "The key of tls_cert_file (PEM)." },
	{ "tls_verify", KEY_BOOL, AT(tls_verify), .fallback = "yes", .reload = RELOAD_CONSUMER,
	  .help = "Checks the target's certificate and name." },
	{ "body", KEY_CHOICE, AT(body), .words = bodies, .fallback = "payload", .reload = RELOAD_CONSUMER,
	  .help = "http, amqp: what is sent: the row's payload as it is, or a JSON object with id, kind, consumer, "
		  "message_key, idempotency_key, created_at and payload." },
	{ "method", KEY_WORD, AT(method), .words = methods, .computed = "POST", .sample = "POST",
	  .reload = RELOAD_CONSUMER, .help = "http: the request's method." },
	{ "header.", KEY_FAMILY, KEY_MAY_BE_EMPTY, AT(headers), .sample = "header.X-Shop = main", .mask = MASK_ALL,
	  .reload = RELOAD_CONSUMER, .help = "http: one more header of each request." },
	{ "answer.", KEY_FAMILY, AT(answers), .sample = "answer.409 = sent", .check = value_check_answer,
	  .reload = RELOAD_CONSUMER,
	  .help = "http: what an answer with this status means, where the rule is another: sent, retry or dead." },
	{ "bearer_token_file", KEY_SECRET_FILE, AT(bearer_token_file), CONTENT(bearer_token),
	  .sample = "/etc/effectd/mailer.token", .reload = RELOAD_CONSUMER,
	  .help = "http: a file with a token for Authorization: Bearer, mode 0600 or stricter." },
	{ "exchange", KEY_TEXT, KEY_MAY_BE_EMPTY, AT(exchange), .computed = "empty", .sample = "",
	  .check = value_check_short, .reload = RELOAD_CONSUMER,
	  .help = "amqp: where it is published; empty: the default exchange." },
	{ "routing_key", KEY_TEXT, KEY_MAY_BE_EMPTY, AT(routing_key), .computed = "empty", .sample = "",
	  .check = value_check_short, .reload = RELOAD_CONSUMER,
	  .help = "amqp: the routing key; with the default exchange the name of a queue." },
	{ "mail_from", KEY_TEXT, AT(mail_from), .sample = "shop@example.org", .reload = RELOAD_CONSUMER,
	  .help = "smtp: the sender's address." },
};
#undef AT
#undef CONTENT

#define AT(field) .offset = offsetof(struct config_relay, field)
static const struct config_key relay_keys[] = {
	{ "database", KEY_TEXT, AT(database_name), .computed = "main, or the only one", .sample = "main",
	  .reload = RELOAD_CONSUMER, .help = "The [database:NAME] whose outbox is relayed." },
	{ "kind.", KEY_FAMILY, KEY_REQUIRED, AT(kinds), .sample = "kind.send_receipt = mailer",
	  .reload = RELOAD_CONSUMER, .help = "The [target:NAME] that gets outbox rows of this kind." },
	{ "in_flight", KEY_INT, AT(in_flight), .fallback = "64", .min = 1, .max = 1000, .reload = RELOAD_CONSUMER,
	  .help = "Calls that may be under way at once." },
	{ "lease", KEY_DURATION, AT(lease_ms), .fallback = "60s", .min = SEC, .max = HOUR, .reload = RELOAD_CONSUMER,
	  .help = "How long a row belongs to the relay that took it; longer than the timeout of each target." },
	{ "poll_interval", KEY_DURATION, AT(poll_interval_ms), .fallback = "5s", .min = 100, .max = HOUR,
	  .reload = RELOAD_CONSUMER, .help = "How often the outbox is looked at when nobody wakes the relay." },
	{ "max_attempts", KEY_INT, AT(max_attempts), .fallback = "20", .min = 1, .max = 1000, .reload = RELOAD_CONSUMER,
	  .help = "How often a call is tried before its row waits for a person." },
	{ "retry_min", KEY_DURATION, AT(retry_min_ms), .fallback = "1s", .min = 10, .max = DAY,
	  .reload = RELOAD_CONSUMER, .help = "The wait before the second attempt; it doubles with each, with jitter." },
	{ "retry_max", KEY_DURATION, AT(retry_max_ms), .fallback = "1h", .min = 10, .max = 30 * DAY,
	  .reload = RELOAD_CONSUMER, .help = "The longest wait between two attempts." },
	{ "sent_retention", KEY_DURATION, AT(sent_retention_ms), .fallback = "7d", .min = SEC, .max = 3650 * DAY,
	  .never = "never", .reload = RELOAD_CONSUMER, .help = "How long sent rows are kept." },
};
#undef AT

#define NAMED(type)                                                                                  \
	_Static_assert(offsetof(struct type, name) == offsetof(struct config_named, name) &&         \
			       offsetof(struct type, place) == offsetof(struct config_named, place), \
		       "begins like struct config_named")
NAMED(config_broker);
NAMED(config_database);
NAMED(config_consumer);
NAMED(config_target);
NAMED(config_relay);

#define KEYS(table) .keys = (table), .key_count = ARRAY_LEN(table)
#define LIST(member, number)                                                                    \
	.size = sizeof(*((struct config *)0)->member), .list = offsetof(struct config, member), \
	.count = offsetof(struct config, number)

const struct config_kind config_kinds[KIND_COUNT] = {
	[KIND_PROCESS] = { "effectd", .size = sizeof(struct config_process), .list = offsetof(struct config, process),
			   KEYS(process_keys), .help = "The process." },
	[KIND_BROKER] = { "broker", true, "main", LIST(brokers, broker_count), KEYS(broker_keys),
			  .help = "A RabbitMQ." },
	[KIND_DATABASE] = { "database", true, "main", LIST(databases, database_count), KEYS(database_keys),
			    .help = "A PostgreSQL database, which has claims and effects: they commit together." },
	[KIND_CONSUMER] = { "consumer", true, "loyalty", LIST(consumers, consumer_count), KEYS(consumer_keys),
			    .help = "A queue, and the plugin that applies its messages. The name is the consumer's, "
				    "and "
				    "part of every claim: a new name applies everything anew." },
	[KIND_TARGET] = { "target", true, "mailer", LIST(targets, target_count), KEYS(target_keys),
			  .help = "Somebody outside, called by a relay." },
	[KIND_RELAY] = { "relay", true, "main", LIST(relays, relay_count), KEYS(relay_keys),
			 .help = "Performs the effects outside the database that plugins wrote to the outbox." },
};

static bool is_file_key(const char *name, size_t len)
{
	return len > strlen("_file") && memcmp(name + len - strlen("_file"), "_file", strlen("_file")) == 0;
}

const struct config_key *key_find(const struct config_kind *kind, const char *name, const char **ret_member,
				  size_t *ret_member_len, bool *ret_from_file)
{
	const size_t len = strlen(name), short_len = is_file_key(name, len) ? len - strlen("_file") : len;
	const struct config_key *by_file = NULL;
	*ret_member = NULL;
	*ret_member_len = 0;
	*ret_from_file = false;
	for (const struct config_key *key = kind->keys; key < kind->keys + kind->key_count; key++) {
		const size_t key_len = strlen(key->name);
		const bool from_file = short_len < len && (key->flags & KEY_FROM_FILE);
		if (key->type != KEY_FAMILY) {
			if (strcmp(key->name, name) == 0)
				return key;
			if (from_file && key_len == short_len && memcmp(key->name, name, key_len) == 0)
				by_file = key;
		} else if (len > key_len && memcmp(key->name, name, key_len) == 0) {
			*ret_from_file = from_file && short_len > key_len;
			*ret_member = name + key_len;
			*ret_member_len = (*ret_from_file ? short_len : len) - key_len;
			return key;
		}
	}
	*ret_from_file = by_file != NULL;
	return by_file;
}

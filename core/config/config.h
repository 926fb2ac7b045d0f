/* The configuration as typed structs. Strings live as long as the config. Every value was checked against the key
 * table (config/keys.c), which is also where defaults, ranges and docs come from. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum config_claims { CLAIMS_TABLE, CLAIMS_DAILY };
enum config_order { ORDER_NONE, ORDER_QUEUE };
enum config_declare { DECLARE_NO, DECLARE_PASSIVE, DECLARE_YES };
enum config_isolation { ISOLATION_READ_COMMITTED, ISOLATION_REPEATABLE_READ, ISOLATION_SERIALIZABLE };
enum config_target_type { TARGET_HTTP, TARGET_AMQP, TARGET_SMTP };
enum config_body { BODY_PAYLOAD, BODY_ENVELOPE };

/* Where something was written. */
struct config_place {
	const char *file; /* NULL: nowhere, a default */
	int line;
};

/* One setting of an open family: plugin.NAME, queue_arg.NAME, bind.N, kind.NAME. In the order of the file. */
struct config_pair {
	const char *name; /* behind the dot */
	const char *value;
	struct config_place place;
};

struct config_pairs {
	struct config_pair *list;
	size_t count;
};

struct config_process { /* [effectd] */
	const char *plugin_dir;
	int64_t log_level;  /* enum log_level */
	int64_t log_format; /* enum log_format */
	const char *http_listen, *runtime_dir;
	int64_t drain_timeout_ms, watchdog_ms, memory_max_bytes, summary_interval_ms;
};

struct config_broker { /* [broker:NAME] */
	const char *name;
	struct config_place place;
	const char *url, *password; /* of password_file or password_credential, read; NULL: none */
	const char *password_file, *password_credential;
	int64_t heartbeat_ms;
	const char *tls_ca_file, *tls_cert_file, *tls_key_file, *management_url;
	bool tls_verify;
};

struct config_database { /* [database:NAME] */
	const char *name;
	struct config_place place;
	const char *conninfo, *owner_conninfo /* NULL: conninfo */, *password, *password_file, *password_credential;
	int64_t statement_timeout_ms, lock_timeout_ms;
	int64_t isolation; /* enum config_isolation */
	bool allow_unsafe_durability;
	int64_t retention_interval_ms, retention_batch, retention_pause_ms;
};

struct config_consumer { /* [consumer:NAME] */
	const char *name;
	struct config_place place;
	const char *plugin, *queue;
	struct config_place plugin_place, queue_place; /* of the keys */
	const char *broker_name, *database_name;
	const struct config_broker *broker;     /* resolved */
	const struct config_database *database; /* resolved */
	int64_t workers;
	int64_t declare; /* enum config_declare */
	const char *queue_type;
	struct config_pairs queue_args, binds, settings /* plugin.* */;
	int64_t prefetch; /* 3 x batch_max unless given */
	int64_t batch_max, batch_bytes, max_body_bytes;
	int64_t order; /* enum config_order */
	bool stop_on_dead;
	int64_t max_attempts, retry_min_ms, retry_max_ms, hold_max_ms;
	int64_t retention_ms; /* -1: never */
	int64_t claims;       /* enum config_claims */
};

struct config_target { /* [target:NAME] */
	const char *name;
	struct config_place place;
	int64_t type; /* enum config_target_type */
	const char *url, *password, *password_file, *password_credential;
	const char *tls_ca_file, *tls_cert_file, *tls_key_file;
	bool tls_verify;
	int64_t timeout_ms;     /* of one call */
	int64_t max_per_second; /* calls; 0: no limit */
	int64_t body;           /* enum config_body: http, amqp */
	/* http; NULL with other types */
	const char *method, *bearer_token, *bearer_token_file;
	struct config_pairs headers;
	struct config_pairs answers; /* answer.STATUS = sent, retry or dead */
	/* amqp; NULL with other types */
	const char *exchange, *routing_key;
	/* smtp; NULL with other types */
	const char *mail_from;
};

struct config_relay { /* [relay:NAME] */
	const char *name;
	struct config_place place;
	const char *database_name;
	const struct config_database *database;
	int64_t in_flight, lease_ms, poll_interval_ms;
	int64_t max_attempts, retry_min_ms, retry_max_ms;
	int64_t sent_retention_ms; /* -1: never */
	struct config_pairs kinds; /* kind.NAME = TARGET */
};

struct config {
	struct config_process process;
	struct config_broker *brokers;
	struct config_database *databases;
	struct config_consumer *consumers;
	struct config_target *targets;
	struct config_relay *relays;
	size_t broker_count, database_count, consumer_count, target_count, relay_count;
	size_t holds;                   /* besides the first owner's */
	struct config_private *private; /* strings, and where each value came from */
};

/* One problem found: place.file may be NULL; section like "consumer:loyalty", key may be NULL. */
struct config_problem {
	struct config_place place;
	const char *section, *key, *text;
};
typedef void config_report(void *arg, const struct config_problem *problem);

/* Reads path and its includes and checks everything that needs no plugin and no server. Reports every problem, and
 * returns ST_INVALID if there was any. What check, start and reload all call. */
enum status config_load(struct config **ret, const char *path, config_report *report, void *arg) MUST_USE;

/* Where the plugins that come with effectd are installed: plugin_dir's default. */
extern const char config_shipped_plugin_dir[];

/* Only runtime_dir, as far as path can be read: for those who ask a daemon whose files are wrong by now. free() it;
 * NULL: out of memory. */
char *config_read_runtime_dir(const char *path);

/* The names of all [KIND:NAME] sections, as far as path and what it includes can be read; nothing is checked, no value
 * is looked at. For those who only offer names. */
typedef void config_name(void *arg, const char *name);
void config_read_names(const char *path, const char *kind, config_name *each, void *arg);

/* One owner more, each of which calls config_destroy(): the last call frees. One thread only. */
struct config *config_hold(struct config *c);
void config_destroy(struct config *c); /* NULL is fine */

/* The report that prints `file:line: [section] key: text` on stderr. */
config_report config_report_stderr;

const struct config_consumer *config_find_consumer(const struct config *c, const char *name);

#endif

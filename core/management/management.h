/* RabbitMQ's management interface: what AMQP does not tell of a queue. It is only asked; nothing is changed.
 *
 * Every request is bounded in time and in size, redirects are not followed, and no text has a password in it. Besides
 * core/relay the only folder that includes libcurl. */
#ifndef MANAGEMENT_MANAGEMENT_H
#define MANAGEMENT_MANAGEMENT_H

#include "base/error.h"
#include <jansson.h>
#include <stdint.h>

struct management_params {
	const char *url;             /* http:// or https://; who has a user here needs no other */
	const char *user, *password; /* where the URL names nobody; password NULL: none */
	const char *tls_ca_file, *tls_cert_file, *tls_key_file; /* NULL: the system's authorities; none */
	bool tls_verify;
};

struct management;

/* Asks for the broker's version. ST_UNAVAILABLE: nobody answers in time; ST_REFUSED: code is HTTP's status, 401 for a
 * user or password that is not taken, or a user without the tag `management`; ST_INVALID: the URL, a TLS file, or what
 * answers there is something else. */
enum status management_open(struct management **ret, const struct management_params *params,
			    struct error *err) MUST_USE;
void management_close(struct management *m); /* NULL is fine */

const char *management_version(const struct management *m); /* 3.10.8 */
bool management_is_plain(const struct management *m);       /* http://: what is sent can be read on the way */

/* What a queue does to its messages besides giving them out. */
enum queue_key {
	QUEUE_DELIVERY_LIMIT, /* returns; set only where there is a limit */
	QUEUE_DEAD_LETTER_EXCHANGE,
	QUEUE_DEAD_LETTER_ROUTING_KEY,
	QUEUE_DEAD_LETTER_STRATEGY, /* quorum queues: at-most-once, at-least-once */
	QUEUE_MESSAGE_TTL,          /* ms */
	QUEUE_EXPIRES,              /* ms without a consumer, then the queue is deleted */
	QUEUE_MAX_LENGTH,           /* messages */
	QUEUE_MAX_LENGTH_BYTES,
	QUEUE_OVERFLOW,         /* drop-head unless it is set */
	QUEUE_CONSUMER_TIMEOUT, /* ms; that of rabbitmq.conf cannot be asked for */
	QUEUE_SINGLE_ACTIVE,
	QUEUE_MAX_PRIORITY,
	QUEUE_KEYS
};

struct queue_setting {
	bool set;
	int64_t number;
	const char *text; /* of those that are text; as the broker has it */
	char origin[224]; /* one line: argument x-message-ttl, policy NAME, the default of RabbitMQ 4.1.0 */
};

struct queue_facts {
	const char *name, *type; /* quorum, classic, stream */
	bool durable, exclusive, auto_delete;
	bool policies_known; /* false: the settings are those of its arguments alone */
	struct queue_setting
		settings[QUEUE_KEYS]; /* what holds: arguments, policy, operator policy, the broker's default */
	json_t *all;                  /* the broker's answer; the texts above live in it */
};

/* The queue as the broker's answer describes it, whose owner it becomes. version is the broker's. */
enum status queue_facts_read(struct queue_facts *ret, json_t *all, const char *version, struct error *err) MUST_USE;
void queue_facts_finish(struct queue_facts *q);

struct queue_argument {
	const char *name, *value; /* value: whole numbers and true, false are sent as such, else it is text */
};
/* Would the broker refuse to declare it anew with these? name becomes that of the first argument that differs. */
bool queue_facts_differ(const struct queue_facts *q, const struct queue_argument *wanted, size_t count, char *name,
			size_t size);

/* ST_REFUSED with code 404: there is no such queue. finish() after ST_OK. Policies of a queue that was just made are
 * waited for, some seconds for all queues together. */
enum status management_queue(struct management *m, const char *vhost, const char *queue, struct queue_facts *ret,
			     struct error *err) MUST_USE;

/* Where dead letters go. */
enum dead_letters {
	DEAD_LETTERS_KEPT,        /* as far as can be seen: somebody is bound there */
	DEAD_LETTERS_NO_EXCHANGE, /* it does not exist */
	DEAD_LETTERS_NO_QUEUE,    /* the exchange leads nowhere */
	DEAD_LETTERS_ITSELF,      /* back into the same queue */
};
enum status management_dead_letters(struct management *m, const char *vhost, const struct queue_facts *q,
				    enum dead_letters *ret, struct error *err) MUST_USE;

#endif

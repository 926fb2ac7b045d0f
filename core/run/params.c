#include "run/params.h"
#include <stdio.h>
#include <string.h>

void params_of_database(const struct config_database *config, const struct config_process *process, const char *name,
			struct pg_params *ret)
{
	static const char *const isolation[] = {
		[ISOLATION_READ_COMMITTED] = "read committed",
		[ISOLATION_REPEATABLE_READ] = "repeatable read",
		[ISOLATION_SERIALIZABLE] = "serializable",
	};
	*ret = (struct pg_params){
		.conninfo = config->conninfo,
		.password = config->password,
		.application_name = name,
		.isolation = isolation[config->isolation],
		.statement_timeout_ms = config->statement_timeout_ms,
		.lock_timeout_ms = config->lock_timeout_ms,
		/* A plugin may compute until the watchdog strikes, the transaction idle meanwhile. */
		.idle_in_transaction_ms = process->watchdog_ms + 5000,
		.allow_unsafe_durability = config->allow_unsafe_durability,
	};
}

/* No statement_timeout: an index may take its time. But whoever queues for a lock makes everybody behind it queue too,
 * so it gives up as early as the daemon would. */
void params_of_owner(const struct config_database *config, const char *name, struct pg_params *ret)
{
	*ret = (struct pg_params){
		.conninfo = config->owner_conninfo ? config->owner_conninfo : config->conninfo,
		.password = config->owner_conninfo ? NULL : config->password, /* another role's */
		.application_name = name,
		.lock_timeout_ms = config->lock_timeout_ms,
		.allow_unsafe_durability = config->allow_unsafe_durability,
	};
}

void params_of_retention(const struct config_database *config, struct pg_params *ret_app, struct pg_params *ret_owner)
{
	static const char name[] = "effectd/retention";
	/* Others wait behind a lock that is waited for; retention can come again. */
	enum { LOCK_MAX_MS = 2000 };
	const int64_t lock_ms = config->lock_timeout_ms < LOCK_MAX_MS ? config->lock_timeout_ms : LOCK_MAX_MS;
	params_of_owner(config, name, ret_owner);
	ret_owner->lock_timeout_ms = lock_ms;
	*ret_app = (struct pg_params){
		.conninfo = config->conninfo,
		.password = config->password,
		.application_name = name,
		.isolation = "read committed",
		.statement_timeout_ms = config->statement_timeout_ms,
		.lock_timeout_ms = lock_ms,
		.allow_unsafe_durability = config->allow_unsafe_durability,
	};
}

void params_of_broker(const struct config_broker *config, const char *name, struct amqp_params *ret)
{
	*ret = (struct amqp_params){
		.url = config->url,
		.password = config->password,
		.heartbeat_s = (int)((config->heartbeat_ms + 999) / 1000),
		.tls_ca_file = config->tls_ca_file,
		.tls_cert_file = config->tls_cert_file,
		.tls_key_file = config->tls_key_file,
		.tls_verify = config->tls_verify,
		.connection_name = name,
	};
}

enum status params_of_consume(const struct config_consumer *config, const char *tag, struct consume_params *ret,
			      struct error *err)
{
	static const enum amqp_declare declare[] = {
		[DECLARE_NO] = AMQP_DECLARE_NO,
		[DECLARE_PASSIVE] = AMQP_DECLARE_PASSIVE,
		[DECLARE_YES] = AMQP_DECLARE_YES,
	};
	size_t bytes = 1;
	for (size_t i = 0; i < config->binds.count; i++)
		bytes += strlen(config->binds.list[i].value) + 1;
	*ret = (struct consume_params){
		.arguments = calloc(config->queue_args.count + 1, sizeof(*ret->arguments)),
		.bindings = calloc(config->binds.count + 1, sizeof(*ret->bindings)),
		.strings = malloc(bytes),
	};
	if (!ret->arguments || !ret->bindings || !ret->strings)
		return error_oom(err);
	for (size_t i = 0; i < config->queue_args.count; i++)
		ret->arguments[i] =
			(struct amqp_argument){ config->queue_args.list[i].name, config->queue_args.list[i].value };
	char *p = ret->strings;
	for (size_t i = 0; i < config->binds.count; i++) {
		const char *value = config->binds.list[i].value, *colon = strrchr(value, ':');
		if (!colon)
			return error_set(err, ST_INVALID, "bind.%s = %s must be EXCHANGE:ROUTING_KEY",
					 config->binds.list[i].name, value);
		ret->bindings[i] = (struct amqp_binding){ p, colon + 1 };
		p = mempcpy(p, value, (size_t)(colon - value));
		*p++ = '\0';
	}
	ret->consume = (struct amqp_consume){
		.queue = config->queue,
		.declare = declare[config->declare],
		.queue_type = config->queue_type,
		.arguments = ret->arguments,
		.argument_count = config->queue_args.count,
		.bindings = ret->bindings,
		.binding_count = config->binds.count,
		.prefetch = (uint16_t)config->prefetch,
		.buffer_bytes = 2 * (size_t)config->batch_bytes, /* one batch in work, one arriving */
		.max_body = (size_t)config->max_body_bytes,
		.consumer_tag = tag,
	};
	return ST_OK;
}

void consume_params_finish(struct consume_params *p)
{
	free(p->arguments);
	free(p->bindings);
	free(p->strings);
}

struct plugin_setting *params_of_plugin(const struct config_consumer *config)
{
	struct plugin_setting *settings = calloc(config->settings.count + 1, sizeof(*settings));
	for (size_t i = 0; settings && i < config->settings.count; i++) {
		const struct config_pair *pair = &config->settings.list[i];
		settings[i] = (struct plugin_setting){ pair->name, pair->value, pair->place.file, pair->place.line };
	}
	return settings;
}

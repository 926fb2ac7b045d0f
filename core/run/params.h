/* From the configuration's words to what the sessions want. */
#ifndef RUN_PARAMS_H
#define RUN_PARAMS_H

#include "amqp/session.h"
#include "config/config.h"
#include "pg/session.h"
#include "plugin/options.h"

/* name: what the server shows; the strings stay their owners'. */
void params_of_database(const struct config_database *config, const struct config_process *process, const char *name,
			struct pg_params *ret);
/* As the owner of the schema, for what is no business of the daemon's role. */
void params_of_owner(const struct config_database *config, const char *name, struct pg_params *ret);
/* For a pass of retention: app deletes, owner makes and drops days. Neither waits long for a lock. */
void params_of_retention(const struct config_database *config, struct pg_params *ret_app, struct pg_params *ret_owner);
void params_of_broker(const struct config_broker *config, const char *name, struct amqp_params *ret);

struct consume_params {
	struct amqp_consume consume;
	struct amqp_argument *arguments;
	struct amqp_binding *bindings;
	char *strings; /* EXCHANGE of each binding */
};

/* ST_INVALID: a binding is not EXCHANGE:ROUTING_KEY. finish() after it whatever came back. */
enum status params_of_consume(const struct config_consumer *config, const char *tag, struct consume_params *ret,
			      struct error *err) MUST_USE;
void consume_params_finish(struct consume_params *p);

/* plugin.* of a consumer; free() the array. NULL: out of memory. */
struct plugin_setting *params_of_plugin(const struct config_consumer *config);

#endif

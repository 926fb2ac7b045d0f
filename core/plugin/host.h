/* The functions behind the table that plugins call, by the file that has them. Nothing outside core/plugin includes
 * this.
 *
 * Every one of them takes whatever a plugin may hand in, also NULL, and does no harm: a plugin's mistake becomes a
 * fault of its call, or an absent value. */
#ifndef PLUGIN_HOST_H
#define PLUGIN_HOST_H

#include "plugin/instance.h"

extern const struct effectd_host plugin_host;

/* message.c */
struct effectd_str host_property(const struct effectd_message *msg, effectd_property which);
struct effectd_str host_header(const struct effectd_message *msg, const char *name);
bool host_header_int64(const struct effectd_message *msg, const char *name, int64_t *ret);
bool host_timestamp_us(const struct effectd_message *msg, int64_t *ret);
bool host_redelivered(const struct effectd_message *msg);
uint32_t host_attempt(const struct effectd_message *msg);

/* json.c */
const struct effectd_json *host_json(const struct effectd_message *msg);
const char *host_json_error(const struct effectd_message *msg);
const struct effectd_json *host_json_member(const struct effectd_json *object, const char *name);
const struct effectd_json *host_json_element(const struct effectd_json *array, size_t index);
size_t host_json_size(const struct effectd_json *node);
effectd_json_kind host_json_kind(const struct effectd_json *node);
bool host_json_int64(const struct effectd_json *node, int64_t *ret);
bool host_json_bool(const struct effectd_json *node, bool *ret);
bool host_json_text(const struct effectd_json *node, struct effectd_str *ret);
struct effectd_str host_json_source(const struct effectd_message *msg, const struct effectd_json *node);
extern const char json_out_of_memory[]; /* the json_error of a body that may well be fine */

/* call.c */
void host_say(struct effectd_call *call, const char *text);
void host_exec(struct effectd_call *call, uint32_t statement, const struct effectd_value *values, size_t count);
void host_outbox(struct effectd_call *call, const struct effectd_outbox_row *row);
void host_log(struct effectd_call *call, const char *text);

/* setup.c */
const char *host_option(const struct effectd_setup *setup, const char *name);
int64_t host_option_int64(const struct effectd_setup *setup, const char *name);
const char *host_option_name(const struct effectd_setup *setup, size_t index);
const char *host_consumer(const struct effectd_setup *setup);
uint32_t host_statement(struct effectd_setup *setup, const struct effectd_statement *statement);
void host_claim(struct effectd_setup *setup, effectd_claim mode);
void host_setup_problem(struct effectd_setup *setup, const char *option, const char *text);
effectd_type host_parameter(const struct effectd_setup *setup, uint32_t statement, uint32_t index);
const struct effectd_message *host_sample(struct effectd_setup *setup, struct effectd_str body);

/* setup.c: lets the plugin configure itself, or look at its described statements. Every problem is reported, by the
 * plugin or for a rule that it broke; returns how many. */
size_t setup_configure(struct plugin_instance *p, plugin_report *report, void *arg) MUST_USE;
size_t setup_described(struct plugin_instance *p, plugin_report *report, void *arg) MUST_USE;

/* call.c: something is wrong with the call, whatever the plugin will answer. The gravest fault and its text stay. */
void call_fault(struct plugin_call *call, effectd_verdict fault, const char *fmt, ...) PRINTF(3, 4);

/* values.c: one operation with the encoded values, in the call's arena; NULL: a fault of the call. */
struct plugin_op *values_encode(struct plugin_call *call, const char *statement_name,
				const struct pg_statement *described, const struct effectd_value *values,
				size_t count) MUST_USE;

#endif

/* The host table: all of effectd that a plugin can reach. */
#include "plugin/host.h"

const struct effectd_host plugin_host = {
	.abi_major = EFFECTD_ABI_MAJOR,
	.abi_minor = EFFECTD_ABI_MINOR,
	.size = sizeof(struct effectd_host),

	.property = host_property,
	.header = host_header,
	.header_int64 = host_header_int64,
	.timestamp_us = host_timestamp_us,
	.redelivered = host_redelivered,
	.attempt = host_attempt,

	.json = host_json,
	.json_error = host_json_error,
	.json_member = host_json_member,
	.json_element = host_json_element,
	.json_size = host_json_size,
	.json_kind = host_json_kind,
	.json_int64 = host_json_int64,
	.json_bool = host_json_bool,
	.json_text = host_json_text,
	.json_source = host_json_source,

	.say = host_say,
	.exec = host_exec,
	.outbox = host_outbox,
	.log = host_log,

	.option = host_option,
	.option_int64 = host_option_int64,
	.option_name = host_option_name,
	.consumer = host_consumer,
	.statement = host_statement,
	.claim = host_claim,
	.parameter = host_parameter,
	.sample = host_sample,
	.setup_problem = host_setup_problem,
};

// The same in C++17: the descriptor is made without designated initializers, the calls are templates.
#include <effectd/plugin.h>

namespace
{
enum { ENTRY, BALANCE };

constexpr effectd_statement statements[] = {
	{ "entry", "INSERT INTO ledger (id, note) VALUES ($1, $2) ON CONFLICT DO NOTHING", EFFECTD_NEW,
	  EFFECTD_OTHERWISE_REJECT, nullptr },
	{ "balance", "UPDATE balances SET points = points + 1", EFFECTD_ONE, EFFECTD_OTHERWISE_RETRY, nullptr },
};

constexpr effectd_option options[] = {
	{ "factor", EFFECTD_OPTION_INT, 1, nullptr, 1, 100, "points for each" },
};

bool configure(effectd_setup *setup, void **ret_instance)
{
	*ret_instance = new int64_t(effectd_option_int64(setup, "factor"));
	return true;
}

void destroy(void *instance)
{
	delete static_cast<int64_t *>(instance);
}

effectd_verdict key(effectd_call *call, const effectd_message *msg, effectd_key *key)
{
	int64_t id;
	if (!effectd_json_int64(msg, "id", &id))
		return effectd_reject(call, "id must be an integer");
	key->lock_order = id;
	return effectd_key_format(key, "right:%" PRId64, id);
}

effectd_verdict apply(effectd_call *call, const effectd_message *msg)
{
	effectd_str note = {};
	int64_t id = 0;
	effectd_json_int64(msg, "id", &id);
	effectd_json_text(msg, "note", &note);
	effectd_exec(call, ENTRY, effectd_int8(id * *static_cast<int64_t *>(call->instance)), effectd_text(note));
	effectd_exec(call, BALANCE);
	effectd_outbox(call, "mail", effectd_body(msg));
	return EFFECTD_OK;
}
} // namespace

EFFECTD_PLUGIN_CXX(p.consumer = "right"; p.version = "1.0"; p.description = "as it should be";
		   effectd_declare_statements(p, statements); effectd_declare_options(p, options);
		   p.configure = configure; p.destroy = destroy; p.key = key; p.apply = apply;);

// example - one row for each message, once.
//
// What the message says comes in with it: {"id": "a-1", "customer_id": 7, "amount": 12.50}.
#include <effectd/plugin.h>

namespace
{

enum { ROW };

constexpr effectd_statement statements[] = {
	// The table's own key is a second lock on the door: no row inserted means that it was applied before.
	{ "row", "INSERT INTO example (id, customer_id, amount) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
	  EFFECTD_NEW, EFFECTD_OTHERWISE_REJECT, nullptr },
};

// Which effect the message names: from its content alone, the same for each copy of it.
effectd_verdict example_key(effectd_call *call, const effectd_message *msg, effectd_key *key)
{
	effectd_str id;
	if (!effectd_json_text(msg, "id", &id))
		return effectd_reject(call, "id must be a text");
	return effectd_key_bytes(key, id);
}

// What it does: statements, queued. Nothing runs while this function does. No exception may leave it.
effectd_verdict example_apply(effectd_call *call, const effectd_message *msg)
{
	effectd_str id, amount;
	int64_t customer_id;
	if (!effectd_json_text(msg, "id", &id) || !effectd_json_int64(msg, "customer_id", &customer_id) ||
	    !effectd_json_numeric(msg, "amount", &amount))
		return effectd_reject(call, "id must be a text, customer_id a whole number, amount a number");
	effectd_exec(call, ROW, effectd_text(id), effectd_int8(customer_id), effectd_numeric(amount));
	return EFFECTD_OK;
}

} // namespace

EFFECTD_PLUGIN_CXX(p.consumer = "example"; p.version = "0.1"; p.key = example_key; p.apply = example_apply;
                   effectd_declare_statements(p, statements););

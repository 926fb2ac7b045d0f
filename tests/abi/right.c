/* A plugin as it should be, with everything that a plugin can have. */
#include <effectd/plugin.h>
#include <stdlib.h>

enum { ENTRY, BALANCE };

static const struct effectd_statement statements[] = {
	[ENTRY] = { .name = "entry",
		    .sql = "INSERT INTO ledger (id, note) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		    .rows = EFFECTD_NEW },
	[BALANCE] = { .name = "balance",
		      .sql = "UPDATE balances SET points = points + 1",
		      .rows = EFFECTD_ONE,
		      .otherwise = EFFECTD_OTHERWISE_RETRY },
};

static const struct effectd_option options[] = {
	{ "factor", EFFECTD_OPTION_INT, 1, NULL, 1, 100, "points for each" },
	{ "pause", EFFECTD_OPTION_DURATION, 0, "2s", 0, 0, "how long" },
	{ "rate.*", EFFECTD_OPTION_TEXT, 0, NULL, 0, 0, "rate of a currency" },
};

struct instance {
	int64_t factor;
};

static bool right_configure(struct effectd_setup *setup, void **ret_instance)
{
	struct instance *i = (struct instance *)malloc(sizeof(*i));
	if (!i)
		return false;
	i->factor = setup->host->option_int64(setup, "factor");
	*ret_instance = i;
	return true;
}

static effectd_verdict right_key(struct effectd_call *call, const struct effectd_message *msg, struct effectd_key *key)
{
	int64_t id;
	if (!effectd_json_int64(msg, "id", &id))
		return effectd_reject(call, "id must be an integer");
	key->lock_order = id;
	return effectd_key_format(key, "right:%" PRId64, id);
}

static effectd_verdict right_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	const struct instance *i = (const struct instance *)call->instance;
	struct effectd_str note = { NULL, 0 };
	int64_t id = 0;
	effectd_json_int64(msg, "id", &id);
	effectd_json_text(msg, "note", &note);
	effectd_exec(call, ENTRY, effectd_int8(id * i->factor), effectd_text(note));
	effectd_exec(call, BALANCE);
	effectd_outbox(call, "mail", effectd_body(msg));
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.consumer = "right", .version = "1.0", .description = "as it should be", EFFECTD_STATEMENTS(statements),
	       EFFECTD_OPTIONS(options), .configure = right_configure, .destroy = free, .key = right_key,
	       .apply = right_apply);

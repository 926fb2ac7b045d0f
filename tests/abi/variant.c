/* A small plugin, spoilt in one way each: compiled once for every VARIANT, whose initializers come after the good ones
 * and so override them. The tests say what effectd thinks of each. */
#include <effectd/plugin.h>

enum { ROWS_UNKNOWN = 99 };

/* statements with one thing wrong each */
enum { FINE, UNNAMED, NO_SQL, UNKNOWN_ROWS, UNKNOWN_ELSE, COMMIT, HIDDEN_COMMIT, TWO_IN_ONE };
static const struct effectd_statement one_statement[] = {
	[FINE] = { "s", "SELECT 1", EFFECTD_ANY, 0 },
	[UNNAMED] = { NULL, "SELECT 1", EFFECTD_ANY, 0 },
	[NO_SQL] = { "s", NULL, EFFECTD_ANY, 0 },
	[UNKNOWN_ROWS] = { "s", "SELECT 1", ROWS_UNKNOWN, 0 },
	[UNKNOWN_ELSE] = { "s", "SELECT 1", EFFECTD_ANY, ROWS_UNKNOWN },
	[COMMIT] = { "s", "COMMIT", EFFECTD_ANY, 0 },
	[HIDDEN_COMMIT] = { "s", "/* a /* b */ SELECT */ -- c\n COMMIT", EFFECTD_ANY, 0 },
	[TWO_IN_ONE] = { "s", "SELECT ';' /*;*/; DELETE FROM t", EFFECTD_ANY, 0 },
};
#define ONE_STATEMENT(which) .statement_count = 1, .statements = &one_statement[which]

/* what a later version of the ABI might look like */
struct longer_statement {
	struct effectd_statement now;
	uint64_t later[3];
};
static const struct longer_statement longer_statements[] = {
	{ { "first", "SELECT 1", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT }, { ~0u, ~0u, ~0u } },
	{ { "second", "SELECT 2", EFFECTD_ONE, EFFECTD_OTHERWISE_RETRY }, { ~0u, ~0u, ~0u } },
};
static const struct effectd_statement twin_statements[] = {
	{ "twin", "SELECT 1", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT },
	{ "twin", "SELECT 2", EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT },
};
static const struct effectd_option bad_default[] = {
	{ "limit", EFFECTD_OPTION_INT, 0, "many", 0, 0, "a number" },
};
static const struct effectd_option unknown_option_type[] = {
	{ "limit", 42, 0, NULL, 0, 0, "a number" },
};
static const struct effectd_option odd_option_name[] = {
	{ "a b", EFFECTD_OPTION_INT, 0, NULL, 0, 0, "a number" },
};
static const struct effectd_option twin_options[] = {
	{ "limit", EFFECTD_OPTION_INT, 0, NULL, 0, 0, "a number" },
	{ "limit", EFFECTD_OPTION_TEXT, 0, NULL, 0, 0, "a text" },
};

static const void *const all_tables[]
	__attribute__((unused)) = { one_statement,       longer_statements, twin_statements, bad_default,
				    unknown_option_type, odd_option_name,   twin_options };

#define VARIANT_good         .version = "1"
#define VARIANT_second_good  .version = "2"
#define VARIANT_other_major  .abi_major = EFFECTD_ABI_MAJOR + 1
#define VARIANT_newer_minor  .abi_minor = EFFECTD_ABI_MINOR + 1
#define VARIANT_unpromised   .abi_major = 0, .abi_minor = 2
#define VARIANT_short_size   .size = offsetof(struct effectd_plugin, described)
#define VARIANT_longer_size  .size = sizeof(struct effectd_plugin) + 64
#define VARIANT_no_key       .key = NULL
#define VARIANT_no_apply     .apply = NULL
#define VARIANT_bad_consumer .consumer = "Not A Name"
#define VARIANT_short_stride ONE_STATEMENT(FINE), .statement_size = offsetof(struct effectd_statement, option)
#define VARIANT_longer_stride \
	.statement_count = 2, .statement_size = sizeof(struct longer_statement), .statements = &longer_statements[0].now
#define VARIANT_no_table        .statement_count = 3
#define VARIANT_huge_table      .statement_count = UINT32_MAX, .statements = twin_statements
#define VARIANT_twin_statements EFFECTD_STATEMENTS(twin_statements)
#define VARIANT_unnamed         ONE_STATEMENT(UNNAMED)
#define VARIANT_no_sql          ONE_STATEMENT(NO_SQL)
#define VARIANT_unknown_rows    ONE_STATEMENT(UNKNOWN_ROWS)
#define VARIANT_unknown_else    ONE_STATEMENT(UNKNOWN_ELSE)
#define VARIANT_commit          ONE_STATEMENT(COMMIT)
#define VARIANT_hidden_commit   ONE_STATEMENT(HIDDEN_COMMIT)
#define VARIANT_two_in_one      ONE_STATEMENT(TWO_IN_ONE)
#define VARIANT_short_option    EFFECTD_OPTIONS(bad_default), .option_size = 8
#define VARIANT_bad_default     EFFECTD_OPTIONS(bad_default)
#define VARIANT_option_type     EFFECTD_OPTIONS(unknown_option_type)
#define VARIANT_option_name     EFFECTD_OPTIONS(odd_option_name)
#define VARIANT_twin_options    EFFECTD_OPTIONS(twin_options)

static effectd_verdict variant_key(struct effectd_call *call, const struct effectd_message *msg,
				   struct effectd_key *key)
{
	(void)call;
	return effectd_key_bytes(key, effectd_body(msg));
}

static effectd_verdict variant_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	(void)call;
	(void)msg;
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.version = "0", .key = variant_key, .apply = variant_apply, VARIANT);

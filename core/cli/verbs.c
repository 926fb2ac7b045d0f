/* The commands: one line each. Examples come first in help, so they are written first here. */
#include "cli/cmd_plugin.h"
#include "cli/rows.h"
#include "exact/park.h"

const char cli_default_config_file[] = "/etc/effectd/effectd.ini";

const struct cli_option cli_common_options[] = {
	[COMMON_CONFIG] = { "config", "FILE", "the configuration; default /etc/effectd/effectd.ini", .letter = 'c' },
	[COMMON_JSON] = { "json", NULL, "data for programs, where there is data" },
	[COMMON_HELP] = { "help", NULL, "this", .letter = 'h' },
	[COMMON_VERSION] = { "version", NULL, "the version, as `effectd version`", .letter = 'V' },
	[COMMON_COUNT] = { NULL },
};

static const struct cli_option run_options[] = {
	{ "consumer", "NAME", "only this consumer; may be given several times" },
	{ "relay", "NAME", "only this relay; with both, only those named" },
	{ "retention", NULL, "only retention, of every database; with the others: besides those" },
	{ NULL },
};

static const struct cli_option retention_options[] = {
	{ "once", NULL, "delete and drop now; without it, only what would go is told" },
	{ "dry-run", NULL, "change nothing, whatever else is said" },
	{ "forget", "CONSUMER", "all claims of a consumer that is gone for good, and its window; needs --yes" },
	{ "database", "NAME", "only [database:NAME]; else each database of the configuration" },
	{ "yes", NULL, "forget without asking" },
	{ NULL },
};

static const struct cli_option check_options[] = {
	{ "live", NULL, "connect, prepare and describe every statement, look at queues and schema" },
	{ NULL },
};

static const struct cli_option explain_options[] = {
	{ "consumer", "NAME", "whose key it is; default: the only one" },
	{ NULL },
};

static const struct cli_option try_options[] = {
	{ "consumer", "NAME", "whose plugin applies the messages; default: the only one" },
	{ "envelope", NULL, "a line is an object with body, routing_key, headers, message_id, timestamp, ..." },
	{ "ignore-claim", NULL, "apply although the key may be claimed" },
	{ "twice", NULL, "each message a second time behind itself: nothing may be applied then" },
	{ "golden", "FILE", "compare what happens with this file of JSON lines; exit code 1: it differs" },
	{ "write-golden", "FILE", "write that file" },
	{ NULL },
};

static const struct cli_option feed_options[] = {
	{ "consumer", "NAME", "whose plugin applies the lines; default: the only one" },
	{ "envelope", NULL, "a line is an object with body, routing_key, headers, message_id, timestamp, ..." },
	{ "rejects", "FILE", "where rejected lines go; default NAME.rejects.jsonl" },
	{ "beyond-window", NULL, "also what is older than the window: an earlier copy's claim may be gone" },
	{ "workers", "N", "threads, each with a connection; default: as configured" },
	{ NULL },
};

static const struct cli_option config_options[] = {
	{ "markdown", NULL, "as the tables of docs/configuration.md", .actions = "default" },
	{ NULL },
};

static const struct cli_option migrate_options[] = {
	{ "database", "NAME", "only [database:NAME]; else each database of the configuration",
	  .actions = "status, up, print" },
	{ "all", NULL, "also what is applied; asks no database", .actions = "print" },
	{ NULL },
};

static const char *const parked_statuses[] = { "retry", "dead", NULL };
static const char *const parked_reasons[] = {
#define X(id, name) name,
	PARK_REASONS(X)
#undef X
		NULL,
};

static const struct cli_option parked_options[] = {
	ROWS_OPTIONS(parked_statuses),
	{ "reason", "REASON", "only rows parked for this reason", .words = parked_reasons },
	{ "all", NULL, "every row", .actions = "retry, drop" },
	{ "dry-run", NULL, "only say what would become of each row", .actions = "retry, drop" },
	{ "beyond-window", NULL, "also rows whose earlier copy's claim may be gone", .actions = "retry" },
	{ "yes", NULL, "do not ask", .actions = "drop" },
	{ "body", NULL, "the body alone, byte for byte", .actions = "show" },
	{ NULL },
};

static const char *const outbox_statuses[] = { "pending", "sent", "dead", NULL };

static const struct cli_option outbox_options[] = {
	ROWS_OPTIONS(outbox_statuses),
	{ "kind", "KIND", "only rows of this kind" },
	{ "all", NULL, "every row", .actions = "retry, drop" },
	{ "dry-run", NULL, "only say what would become of each row", .actions = "retry, drop" },
	{ "yes", NULL, "do not ask", .actions = "drop" },
	{ NULL },
};

static const struct cli_option plugin_options[] = {
	{ "lang", "LANGUAGE", "the project's language", .actions = "new", .words = plugin_languages },
	{ NULL },
};

static const struct cli_option reload_options[] = {
	{ "dry-run", NULL, "only say what a reload would do" },
	{ NULL },
};

const struct verb verbs[] = {
	{
		.name = "run",
		.arguments = "",
		.help = "run the daemon: all consumers and relays, or those named; SIGTERM drains",
		.examples = "  effectd run -c /etc/effectd/effectd.ini\n"
			    "  effectd run --consumer loyalty --consumer receipts\n"
			    "  effectd run --relay main              a relay alone, in any number of processes\n",
		.options = run_options,
		.run = cmd_run,
	},
	{
		.name = "status",
		.arguments = "",
		.help = "what the running daemon does: consumers, rates, outcomes, connections",
		.examples = "  effectd status\n"
			    "  effectd status --json | jq '.consumers[] | {name, state, per_second}'\n",
		.notes = "Asks over the socket in runtime_dir. Exit code 1: it is not ready, 69: none runs there.",
		.run = cmd_status,
	},
	{
		.name = "reload",
		.arguments = "",
		.help = "make the running daemon read its configuration again",
		.examples = "  effectd reload --dry-run              the plan: what would be started anew, and why\n"
			    "  effectd reload                        consumers that change drain, the others go on\n"
			    "  effectd reload --json | jq '.plan[] | select(.action != \"keep\")'\n",
		.notes = "A configuration with a mistake changes nothing: exit code 78, the mistakes on stderr. "
			 "-c FILE says which daemon is meant, by its runtime_dir; it reads the file that it was "
			 "started with.",
		.options = reload_options,
		.run = cmd_reload,
	},
	{
		.name = "migrate",
		.help = "the schema `effectd`: what is applied, apply what is missing",
		.examples =
			"  effectd migrate                       each migration and whether it is applied\n"
			"  effectd migrate up                    apply what is missing; safe to run twice or at once\n"
			"  effectd migrate print | less          the SQL of what is missing, to read or run by hand\n"
			"  effectd migrate claims loyalty daily  claims by day from now on; nobody may host it "
			"meanwhile\n",
		.notes = "Connects with owner_conninfo where the database has one. password_file is not used then: it "
			 "is the other role's; give this one a passfile= or ~/.pgpass.",
		.options = migrate_options,
		.actions = migrate_actions,
		.first_action_is_default = true,
	},
	{
		.name = "parked",
		.help = "messages that could not be applied: look at them, try again, drop them",
		.examples =
			"  effectd parked list                     what is parked, why, and what is claimed meanwhile\n"
			"  effectd parked show 17                  one of them with all its properties\n"
			"  effectd parked show 17 --body >body     its body, byte for byte\n"
			"  effectd parked retry --reason sql --dry-run\n"
			"                                          which would be applied, which change nothing\n"
			"  effectd parked retry --reason sql       the daemon applies them within seconds\n"
			"  effectd parked drop 17 18 --yes\n"
			"  effectd parked drop --consumer loyalty --older-than 90d --dry-run\n",
		.notes = "A retry is applied once, like a delivery: a key that is claimed is a duplicate. Exit code 1: "
			 "an id is not there, or a row was left because it is older than the window.",
		.options = parked_options,
		.actions = parked_actions,
	},
	{
		.name = "outbox",
		.help = "effects outside the database: what waits, what failed; try again, drop",
		.examples = "  effectd outbox list --status dead       what no relay could deliver, with the answers\n"
			    "  effectd outbox show 17                  one row with its payload\n"
			    "  effectd outbox retry --kind send_receipt --status dead\n"
			    "                                          a relay calls them again, with the same keys\n"
			    "  effectd outbox drop 17 18 --yes\n",
		.notes = "A row that is sent is never called again. Exit code 1: an id is not there.",
		.options = outbox_options,
		.actions = outbox_actions,
	},
	{
		.name = "retention",
		.arguments = "",
		.help = "what of the claims is older than its consumer's window; delete it now",
		.examples = "  effectd retention                     windows, oldest claims, what would go\n"
			    "  effectd retention --once              one pass now; the daemon does the same by itself\n"
			    "  effectd retention --forget loyalty --yes\n",
		.notes = "Windows are those that consumers registered on the database when they started. --forget "
			 "makes everything applicable again that a queue still holds of a consumer; it is refused "
			 "while that is hosted, or has parked messages.",
		.options = retention_options,
		.run = cmd_retention,
	},
	{
		.name = "plugin",
		.help = "what can be loaded; what one plugin declares; a new plugin's project",
		.examples = "  effectd plugin list                     the files of plugin_dir, refused ones with the "
			    "reason\n"
			    "  effectd plugin show loyalty_points.so   options and statements of a file there\n"
			    "  effectd plugin show ./build/mine.so --json\n"
			    "  effectd plugin new refunds              a project in ./refunds that builds and runs\n"
			    "  effectd plugin new refunds --lang sql   c (default), c++, rust, or sql: no code\n",
		.notes = "Each file is loaded and checked as the daemon does it. Exit code 1: one was refused.",
		.options = plugin_options,
		.actions = plugin_actions,
	},
	{
		.name = "explain",
		.arguments = "KEY",
		.help = "the story of one key: claim, attempts, parked and outbox rows",
		.examples = "  effectd explain --consumer loyalty order-completed:17\n"
			    "  effectd explain --consumer loyalty order-completed:17 --json | jq .claimed\n",
		.notes = "Only looks. The key is the plugin's: `effectd parked list` and the log show keys.",
		.options = explain_options,
		.run = cmd_explain,
	},
	{
		.name = "feed",
		.arguments = "[FILE]",
		.help = "apply the lines of a file, each once, with the daemon's claims and no broker",
		.examples = "  effectd feed --consumer loyalty orders.jsonl          a JSON body each line\n"
			    "  effectd feed --consumer loyalty orders.jsonl.zst      also .gz, .xz and .bz2\n"
			    "  psql -AtXc 'SELECT body FROM lost' | effectd feed --consumer loyalty\n"
			    "  mv loyalty.rejects.jsonl again.jsonl                  it is emptied at the start\n"
			    "  jq -r .text again.jsonl | effectd feed --consumer loyalty\n",
		.notes = "What a delivery or an earlier feed applied is a duplicate, so a feed that was broken off is "
			 "simply run again. Nothing is parked: what cannot be applied goes to the rejects' file with "
			 "line number and reason, and the exit code is 1. The daemon may run meanwhile.",
		.options = feed_options,
		.run = cmd_feed,
	},
	{
		.name = "try",
		.arguments = "[FILE]",
		.help = "a dry run: what would a message do? Always rolled back",
		.examples = "  effectd try --consumer loyalty order.jsonl      key, claim, statements, rows, outcome\n"
			    "  jq -c . order.json | effectd try --consumer loyalty\n"
			    "  effectd try --consumer loyalty --twice --golden golden.jsonl samples.jsonl   a plugin's "
			    "test\n",
		.notes = "A line is a JSON body. Each one sees the tables as they are, in a transaction of its own; it "
			 "waits a second at most for locks. Only sequences advance. Exit code 1: one would be parked, "
			 "held back, or stop the consumer.",
		.options = try_options,
		.run = cmd_try,
	},
	{
		.name = "check",
		.arguments = "",
		.help = "find every mistake in configuration and plugins; --live: ask the servers too",
		.examples =
			"  effectd check                           before a start or a reload\n"
			"  effectd check --live                    before the first start, and after a change of SQL\n"
			"  effectd check --json | jq -r '.problems[].text'\n",
		.notes = "Problems go to stderr as file:line: [section] key: text. Nothing is changed anywhere; the "
			 "targets of relays are connected to, and not called.",
		.options = check_options,
		.run = cmd_check,
	},
	{
		.name = "config",
		.help = "the effective configuration, or every key at its default",
		.examples =
			"  effectd config show                     each value, and the file and line it comes from\n"
			"  effectd config show --json | jq '.\"consumer:loyalty\".workers'\n"
			"  effectd config default > effectd.ini    a complete sample to start from\n",
		.notes = "Secrets are masked.",
		.options = config_options,
		.actions = config_actions,
	},
	{
		.name = "completion",
		.help = "what a shell needs to complete effectd's commands, options and names",
		.examples = "  eval \"$(effectd completion bash)\"       in ~/.bashrc; `zsh` in ~/.zshrc\n"
			    "  effectd completion fish | source        in ~/.config/fish/config.fish\n"
			    "  effectd completion words -- parked re   what a script asks at each Tab\n",
		.notes = "`meson install` puts the three scripts where the shells look for them. Names of consumers, "
			 "relays and databases are those of the configuration, as far as it can be read.",
		.actions = completion_actions,
	},
	{
		.name = "version",
		.arguments = "",
		.help = "the version of effectd and of the plugin ABI",
		.examples = "  effectd version\n"
			    "  effectd version --json\n",
		.run = cmd_version,
	},
	{ NULL },
};

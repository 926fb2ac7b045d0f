/* effectd status: what the daemon tells of itself, as a table. */
#include "cli/ask.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MINUTE_S = 60, HOUR_S = 60 * MINUTE_S, DAY_S = 24 * HOUR_S };

/* Since then, as people say it. */
static void add_age(struct buffer *out, json_int_t since_s)
{
	const int64_t s = (int64_t)time(NULL) - since_s;
	if (s >= DAY_S)
		buffer_printf(out, "%" PRId64 "d %" PRId64 "h", s / DAY_S, s % DAY_S / HOUR_S);
	else if (s >= HOUR_S)
		buffer_printf(out, "%" PRId64 "h %" PRId64 "min", s / HOUR_S, s % HOUR_S / MINUTE_S);
	else if (s >= MINUTE_S)
		buffer_printf(out, "%" PRId64 "min", s / MINUTE_S);
	else
		buffer_printf(out, "%" PRId64 "s", s > 0 ? s : 0);
}

static void add_head(const json_t *all, struct buffer *out)
{
	const json_t *reloads = json_object_get(all, "reloads");
	buffer_printf(out, "effectd %s, pid %" JSON_INTEGER_FORMAT ", runs for ", ask_text(all, "version"),
		      ask_number(all, "pid"));
	add_age(out, ask_number(all, "since"));
	buffer_printf(out, ", %s\n", json_is_true(json_object_get(all, "ready")) ? "ready" : "not ready");
	size_t i;
	json_t *reason;
	json_array_foreach(json_object_get(all, "reasons"), i, reason)
		buffer_printf(out, "  %s\n", json_string_value(reason));
	buffer_printf(out, "configuration %s, loaded ", ask_text(all, "config_file"));
	add_age(out, ask_number(all, "config_loaded"));
	buffer_printf(out, " ago; reloads: %" JSON_INTEGER_FORMAT " applied, %" JSON_INTEGER_FORMAT " refused%s\n",
		      ask_number(reloads, "applied"), ask_number(reloads, "refused"),
		      json_is_true(json_object_get(reloads, "last_refused"))
			      ? ", the last one as well: `effectd check` says why"
			      : "");
}

static void add_consumer(const json_t *c, struct buffer *out)
{
	const json_t *outcomes = json_object_get(c, "outcomes"), *parked = json_object_get(c, "parked");
	const json_t *rate = json_object_get(c, "per_second");
	const json_int_t workers = ask_number(c, "workers");
	char rate_text[24] = "-", broker[48], database[48], rows[48] = "-";
	if (json_is_real(rate))
		snprintf(rate_text, sizeof(rate_text), "%.1f", json_real_value(rate));
	snprintf(broker, sizeof(broker), "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
		 ask_number(c, "broker_connections"), workers);
	snprintf(database, sizeof(database), "%" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT,
		 ask_number(c, "database_connections"), workers);
	if (json_is_object(parked))
		snprintf(rows, sizeof(rows), "%" JSON_INTEGER_FORMAT "+%" JSON_INTEGER_FORMAT,
			 ask_number(parked, "retry"), ask_number(parked, "dead"));
	buffer_printf(out,
		      "%-20s %-10s %6s %8s %9s %10" JSON_INTEGER_FORMAT " %10" JSON_INTEGER_FORMAT
		      " %9.2f%% %9s %8" JSON_INTEGER_FORMAT "  ",
		      ask_text(c, "name"), ask_text(c, "state"), broker, database, rate_text,
		      ask_number(c, "deliveries"), ask_number(outcomes, "applied"),
		      json_number_value(json_object_get(c, "duplicate_percent")), rows, ask_number(c, "inflight"));
	add_age(out, ask_number(c, "since"));
	buffer_puts(out, "\n");
}

static void add_consumers(const json_t *all, struct buffer *out)
{
	const json_t *consumers = json_object_get(all, "consumers");
	size_t i;
	json_t *c;
	if (json_array_size(consumers) == 0)
		return;
	buffer_printf(out, "\n%-20s %-10s %6s %8s %9s %10s %10s %10s %9s %8s  %s\n", "CONSUMER", "STATE", "BROKER",
		      "DATABASE", "PER SEC", "DELIVERIES", "APPLIED", "DUPLICATE", "PARKED", "IN HAND", "SINCE");
	json_array_foreach(consumers, i, c) add_consumer(c, out);
	buffer_puts(out, "PARKED: to be retried + dead. BROKER, DATABASE: sessions of workers.\n");
}

static void add_relays(const json_t *all, struct buffer *out)
{
	const json_t *relays = json_object_get(all, "relays");
	size_t i;
	json_t *r;
	if (json_array_size(relays) == 0)
		return;
	buffer_printf(out, "\n%-20s %-20s %9s %9s %9s %9s\n", "RELAY", "DATABASE", "PENDING", "DEAD", "UNDER WAY",
		      "SENT");
	json_array_foreach(relays, i, r) buffer_printf(
		out,
		"%-20s %-20s %9" JSON_INTEGER_FORMAT " %9" JSON_INTEGER_FORMAT " %9" JSON_INTEGER_FORMAT
		" %9" JSON_INTEGER_FORMAT "\n",
		ask_text(r, "name"), ask_text(r, "database"), ask_number(r, "pending"), ask_number(r, "dead"),
		ask_number(r, "under_way"), ask_number(json_object_get(r, "calls"), "sent"));
}

int cmd_status(struct cli *cli, int argc, char **argv)
{
	json_t *all = NULL;
	if (argc > 0)
		return cli_usage_error(cli, "unexpected argument %s", argv[0]);
	int rc = ask_daemon(cli, "status", &all);
	if (rc != EXIT_FINE)
		return rc;
	const bool ready = json_is_true(json_object_get(all, "ready"));
	if (cli->json) {
		rc = ask_print_json(cli, all);
	} else {
		struct buffer out = { 0 };
		add_head(all, &out);
		add_consumers(all, &out);
		add_relays(all, &out);
		json_decref(all);
		rc = cli_print(cli, &out);
	}
	return rc != EXIT_FINE ? rc : ready ? EXIT_FINE : EXIT_FAILED;
}

/* effectd try: shows what messages would do. With --golden and --twice it is a plugin's test. */
#include "base/log.h"
#include "base/text.h"
#include "base/wait.h"
#include "cli/cli.h"
#include "run/rehearsal.h"
#include "source/envelope.h"
#include "source/lines.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct work {
	const struct cli *cli;
	struct rehearsal *trial;
	struct input *input;
	FILE *golden, *write_golden; /* NULL: not asked for */
	const char *golden_name;
	bool envelope;
	json_t *days;         /* by key, with claims = daily; else NULL */
	size_t messages, bad; /* bad: what makes the exit code 1 */
};

/* --- for people --- */

static void add_text(struct buffer *out, const json_t *value)
{
	if (json_is_string(value)) {
		cli_add_clean(out, json_string_value(value), json_string_length(value));
		return;
	}
	AUTOFREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	cli_add_clean(out, text ? text : "", text ? strlen(text) : 0);
}

static void begin_line(struct buffer *out, const json_t *name)
{
	buffer_puts(out, "  ");
	const size_t start = out->len;
	add_text(out, name);
	const int used = (int)(out->len - start);
	buffer_printf(out, "%*s ", used < 14 ? 14 - used : 0, "");
}

static void add_named(struct buffer *out, const char *name, const json_t *value)
{
	json_t *text = json_string(name);
	begin_line(out, text);
	json_decref(text);
	add_text(out, value);
	buffer_puts(out, "\n");
}

static void add_error(struct buffer *out, const json_t *error)
{
	add_text(out, json_object_get(error, "text"));
	if (json_object_get(error, "sqlstate"))
		buffer_printf(out, " (SQLSTATE %s)", json_string_value(json_object_get(error, "sqlstate")));
}

static void add_statement(struct buffer *out, const json_t *statement)
{
	const json_t *parameters = json_object_get(statement, "parameters"), *rows = json_object_get(statement, "rows"),
		     *error = json_object_get(statement, "error");
	begin_line(out, json_object_get(statement, "name"));
	for (size_t i = 0; i < json_array_size(parameters); i++) {
		buffer_printf(out, "%s$%zu = ", i ? ", " : "", i + 1);
		add_text(out, json_array_get(parameters, i));
	}
	if (rows)
		buffer_printf(out, ": %" JSON_INTEGER_FORMAT " %s", json_integer_value(rows),
			      json_integer_value(rows) == 1 ? "row" : "rows");
	buffer_puts(out, rows ? "\n" : error ? ": " : ": not run\n");
	if (error) {
		add_error(out, error);
		buffer_puts(out, "\n");
	}
}

static void add_report(struct buffer *out, const json_t *report, const char *title)
{
	const json_t *key = json_object_get(report, "key"), *time = json_object_get(report, "event_time"),
		     *parked = json_object_get(report, "parked"), *error = json_object_get(report, "error"),
		     *outbox = json_object_get(report, "outbox"), *statements = json_object_get(report, "statements"),
		     *took = json_object_get(report, "took_ms");
	buffer_printf(out, "%s: %s\n", title, json_string_value(json_object_get(report, "outcome")));
	if (json_is_string(key))
		add_named(out, "key", key);
	if (json_is_string(time))
		add_named(out, "event time", time);
	add_named(out, "claim", json_object_get(report, "claim"));
	if (json_object_get(report, "verdict"))
		add_named(out, "verdict", json_object_get(report, "verdict"));
	if (json_object_get(report, "text"))
		add_named(out, "it says", json_object_get(report, "text"));
	for (size_t i = 0; i < json_array_size(statements); i++)
		add_statement(out, json_array_get(statements, i));
	for (size_t i = 0; i < json_array_size(outbox); i++)
		add_named(out, "outbox row", json_array_get(outbox, i));
	if (parked)
		buffer_printf(out, "  parked as      %s, %s: ", json_string_value(json_object_get(parked, "status")),
			      json_string_value(json_object_get(parked, "reason")));
	if (parked)
		add_text(out, json_object_get(parked, "detail"));
	if (error) {
		buffer_puts(out, "  because        ");
		add_error(out, error);
	}
	if (parked || error)
		buffer_puts(out, "\n");
	if (took)
		buffer_printf(out, "  took           %.1f ms\n", json_number_value(took));
}

/* --- judging --- */

static const char *outcome_of(const json_t *report)
{
	return json_string_value(json_object_get(report, "outcome"));
}

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(word, *words) == 0)
			return true;
	return false;
}

/* A second application must leave nothing: that is what the claim, the natural key or the version guard is for. */
static bool twice_is_once(const json_t *report)
{
	static const char *const once[] = { "duplicate", "stale", "ignored", NULL };
	const json_t *second = json_object_get(report, "second");
	return !second || is_one_of(outcome_of(second), once) ||
	       (strcmp(outcome_of(report), "applied") != 0 && strcmp(outcome_of(report), outcome_of(second)) == 0);
}

/* A publisher that sends twice gives the copies ids of their own. */
static void warn_of_message_id(const struct work *w, int64_t number, const struct message *m, const json_t *report)
{
	struct arena arena;
	arena_init(&arena);
	struct message copy = *m;
	message_prepare(&copy, &arena);
	const struct str id = message_properties(&copy)->message_id;
	const json_t *key = json_object_get(report, "key");
	if (id.len > 0 && json_is_string(key) &&
	    memmem(json_string_value(key), json_string_length(key), id.data, id.len))
		cli_message(w->cli,
			    "line %" PRId64
			    ": the key is made of the message id; when a publisher sends an event twice, the "
			    "copies have different ids, and both are applied",
			    number);
	arena_finish(&arena);
}

/* The key's event time must be the event's own, whoever asks and when: with claims = daily copies meet on its day. */
static void judge_time(struct work *w, int64_t number, const json_t *report)
{
	const char *time = json_string_value(json_object_get(report, "event_time")),
		   *key = json_string_value(json_object_get(report, "key"));
	const json_t *second = json_object_get(report, "second");
	if (second && !json_equal(json_object_get(report, "event_time"), json_object_get(second, "event_time"))) {
		cli_message(w->cli,
			    "line %" PRId64
			    ": the second time its event has another time: the plugin must take it from "
			    "the message, not from a clock",
			    number);
		w->bad++;
	}
	if (!w->days || !key || !time)
		return;
	const json_t *before = json_object_get(w->days, key);
	json_t *day = json_stringn(time, strcspn(time, "T"));
	if (before && !json_equal(before, day)) {
		cli_message(w->cli,
			    "line %" PRId64 ": its event is of %s, that of a line before with the same key of %s: with "
			    "claims = daily both would be applied; one key must have one day",
			    number, json_string_value(day), json_string_value(before));
		w->bad++;
	}
	json_object_set_new(w->days, key, day);
}

static bool read_golden(struct work *w, json_t **ret)
{
	AUTOFREE char *line = NULL;
	size_t room = 0;
	const ssize_t len = w->golden ? getline(&line, &room, w->golden) : -1;
	*ret = len > 0 ? json_loadb(line, (size_t)len, 0, NULL) : NULL;
	return *ret;
}

static void print_difference(const struct work *w, int64_t number, const json_t *expected, const json_t *got)
{
	AUTOFREE char *a = expected ? json_dumps(expected, JSON_SORT_KEYS) : NULL;
	AUTOFREE char *b = json_dumps(got, JSON_SORT_KEYS);
	cli_message(w->cli, "line %" PRId64 " differs from %s", number, w->golden_name);
	fprintf(stderr, "  expected %s\n  found    %s\n", a ? a : "nothing", b ? b : "");
}

static void compare(struct work *w, int64_t number, json_t *report)
{
	json_object_del(report, "took_ms"); /* everything else is the same each time */
	json_object_del(report, "second");  /* --twice has judged it */
	if (w->write_golden) {
		AUTOFREE char *text = json_dumps(report, JSON_SORT_KEYS);
		fprintf(w->write_golden, "%s\n", text ? text : "");
	}
	if (!w->golden)
		return;
	json_t *expected = NULL;
	if (!read_golden(w, &expected) || !json_equal(expected, report)) {
		print_difference(w, number, expected, report);
		w->bad++;
	}
	json_decref(expected);
}

/* --- messages --- */

static int print_report(const struct work *w, int64_t number, const json_t *report)
{
	struct buffer out = { 0 };
	char title[48];
	snprintf(title, sizeof(title), "line %" PRId64, number);
	if (w->golden || w->write_golden)
		return EXIT_FINE; /* a test speaks of differences only */
	if (w->cli->json) {
		AUTOFREE char *text = json_dumps(report, 0);
		buffer_printf(&out, "%s\n", text ? text : "");
		return cli_print(w->cli, &out);
	}
	add_report(&out, report, title);
	if (json_object_get(report, "second"))
		add_report(&out, json_object_get(report, "second"), "  the second time");
	return cli_print(w->cli, &out);
}

static int report_line(struct work *w, const struct line *line, const struct message *m)
{
	static const char *const fine[] = { "applied", "duplicate", "stale", "ignored", NULL };
	json_t *report = NULL;
	struct error err = { 0 };
	if (rehearsal_run(w->trial, m, &report, &err) != ST_OK)
		return cli_failure(w->cli, &err);
	json_object_set_new(report, "line", json_integer(line->number));
	w->messages++;
	warn_of_message_id(w, line->number, m, report);
	judge_time(w, line->number, report);
	if (!twice_is_once(report)) {
		cli_message(w->cli, "line %" PRId64 ": applied twice is not applied once: the second time it is %s",
			    line->number, outcome_of(json_object_get(report, "second")));
		w->bad++;
	}
	w->bad += !w->golden && !w->write_golden && !is_one_of(outcome_of(report), fine);
	const int rc = print_report(w, line->number, report);
	compare(w, line->number, report);
	json_decref(report);
	return rc;
}

static int try_line(struct work *w, const struct line *line)
{
	struct message m = { .body = { line->text, line->len }, .attempt = 1 };
	json_t *envelope = NULL;
	char text[512] = "it is longer than max_body allows";
	int rc = EXIT_FINE;
	if (line->too_long || (w->envelope && !envelope_read(m.body, &m, &envelope, text, sizeof(text)))) {
		cli_message(w->cli, "line %" PRId64 ": %s", line->number, text);
		w->bad++;
	} else {
		rc = report_line(w, line, &m);
	}
	json_decref(envelope);
	return rc;
}

static int try_all(struct work *w)
{
	int rc = EXIT_FINE;
	while (rc == EXIT_FINE && input_wait(w->input, WAIT_FOREVER)) {
		AUTOFREE struct line *line = input_take(w->input, 1);
		rc = try_line(w, line);
	}
	struct error err = { 0 };
	if (rc == EXIT_FINE && input_status(w->input, &err) != ST_OK)
		rc = cli_failure(w->cli, &err);
	json_t *more;
	if (rc == EXIT_FINE && w->golden && read_golden(w, &more)) {
		cli_message(w->cli, "%s goes on behind the last message", w->golden_name);
		json_decref(more);
		w->bad++;
	}
	if (rc == EXIT_FINE && w->golden)
		printf("%zu messages, %zu differ\n", w->messages, w->bad);
	return rc != EXIT_FINE ? rc : w->bad > 0 ? EXIT_FAILED : EXIT_FINE;
}

/* --- opening --- */

static int open_golden(const struct cli *cli, const char *option, const char *mode, FILE **ret)
{
	const char *name = cli_option_value(cli, option, 0);
	if (!name || (*ret = fopen(name, mode)))
		return EXIT_FINE;
	cli_message(cli, "cannot open %s: %m", name);
	return EXIT_CONFIGURATION;
}

static int try_consumer(const struct cli *cli, const struct rehearsal_params *params, const char *file)
{
	struct error err = { 0 };
	struct work w = { .cli = cli,
			  .envelope = cli_option_given(cli, "envelope"),
			  .days = params->consumer->config->claims == CLAIMS_DAILY ? json_object() : NULL,
			  .golden_name = cli_option_value(cli, "golden", 0) };
	int rc = open_golden(cli, "golden", "re", &w.golden);
	if (rc == EXIT_FINE)
		rc = open_golden(cli, "write-golden", "we", &w.write_golden);
	const size_t longest = lines_longest(w.envelope, (size_t)params->consumer->config->max_body_bytes);
	if (rc == EXIT_FINE && input_open(&w.input, file, longest, &err) != ST_OK)
		rc = cli_failure(cli, &err);
	if (rc == EXIT_FINE && rehearsal_open(&w.trial, params, &err) != ST_OK)
		rc = cli_failure(cli, &err);
	if (rc == EXIT_FINE)
		rc = try_all(&w);
	rehearsal_close(w.trial);
	input_close(w.input);
	json_decref(w.days);
	if (w.golden)
		fclose(w.golden);
	if (w.write_golden && fclose(w.write_golden) != 0 && rc == EXIT_FINE) {
		cli_message(cli, "writing %s: %m", cli_option_value(cli, "write-golden", 0));
		rc = EXIT_FAILED;
	}
	return rc;
}

static int load_and_try(const struct cli *cli, const struct config *config, const char *file)
{
	CLEANUP(cli_consumer_destroy) struct consumer *consumer = NULL;
	const int rc = cli_load_consumer(cli, config, &consumer);
	if (rc != EXIT_FINE)
		return rc;
	const struct rehearsal_params params = {
		.process = &config->process,
		.consumer = consumer,
		.ignore_claim = cli_option_given(cli, "ignore-claim"),
		.twice = cli_option_given(cli, "twice"),
	};
	return try_consumer(cli, &params, file);
}

int cmd_try(struct cli *cli, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage_error(cli, "one file at a time: cat joins several");
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	log_setup(LOG_ERROR, (enum log_format)config->process.log_format); /* the report says all */
	rc = load_and_try(cli, config, argc == 1 && strcmp(argv[0], "-") != 0 ? argv[0] : NULL);
	config_destroy(config);
	return rc;
}

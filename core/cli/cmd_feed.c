/* effectd feed: backfill and replay from a file. Progress goes to stderr, the summary to stdout. */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "run/feed.h"
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	WORKERS_MOST = 64,
	DRAW_MS = 200,       /* on a terminal */
	SAY_MS = 10 * 1000,  /* elsewhere */
	WAITS_MS = 2 * 1000, /* there, the least time between two lines when it begins to wait */
};

static uint64_t outcome(const struct consumer *c, enum outcome which)
{
	return counter_get(&c->counters.outcomes[which]);
}

static uint64_t rejected(const struct consumer *c)
{
	return outcome(c, OUTCOME_PARKED) + outcome(c, OUTCOME_RETRIED);
}

static uint64_t settled(const struct consumer *c)
{
	uint64_t n = 0;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		n += outcome(c, (enum outcome)i);
	return n;
}

/* --- progress --- */

static void add_bar(struct buffer *out, double share)
{
	enum { WIDTH = 24 };
	const int full = (int)(share * WIDTH);
	buffer_puts(out, "[");
	for (int i = 0; i < WIDTH; i++)
		buffer_puts(out, i < full ? "#" : " ");
	buffer_printf(out, "] %3d%%  ", (int)(share * 100));
}

/* What was read is a little ahead of what is applied; the bar shows the reading. */
static void say_progress(const struct feed_progress *p, const struct consumer *c, int64_t begun_ms, bool draw)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	const double seconds = (double)(clock_mono_ms() - begun_ms) / 1000;
	const double rate = seconds > 0 ? (double)settled(c) / seconds : 0;
	if (draw)
		buffer_puts(&out, "\r\033[K");
	if (p->bytes_total > 0) {
		const double share = (double)p->bytes / (double)p->bytes_total;
		add_bar(&out, share);
		if (share > 0.001 && share < 1) {
			const int64_t rest = (int64_t)(seconds / share - seconds);
			buffer_printf(&out, "%" PRId64 ":%02" PRId64 " left  ", rest / 60, rest % 60);
		}
	}
	buffer_printf(&out,
		      "%" PRIu64 " lines, %.0f/s: %" PRIu64 " applied, %" PRIu64 " duplicate, %" PRIu64 " rejected",
		      settled(c), rate, outcome(c, OUTCOME_APPLIED), outcome(c, OUTCOME_DUPLICATE), rejected(c));
	if (p->waiting[0])
		buffer_printf(&out, "; waiting: %s", p->waiting);
	if (!draw)
		buffer_puts(&out, "\n");
	fputs(buffer_text(&out), stderr);
}

static sigset_t end_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	return signals;
}

struct onlooker {
	struct feed *feed;
	const struct consumer *consumer;
	int64_t begun_ms, said_ms;
	bool draw;    /* on a terminal */
	bool waiting; /* and it was said */
};

static void look_on(struct onlooker *o, bool last)
{
	struct feed_progress p;
	feed_progress(o->feed, &p);
	o->waiting = o->waiting && p.waiting[0];
	const bool begins = p.waiting[0] && !o->waiting;
	const int64_t now = clock_mono_ms();
	if (!last && now < o->said_ms + (o->draw ? DRAW_MS : begins ? WAITS_MS : SAY_MS))
		return;
	say_progress(&p, o->consumer, o->begun_ms, o->draw);
	o->said_ms = now;
	o->waiting = p.waiting[0];
}

/* Until it is over. The first SIGINT or SIGTERM ends it in order, the second one at once. */
static void watch(struct feed *f, const struct consumer *c, int64_t begun_ms)
{
	struct onlooker o = {
		.feed = f, .consumer = c, .begun_ms = begun_ms, .said_ms = begun_ms, .draw = isatty(STDERR_FILENO)
	};
	const sigset_t signals = end_signals();
	while (!feed_wait(f, DRAW_MS)) {
		if (sigtimedwait(&signals, NULL, &(struct timespec){ 0 }) > 0) {
			feed_stop(f);
			pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
		}
		look_on(&o, false);
	}
	if (o.draw) {
		look_on(&o, true);
		fputs("\n", stderr);
	}
}

/* --- the end --- */

static int print_summary(const struct cli *cli, const struct consumer *c, const char *rejects, int64_t took_ms)
{
	struct buffer out = { 0 };
	const double seconds = took_ms > 0 ? (double)took_ms / 1000 : 0.001;
	if (!cli->json) {
		buffer_printf(&out, "%" PRIu64 " line%s in %.1f s (%.0f/s):", settled(c), settled(c) == 1 ? "" : "s",
			      seconds, (double)settled(c) / seconds);
		for (int i = 0; i < OUTCOME_RETRIED; i++)
			buffer_printf(&out, " %" PRIu64 " %s,", outcome(c, (enum outcome)i), outcome_names[i]);
		buffer_printf(&out, " %" PRIu64 " rejected%s%s\n", rejected(c), rejected(c) ? ", see " : "",
			      rejected(c) ? rejects : "");
		return cli_print(cli, &out);
	}
	json_t *all = json_pack("{sI sf sf}", "lines", (json_int_t)settled(c), "seconds", seconds, "per_second",
				(double)settled(c) / seconds);
	for (int i = 0; i < OUTCOME_RETRIED; i++)
		json_object_set_new(all, outcome_names[i], json_integer((json_int_t)outcome(c, (enum outcome)i)));
	json_object_set_new(all, "rejected", json_integer((json_int_t)rejected(c)));
	json_object_set_new(all, "rejects_file", rejected(c) ? json_string(rejects) : json_null());
	AUTOFREE char *text = json_dumps(all, JSON_INDENT(2));
	json_decref(all);
	buffer_printf(&out, "%s\n", text ? text : "");
	return cli_print(cli, &out);
}

static int feed(const struct cli *cli, const struct feed_params *params)
{
	struct feed *f = NULL;
	struct error err = { 0 };
	const sigset_t signals = end_signals();
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the workers inherit it; sigtimedwait() takes what comes */
	signal(SIGPIPE, SIG_IGN);
	const int64_t begun_ms = clock_mono_ms();
	enum status st = feed_start(&f, params, &err);
	if (st != ST_OK)
		return cli_failure(cli, &err);
	watch(f, params->consumer, begun_ms);
	st = feed_finish(f, &err);
	const int64_t took_ms = clock_mono_ms() - begun_ms;
	feed_destroy(f);
	int rc = print_summary(cli, params->consumer, params->rejects_file, took_ms);
	if (st != ST_OK)
		return cli_failure(cli, &err);
	return rc == EXIT_FINE && rejected(params->consumer) > 0 ? EXIT_FAILED : rc;
}

static int choose_workers(const struct cli *cli, const struct config_consumer *config, int *ret)
{
	const char *given = cli_option_value(cli, "workers", 0);
	int64_t workers = config->order == ORDER_QUEUE ? 1 : config->workers;
	if (given && (!text_parse_int(given, &workers) || workers < 1 || workers > WORKERS_MOST))
		return cli_usage_error(cli, "--workers must be between 1 and %d", WORKERS_MOST);
	if (config->order == ORDER_QUEUE && workers > 1)
		return cli_usage_error(cli, "%s has order = queue, which one worker keeps", config->name);
	*ret = (int)workers;
	return EXIT_FINE;
}

/* file NULL: stdin. The rejects would be emptied before they are read. */
static bool reads_its_rejects(const char *file, const char *rejects)
{
	struct stat in, out;
	return (file ? stat(file, &in) : fstat(STDIN_FILENO, &in)) == 0 && stat(rejects, &out) == 0 &&
	       S_ISREG(out.st_mode) && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static int feed_consumer(const struct cli *cli, const struct config *config, const char *file)
{
	CLEANUP(cli_consumer_destroy) struct consumer *consumer = NULL;
	int rc = cli_load_consumer(cli, config, &consumer);
	if (rc != EXIT_FINE)
		return rc;
	char rejects_file[96];
	const char *rejects = cli_option_value(cli, "rejects", 0);
	snprintf(rejects_file, sizeof(rejects_file), "%s.rejects.jsonl", consumer->config->name);
	struct feed_params params = {
		.process = &config->process,
		.consumer = consumer,
		.file = file,
		.rejects_file = rejects ? rejects : rejects_file,
		.envelope = cli_option_given(cli, "envelope"),
		.beyond_window = cli_option_given(cli, "beyond-window"),
	};
	if (reads_its_rejects(file, params.rejects_file))
		return cli_usage_error(cli, "%s is where rejected lines go: give it another name, or choose --rejects",
				       params.rejects_file);
	rc = choose_workers(cli, consumer->config, &params.workers);
	return rc == EXIT_FINE ? feed(cli, &params) : rc;
}

int cmd_feed(struct cli *cli, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage_error(cli, "one file at a time: cat joins several");
	const char *file = argc == 1 && strcmp(argv[0], "-") != 0 ? argv[0] : NULL;
	if (!file && isatty(STDIN_FILENO))
		cli_message(cli, "reading lines from the terminal; Ctrl-D ends them");
	struct config *config;
	int rc = cli_load_config(cli, &config);
	if (rc != EXIT_FINE)
		return rc;
	log_setup(LOG_ERROR,
		  (enum log_format)config->process.log_format); /* the summary and the rejects say the rest */
	rc = feed_consumer(cli, config, file);
	config_destroy(config);
	return rc;
}

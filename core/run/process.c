/* The main thread: everything is started here, then only signals and the clock are waited for. All threads have all
 * signals blocked; sigtimedwait() takes them here, so no handler ever runs. */
#include "run/process.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "run/keeper.h"
#include "run/monitor.h"
#include "run/summary.h"
#include "run/worker.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	EXIT_SOFTWARE = 70,   /* exit() inside a plugin is a crash, and must look like one to the service manager */
	END_MARGIN_MS = 1000, /* of drain_timeout: left for closing what does not answer */
	LAST_MOMENT_MS = 200, /* for all workers together, when nobody waits any longer */
};

struct process {
	const struct config *config;
	struct consumer *consumers;
	size_t consumer_count;
	struct worker **workers;
	size_t worker_count;
	struct keeper **keepers; /* of each database that the chosen consumers use */
	size_t keeper_count;
	struct worker_context context;
	struct monitor *monitor;
};

static volatile bool orderly; /* exit() is main's own */

static void on_exit_call(void)
{
	if (!orderly)
		_exit(EXIT_SOFTWARE);
}

static bool everything(const struct process_options *options)
{
	return options->consumer_count + options->relay_count == 0 && !options->retention;
}

static bool wanted(const struct process_options *options, const char *name)
{
	for (size_t i = 0; i < options->consumer_count; i++)
		if (strcmp(options->consumers[i], name) == 0)
			return true;
	return everything(options);
}

/* Chooses the consumers, loads their plugins, checks their settings: all problems in one run. */
static enum status prepare(struct process *p, const struct process_options *options, config_report *report,
			   void *report_arg, struct error *err)
{
	const struct config *config = p->config;
	size_t workers = 0, problems = 0;
	p->consumers = calloc(config->consumer_count + 1, sizeof(*p->consumers));
	if (!p->consumers)
		return error_oom(err);
	for (size_t i = 0; i < options->consumer_count; i++)
		if (!config_find_consumer(config, options->consumers[i]))
			return error_set(err, ST_INVALID, "there is no section [consumer:%s]", options->consumers[i]);
	for (size_t i = 0; i < config->consumer_count; i++) {
		if (!wanted(options, config->consumers[i].name))
			continue;
		struct consumer *c = &p->consumers[p->consumer_count++];
		const enum status st = consumer_init(c, &config->consumers[i], err);
		if (st != ST_OK)
			return st;
		problems += consumer_load(c, config->process.plugin_dir, report, report_arg);
		workers += (size_t)c->config->workers + 1; /* and the one for retries */
	}
	if (problems > 0)
		return error_set(err, ST_INVALID, "%zu problems, nothing was started", problems);
	const enum status st = relays_init(&p->context.relays, config, options->relays, options->relay_count,
					   everything(options), err);
	if (st != ST_OK)
		return st;
	if (p->consumer_count + p->context.relays.count == 0 && !options->retention)
		return error_set(err, ST_INVALID,
				 "neither a [consumer:NAME] nor a [relay:NAME] section: there is nothing to run");
	p->workers = calloc(workers + 1, sizeof(struct worker *));
	p->keepers = calloc(config->database_count + 1, sizeof(struct keeper *));
	return p->workers && p->keepers ? ST_OK : error_oom(err);
}

/* A process for some consumers only leaves retention to others, unless it is told. */
static enum status start_keepers(struct process *p, const struct process_options *options, struct error *err)
{
	const bool all = everything(options);
	for (size_t i = 0; i < p->config->database_count && (all || options->retention); i++) {
		const enum status st =
			keeper_start(&p->keepers[p->keeper_count], &p->config->databases[i], &p->context.stop, err);
		if (st != ST_OK)
			return st;
		const struct keeper *k = p->keepers[p->keeper_count++];
		for (size_t j = 0; j < p->consumer_count; j++)
			if (p->consumers[j].config->database == &p->config->databases[i])
				p->consumers[j].keeper_fd = keeper_fd(k);
	}
	return ST_OK;
}

static enum status start_workers(struct process *p, struct error *err)
{
	p->context.process = &p->config->process;
	pthread_mutex_init(&p->context.probation.inside, NULL);
	atomic_store(&p->context.probation.left, (int)p->consumer_count);
	for (size_t i = 0; i < p->consumer_count; i++) {
		for (int number = WORKER_RETRY; number <= p->consumers[i].config->workers; number++) {
			enum status st =
				worker_start(&p->workers[p->worker_count], &p->consumers[i], number, &p->context, err);
			if (st != ST_OK)
				return error_wrap(err, "consumer %s", p->consumers[i].config->name);
			p->worker_count++;
		}
	}
	return ST_OK;
}

/* Whoever watches must see the first worker already. */
static enum status start(struct process *p, const struct process_options *options, struct error *err)
{
	enum status st = start_keepers(p, options, err);
	const struct view view = {
		.config = p->config,
		.consumers = p->consumers,
		.consumer_count = p->consumer_count,
		.keepers = p->keepers,
		.keeper_count = p->keeper_count,
		.relays = &p->context.relays,
		.stop = &p->context.stop,
	};
	if (st == ST_OK)
		st = monitor_create(&p->monitor, &view, err);
	if (st == ST_OK)
		st = start_workers(p, err);
	if (st == ST_OK)
		st = relays_start(&p->context.relays, err);
	if (st == ST_OK)
		monitor_started(p->monitor);
	return st;
}

static int64_t end_margin_ms(const struct process *p)
{
	const int64_t quarter = p->config->process.drain_timeout_ms / 4;
	return quarter < END_MARGIN_MS ? quarter : END_MARGIN_MS;
}

static void give_order(struct process *p, enum stop order)
{
	const int64_t now = clock_mono_ms(), timeout = p->config->process.drain_timeout_ms;
	if (order == STOP_DRAIN) {
		atomic_store(&p->context.stop.fetch_until_ms, now + timeout / 2);
		atomic_store(&p->context.stop.deadline_ms, now + timeout - end_margin_ms(p));
	}
	atomic_store(&p->context.stop.order, (int)order);
	for (size_t i = 0; i < p->worker_count; i++)
		if (p->workers[i]) /* it has not ended yet */
			worker_wake(p->workers[i]);
	for (size_t i = 0; i < p->keeper_count; i++)
		keeper_wake(p->keepers[i]);
	relays_stop(&p->context.relays, order == STOP_NOW ? now : atomic_load(&p->context.stop.deadline_ms));
}

/* Waits for a signal until deadline_ms; 0 at the deadline. */
static int next_signal(const sigset_t *set, int64_t deadline_ms)
{
	const int64_t rest = deadline_ms - clock_mono_ms();
	if (rest <= 0)
		return 0;
	const int sig = sigtimedwait(set, NULL, &(struct timespec){ rest / 1000, rest % 1000 * 1000000 });
	return sig > 0 ? sig : 0;
}

static void serve(struct process *p, const sigset_t *signals)
{
	const int64_t interval = p->config->process.summary_interval_ms;
	int64_t next_summary = interval > 0 ? clock_mono_ms() + interval : WAIT_FOREVER;
	for (;;) {
		const int64_t wake = monitor_wake_ms(p->monitor);
		const int sig = next_signal(signals, wake < next_summary ? wake : next_summary);
		monitor_look(p->monitor);
		if (sig == SIGTERM || sig == SIGINT) {
			log_info("draining", LOG_STR("signal", sig == SIGTERM ? "SIGTERM" : "SIGINT"),
				 LOG_INT("timeout_ms", p->config->process.drain_timeout_ms));
			return;
		}
		if (sig == SIGHUP)
			log_warn("not_reloaded",
				 LOG_STR("next", "restart effectd to make it read its configuration again"));
		if (clock_mono_ms() >= next_summary) {
			for (size_t i = 0; i < p->consumer_count; i++)
				summary_log(p->consumers[i].config->name, &p->consumers[i].counters);
			monitor_tell_status(p->monitor);
			next_summary = clock_mono_ms() + interval;
		}
	}
}

/* Joins all threads; a second signal or the deadline ends the waiting. Returns how many workers and relays did not end:
 * they are inside plugin code, or in a call that waits for a broker that hangs. */
static size_t join_threads(struct process *p, const sigset_t *signals)
{
	const int64_t deadline = atomic_load(&p->context.stop.deadline_ms) + end_margin_ms(p) / 2;
	size_t left = p->worker_count;
	while ((left > 0 || !relays_join(&p->context.relays, 0)) && clock_mono_ms() < deadline) {
		const int sig = next_signal(signals, clock_mono_ms() + 20);
		monitor_look(p->monitor);
		if (sig == SIGTERM || sig == SIGINT) {
			give_order(p, STOP_NOW);
			break;
		}
		for (size_t i = 0; i < p->worker_count; i++)
			if (p->workers[i] && worker_join(p->workers[i], 0)) {
				p->workers[i] = NULL;
				left--;
			}
	}
	const int64_t last = clock_mono_ms() + LAST_MOMENT_MS;
	for (size_t i = 0; i < p->worker_count; i++)
		if (p->workers[i] && worker_join(p->workers[i], last)) {
			p->workers[i] = NULL;
			left--;
		}
	for (size_t i = 0; i < p->keeper_count; i++)
		left += !keeper_join(p->keepers[i], last);
	return left + !relays_join(&p->context.relays, last);
}

static void finish(struct process *p)
{
	for (size_t i = 0; i < p->keeper_count; i++)
		keeper_destroy(p->keepers[i]);
	for (size_t i = 0; p->consumers && i < p->consumer_count; i++)
		consumer_finish(&p->consumers[i]);
	free(p->consumers);
	free(p->workers);
	free(p->keepers);
	relays_finish(&p->context.relays);
}

enum status process_run(const struct config *config, const struct process_options *options, config_report *report,
			void *report_arg, struct error *err)
{
	struct process p = { .config = config };
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigset_t all;
	sigfillset(&all);
	/* Faults of the program itself must still end it. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	signal(SIGPIPE, SIG_IGN);
	atexit(on_exit_call);

	enum status st = prepare(&p, options, report, report_arg, err);
	if (st == ST_OK) {
		log_info("starting", LOG_STR("version", EFFECTD_VERSION), LOG_INT("consumers", p.consumer_count),
			 LOG_INT("relays", p.context.relays.count), LOG_INT("pid", getpid()));
		st = start(&p, options, err);
	}
	if (st == ST_OK)
		serve(&p, &signals);
	give_order(&p, STOP_DRAIN);
	if (st == ST_OK)
		monitor_stopping(p.monitor);
	const size_t unfinished = join_threads(&p, &signals);
	for (size_t i = 0; st == ST_OK && i < p.consumer_count; i++)
		summary_log(p.consumers[i].config->name, &p.consumers[i].counters);
	if (unfinished > 0) {
		/* What they hold is rolled back and goes back to its queue with their connections. */
		log_warn("ended_unfinished", LOG_INT("workers", unfinished));
		_exit(st == ST_OK ? 0 : EXIT_SOFTWARE);
	}
	if (st == ST_OK)
		log_info("stopped");
	monitor_destroy(p.monitor);
	finish(&p);
	orderly = true;
	return st;
}

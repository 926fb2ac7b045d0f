/* The main thread: everything is started here, then only signals, requests and the clock are waited for. */
#include "run/process.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "run/apply.h"
#include "run/summary.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
	EXIT_SOFTWARE = 70,   /* exit() inside a plugin is a crash, and must look like one to the service manager */
	END_MARGIN_MS = 1000, /* of drain_timeout: left for closing what does not answer */
	LAST_MOMENT_MS = 200, /* for all workers together, when nobody waits any longer */
};

static volatile bool orderly; /* exit() is main's own */

static void on_exit_call(void)
{
	if (!orderly)
		_exit(EXIT_SOFTWARE);
}

/* All threads have all signals blocked. */
static void block_signals(void)
{
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
}

/* A folder that cannot be used costs `status` and `reload`, and is no reason not to work. */
static enum status open_control(struct process *p, struct error *err)
{
	const enum status st = control_open(&p->control, p->config->process.runtime_dir, err);
	if (st != ST_INVALID)
		return st;
	log_warn("no_control", LOG_ERR(err),
		 LOG_STR("next", "effectd status and effectd reload do not work; set runtime_dir in [effectd]"));
	return ST_OK;
}

static size_t count_steps(const struct plan *plan, enum plan_kind kind)
{
	size_t n = 0;
	for (size_t i = 0; i < plan->count; i++)
		n += plan->steps[i].kind == kind;
	return n;
}

/* Whoever watches must see the first worker already. */
static enum status start(struct process *p, struct plan *plan, struct error *err)
{
	log_info("starting", LOG_STR("version", EFFECTD_VERSION),
		 LOG_INT("consumers", count_steps(plan, PLAN_CONSUMER)),
		 LOG_INT("relays", count_steps(plan, PLAN_RELAY)), LOG_INT("pid", getpid()));
	atomic_store(&p->context.probation.left, (int)count_steps(plan, PLAN_CONSUMER));
	enum status st = monitor_create(&p->monitor, &p->view, err);
	if (st == ST_OK)
		st = plan_apply(plan, p, err);
	if (st != ST_OK)
		return st;
	pthread_mutex_lock(&p->view.lock);
	p->view.started = true;
	pthread_mutex_unlock(&p->view.lock);
	monitor_started(p->monitor);
	return ST_OK;
}

int64_t process_end_margin_ms(const struct process *p)
{
	const int64_t quarter = p->config->process.drain_timeout_ms / 4;
	return quarter < END_MARGIN_MS ? quarter : END_MARGIN_MS;
}

struct drain process_drain(const struct process *p)
{
	const int64_t now = clock_mono_ms(), timeout = p->config->process.drain_timeout_ms;
	return (struct drain){ now + timeout / 2, now + timeout - process_end_margin_ms(p) };
}

static void give_order(struct process *p, enum stop order)
{
	const struct drain drain = process_drain(p);
	if (order == STOP_DRAIN)
		atomic_store(&p->stop.deadline_ms, drain.deadline_ms);
	atomic_store(&p->stop.order, (int)order);
	for (size_t i = 0; i < p->view.consumer_count; i++)
		crew_stop(p->view.consumers[i], order, drain.fetch_until_ms, drain.deadline_ms);
	for (size_t i = 0; i < p->view.keeper_count; i++)
		keeper_stop(p->view.keepers[i]);
	relays_stop(&p->context.relays, order == STOP_NOW ? clock_mono_ms() : drain.deadline_ms);
}

static void tell_summaries(const struct process *p)
{
	for (size_t i = 0; i < p->view.consumer_count; i++)
		summary_log(p->view.consumers[i]->config->name, &p->view.consumers[i]->counters);
}

static void serve(struct process *p)
{
	int64_t told_ms = clock_mono_ms();
	while (p->ends == 0) {
		const int64_t interval = p->config->process.summary_interval_ms;
		const int64_t next_summary = interval > 0 ? told_ms + interval : WAIT_FOREVER;
		events_wait(p, next_summary);
		if (p->ends == 0 && p->reload_wanted) {
			p->reload_wanted = false;
			reload(p, false, NULL);
		}
		if (p->ends == 0 && p->request.fd >= 0)
			reload(p, strcmp(p->request.line, "reload") != 0, &p->request);
		if (clock_mono_ms() >= next_summary) {
			tell_summaries(p);
			monitor_tell_status(p->monitor);
			told_ms = clock_mono_ms();
		}
	}
	log_info("draining", LOG_STR("signal", p->end_signal),
		 LOG_INT("timeout_ms", p->config->process.drain_timeout_ms));
}

static size_t join_crews(struct process *p, int64_t deadline_ms)
{
	size_t left = 0;
	for (size_t i = 0; i < p->view.consumer_count; i++)
		left += crew_join(p->view.consumers[i], deadline_ms);
	return left;
}

static size_t join_keepers(struct keeper *const *keepers, size_t count, int64_t deadline_ms)
{
	size_t left = 0;
	for (size_t i = 0; i < count; i++)
		left += !keeper_join(keepers[i], deadline_ms);
	return left;
}

/* Joins all threads; a second signal or the deadline ends the waiting. Returns how many did not end: they are inside
 * plugin code, or in a call that waits for a broker that hangs. */
static size_t join_threads(struct process *p)
{
	const int64_t deadline = atomic_load(&p->stop.deadline_ms) + process_end_margin_ms(p) / 2;
	const unsigned ends = p->ends;
	while ((join_crews(p, 0) > 0 || !relays_join(&p->context.relays, 0)) && clock_mono_ms() < deadline) {
		events_wait(p, clock_mono_ms() + 20);
		if (p->ends > ends) {
			give_order(p, STOP_NOW);
			break;
		}
	}
	const int64_t last = clock_mono_ms() + LAST_MOMENT_MS;
	return join_crews(p, last) + join_keepers(p->view.keepers, p->view.keeper_count, last) +
	       join_keepers(p->retired, p->retired_count, last) + !relays_join(&p->context.relays, last);
}

static void finish(struct process *p)
{
	control_close(p->control);
	monitor_destroy(p->monitor);
	for (size_t i = 0; i < p->view.keeper_count; i++)
		keeper_destroy(p->view.keepers[i]);
	for (size_t i = 0; i < p->retired_count; i++)
		keeper_destroy(p->retired[i]);
	for (size_t i = 0; i < p->view.consumer_count; i++)
		crew_destroy(p->view.consumers[i]);
	free(p->view.consumers);
	free(p->view.keepers);
	free(p->retired);
	relays_finish(&p->context.relays);
	pthread_mutex_destroy(&p->view.lock);
	pthread_mutex_destroy(&p->context.probation.inside);
	events_close(p);
	config_destroy(p->config);
}

static void init(struct process *p, struct config *config, const struct process_options *options)
{
	*p = (struct process){ .options = options, .config = config_hold(config), .signal_fd = -1 };
	p->started_s = clock_real_us() / 1000000;
	pthread_mutex_init(&p->view.lock, NULL);
	pthread_mutex_init(&p->context.probation.inside, NULL);
	relays_init(&p->context.relays);
	p->view.config = config;
	p->view.relays = &p->context.relays;
	p->view.stop = &p->stop;
}

enum status process_run(struct config *config, const struct process_options *options, config_report *report,
			void *report_arg, struct error *err)
{
	struct process p;
	struct plan plan = { 0 };
	init(&p, config, options);
	block_signals();
	atexit(on_exit_call);

	enum status st = events_open(&p, err);
	if (st == ST_OK)
		st = plan_make(&plan, &p, config, report, report_arg, err);
	if (st == ST_OK)
		st = open_control(&p, err);
	if (st == ST_OK)
		st = start(&p, &plan, err);
	plan_finish(&plan);
	if (st == ST_OK)
		serve(&p);
	give_order(&p, STOP_DRAIN);
	if (st == ST_OK)
		monitor_stopping(p.monitor);
	const size_t unfinished = p.monitor ? join_threads(&p) : 0;
	if (st == ST_OK)
		tell_summaries(&p);
	if (unfinished > 0) {
		/* What they hold is rolled back and goes back to its queue with their connections. */
		log_warn("ended_unfinished", LOG_INT("workers", unfinished));
		control_close(p.control);
		_exit(st == ST_OK ? 0 : EXIT_SOFTWARE);
	}
	if (st == ST_OK)
		log_info("stopped");
	finish(&p);
	orderly = true;
	return st;
}

#include "run/feed.h"
#include "base/clock.h"
#include "exact/exact.h"
#include "pg/migrate.h"
#include "pg/sqlstate.h"
#include "run/params.h"
#include "run/rejects.h"
#include "run/tell.h"
#include "source/lines.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	RECONNECT_MIN_MS = 100,
	RECONNECT_MAX_MS = 3000,
	CONTENTION_MIN_MS = 2,
	CONTENTION_MAX_MS = 200,
	LONG_MS = 2000, /* somebody who looks on begins to wonder */
};

/* One worker: a thread with a session, a plugin instance and a heart. */
struct feeder {
	struct feed *feed;
	pthread_t thread;
	struct plugin_instance *instance;
	struct lines_source *source;
	struct exact *exact;
	struct pg_session *pg;
	struct tell tell; /* the relays */
	struct backoff backoff, contention;
	int64_t failing_since_ms; /* the database is away; 0: it is not */
	int64_t window_ms;        /* -1: for good */
	int64_t clock_ahead_ms;   /* the database's clock before ours */
	char name[80];

	/* For those who look on: since when it does the same, and is that waiting for lines? */
	_Atomic int64_t since_ms;
	_Atomic bool reading;
};

struct feed {
	struct feed_params params;
	struct input *input;
	struct rejects *rejects;
	struct feeder *feeders;
	int started;
	int stop_fd;                 /* readable once it shall end */
	_Atomic bool stopped;        /* from outside */
	_Atomic int64_t notified_ms; /* when relays were last told of rows, on clock_mono_ms() */
	_Atomic int running;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t ended;
	struct error error; /* the first */
	char waiting[256];
};

static void order_stop(struct feed *f)
{
	const uint64_t one = 1;
	(void)!write(f->stop_fd, &one, sizeof(one)); /* full: it was written before */
	input_stop(f->input);
}

/* The first failure is the one that is told; everybody ends. */
static void fail(struct feed *f, const struct error *err)
{
	pthread_mutex_lock(&f->lock);
	if (f->error.status == ST_OK)
		f->error = *err;
	pthread_mutex_unlock(&f->lock);
	order_stop(f);
}

static void say_waiting(struct feed *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	snprintf(f->waiting, sizeof(f->waiting), "%.*s", (int)text_utf8_cut(text, strlen(text), sizeof(f->waiting) - 1),
		 text);
	pthread_mutex_unlock(&f->lock);
}

/* False: it shall end. */
static bool pause_ms(struct feed *f, int64_t ms)
{
	struct pollfd stop = { .fd = f->stop_fd, .events = POLLIN };
	return poll(&stop, 1, (int)ms) == 0;
}

/* Program faults end the feed, the environment may come back. */
static bool is_lasting(enum status st, const struct error *err)
{
	return st == ST_INVALID || st == ST_INTERNAL ||
	       (st == ST_REFUSED && pg_sqlstate_kind(err).class != FAULT_ENVIRONMENT);
}

static void back_off(struct feeder *w, const struct error *err)
{
	const int64_t now = clock_mono_ms();
	if (w->failing_since_ms == 0)
		w->failing_since_ms = now;
	say_waiting(w->feed, err->text);
	if (now - w->failing_since_ms > w->feed->params.consumer->config->hold_max_ms)
		fail(w->feed, err);
	else
		(void)pause_ms(w->feed, backoff_next_ms(&w->backoff));
}

static void look_on(struct feeder *w, bool reading)
{
	atomic_store(&w->since_ms, clock_mono_ms());
	atomic_store(&w->reading, reading);
}

static void worked(struct feeder *w)
{
	look_on(w, false);
	if (w->failing_since_ms != 0)
		say_waiting(w->feed, "");
	w->failing_since_ms = 0;
	backoff_reset(&w->backoff);
	backoff_reset(&w->contention);
}

/* The window by which claims go is the registered one; a consumer that never ran here has that of its configuration. */
static enum status ask_window(struct feeder *w, struct error *err)
{
	static const char sql[] = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8,"
				  " (SELECT coalesce(extract(epoch FROM c.\"window\") * 1000, -1)::int8"
				  "  FROM effectd.consumers AS c WHERE c.consumer = $1)";
	const struct config_consumer *config = w->feed->params.consumer->config;
	struct pg_result result;
	int len;
	const enum status st = pg_query(w->pg, sql, (const char *const[]){ config->name }, 1, &result, err);
	if (st != ST_OK)
		return st;
	w->clock_ahead_ms = pg_value_int8(&result, 0, 0) - clock_mono_ms();
	w->window_ms = pg_value(&result, 0, 1, &len) ? pg_value_int8(&result, 0, 1) : config->retention_ms;
	return ST_OK;
}

static bool have_database(struct feeder *w)
{
	if (w->pg && !exact_session_lost(w->exact))
		return true;
	const struct config_consumer *config = w->feed->params.consumer->config;
	struct pg_params params;
	struct error err = { 0 };
	pg_session_destroy(w->pg);
	w->pg = NULL;
	params_of_database(config->database, w->feed->params.process, w->name, &params);
	enum status st = pg_session_open(&w->pg, &params, &wait_alone, &err);
	if (st == ST_OK)
		st = migrate_require(w->pg, &err);
	if (st == ST_OK)
		st = consumer_host(w->feed->params.consumer, w->pg, false, &err);
	if (st == ST_OK)
		st = ask_window(w, &err);
	if (st == ST_OK)
		st = exact_attach(w->exact, w->pg, &err);
	if (st == ST_OK)
		return true;
	exact_detach(w->exact);
	if (is_lasting(st, &err))
		fail(w->feed, &err);
	else
		back_off(w, &err);
	return false;
}

static int64_t oldest_event_ms(const struct feeder *w)
{
	if (w->feed->params.beyond_window || w->window_ms < 0)
		return 0;
	return clock_mono_ms() + w->clock_ahead_ms - w->window_ms;
}

/* False: nothing more comes and nothing is in hand. */
static bool wait_for_more(struct feeder *w)
{
	const int64_t notify = w->tell.notify_ms, wake = earlier(exact_wake_ms(w->exact), notify);
	look_on(w, true);
	const bool more = input_wait(w->feed->input, wake);
	look_on(w, false);
	if (more || clock_mono_ms() >= notify)
		return true;
	if (exact_held(w->exact) == 0)
		return false;
	const int64_t rest = wake - clock_mono_ms();
	(void)pause_ms(w->feed, rest > 0 ? rest : 0);
	return true;
}

/* A feed hosts none itself. */
static void tell_relays(struct feeder *w)
{
	(void)tell_look(&w->tell);
	tell_notify(&w->tell, w->pg, w->exact);
}

/* False: this worker is done. */
static bool turn(struct feeder *w)
{
	struct error err = { 0 };
	exact_set_oldest_event(w->exact, oldest_event_ms(w));
	switch (exact_turn(w->exact, &err)) {
	case EXACT_IDLE:
		worked(w);
		tell_relays(w);
		return wait_for_more(w);
	case EXACT_WORKED:
		worked(w);
		tell_relays(w);
		return true;
	case EXACT_CONTENDED:
		(void)pause_ms(w->feed, backoff_next_ms(&w->contention));
		return true;
	case EXACT_ENVIRONMENT:
	case EXACT_STOPPED:
		back_off(w, &err);
		return true;
	case EXACT_PROGRAM:
	case EXACT_BROKEN:
	case EXACT_DEAD:
	case EXACT_SUSPECT:
		fail(w->feed, &err);
		return false;
	}
	return false;
}

static void *feeder_main(void *arg)
{
	struct feeder *w = arg;
	struct feed *f = w->feed;
	look_on(w, false);
	while (pause_ms(f, 0) && (!have_database(w) || turn(w)))
		;
	exact_give_back(w->exact);
	tell_rest(&w->tell, w->pg, w->exact);
	pg_session_destroy(w->pg);
	w->pg = NULL;
	pthread_mutex_lock(&f->lock);
	if (atomic_fetch_sub(&f->running, 1) == 1)
		pthread_cond_broadcast(&f->ended);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* A rejected line that cannot be written down would be lost: the feed ends, and the line is in the input still. */
static void keep_rejected(void *arg, const struct rejected_line *line)
{
	struct feed *f = arg;
	struct error err = { 0 };
	if (rejects_add(f->rejects, line, &err) != ST_OK)
		fail(f, &err);
}

static enum status start_feeder(struct feed *f, struct feeder *w, struct error *err)
{
	struct consumer *consumer = f->params.consumer;
	const struct config_consumer *config = consumer->config;
	const struct lines_params lines = {
		.input = f->input,
		.envelope = f->params.envelope,
		.max_body = (size_t)config->max_body_bytes,
		.batch_max = (size_t)config->batch_max,
		.counters = &consumer->counters,
		.rejected = keep_rejected,
		.arg = f,
	};
	const struct exact_params params = {
		.consumer = config->name,
		.batch_max = (size_t)config->batch_max,
		.batch_bytes = (size_t)config->batch_bytes,
		.retry_min_ms = config->retry_min_ms,
		.retry_max_ms = config->retry_max_ms,
		.max_attempts = config->max_attempts,
		.in_order = config->order == ORDER_QUEUE,
		.beyond_window = f->params.beyond_window,
		.counters = &consumer->counters,
	};
	w->feed = f;
	tell_init(&w->tell, &consumer->counters, &f->notified_ms);
	snprintf(w->name, sizeof(w->name), "effectd/%s/feed", config->name);
	backoff_init(&w->backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	backoff_init(&w->contention, CONTENTION_MIN_MS, CONTENTION_MAX_MS);
	enum status st = plugin_instance_create(&w->instance, consumer->plugin, config->name, consumer->settings,
						config->settings.count, err);
	if (st == ST_OK)
		st = lines_source_create(&w->source, &lines, err);
	if (st == ST_OK)
		st = exact_create(&w->exact, &params, w->instance, lines_source_base(w->source), err);
	if (st != ST_OK)
		return st;
	atomic_fetch_add(&f->running, 1);
	const int failed = pthread_create(&w->thread, NULL, feeder_main, w);
	if (failed) {
		atomic_fetch_sub(&f->running, 1);
		return error_errno(err, ST_INTERNAL, failed, "cannot start a thread");
	}
	f->started++;
	return ST_OK;
}

enum status feed_start(struct feed **ret, const struct feed_params *params, struct error *err)
{
	struct feed *f = calloc(1, sizeof(*f));
	if (!f)
		return error_oom(err);
	f->params = *params;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->ended, &attr);
	pthread_condattr_destroy(&attr);
	f->feeders = calloc((size_t)params->workers, sizeof(*f->feeders));
	f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const size_t longest = lines_longest(params->envelope, (size_t)params->consumer->config->max_body_bytes);
	enum status st = f->feeders ? ST_OK : error_oom(err);
	if (st == ST_OK && f->stop_fd < 0)
		st = error_errno(err, ST_INTERNAL, errno, "eventfd");
	if (st == ST_OK)
		st = input_open(&f->input, params->file, longest, err);
	if (st == ST_OK) /* last: it empties the file */
		st = rejects_open(&f->rejects, params->rejects_file, err);
	for (int i = 0; st == ST_OK && i < params->workers; i++)
		st = start_feeder(f, &f->feeders[i], err);
	if (st == ST_OK) {
		*ret = f;
		return ST_OK;
	}
	if (f->input) {
		struct error ignored;
		order_stop(f);
		(void)!feed_finish(f, &ignored);
	}
	feed_destroy(f);
	return st;
}

void feed_stop(struct feed *f)
{
	atomic_store(&f->stopped, true);
	order_stop(f);
}

bool feed_wait(struct feed *f, int64_t ms)
{
	const int64_t deadline = clock_mono_ms() + ms;
	const struct timespec until = { deadline / 1000, deadline % 1000 * 1000000 };
	pthread_mutex_lock(&f->lock);
	while (atomic_load(&f->running) > 0 && pthread_cond_timedwait(&f->ended, &f->lock, &until) == 0)
		;
	pthread_mutex_unlock(&f->lock);
	return atomic_load(&f->running) == 0;
}

/* What shows by its length alone: a lock, a slow statement, a plugin that computes, a pipe that gives nothing. */
static void tell_long(struct feed *f, char *text, size_t size)
{
	const int64_t now = clock_mono_ms();
	int64_t longest = 0;
	int reading = 0;
	for (int i = 0; i < f->started; i++) {
		struct feeder *w = &f->feeders[i];
		const int64_t ms = now - atomic_load(&w->since_ms);
		if (atomic_load(&w->reading))
			reading += ms >= LONG_MS;
		else if (ms > longest)
			longest = ms;
	}
	if (longest >= LONG_MS)
		snprintf(text, size,
			 "a batch is under way for %" PRId64 " s; pg_stat_activity shows what it waits for, by "
			 "application_name %s",
			 longest / 1000, f->feeders[0].name);
	else if (reading == f->started)
		snprintf(text, size, "for more lines");
}

void feed_progress(struct feed *f, struct feed_progress *ret)
{
	struct input_progress in;
	input_progress(f->input, &in);
	*ret = (struct feed_progress){ .lines = in.lines, .bytes = in.bytes, .bytes_total = in.bytes_total };
	pthread_mutex_lock(&f->lock);
	memcpy(ret->waiting, f->waiting, sizeof(ret->waiting));
	pthread_mutex_unlock(&f->lock);
	if (!ret->waiting[0])
		tell_long(f, ret->waiting, sizeof(ret->waiting));
}

enum status feed_finish(struct feed *f, struct error *err)
{
	for (int i = 0; i < f->started; i++)
		pthread_join(f->feeders[i].thread, NULL);
	f->started = 0;
	enum status st = rejects_close(f->rejects, err);
	f->rejects = NULL;
	if (f->error.status != ST_OK) {
		*err = f->error;
		return err->status;
	}
	if (st == ST_OK)
		st = input_status(f->input, err);
	if (st == ST_OK && atomic_load(&f->stopped))
		st = error_set(err, ST_STOPPED,
			       "stopped before the end: feed the same again, the claims tell what is "
			       "applied");
	return st;
}

void feed_destroy(struct feed *f)
{
	if (!f)
		return;
	struct error ignored;
	for (int i = 0; f->feeders && i < f->params.workers; i++) {
		struct feeder *w = &f->feeders[i];
		exact_destroy(w->exact);
		lines_source_destroy(w->source);
		plugin_instance_destroy(w->instance);
	}
	free(f->feeders);
	(void)!rejects_close(f->rejects, &ignored);
	input_close(f->input);
	if (f->stop_fd >= 0)
		close(f->stop_fd);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->ended);
	free(f);
}

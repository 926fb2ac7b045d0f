#include "run/keeper.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "retention/pass.h"
#include "run/params.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	FIRST_PASS_MS = 1000, /* the workers have registered their consumers by then */
	FAILED_MIN_MS = 5000, /* before a failed pass is tried again; doubles up to the interval */
	WANTED_MIN_MS = 500,  /* between two passes, however often a day is missed */
};

/* What is shown of one consumer, for as long as the process lives. */
struct shown {
	char name[PASS_NAME_BYTES];
	uint64_t deleted;
	int64_t oldest_s, window_s;
};

struct keeper {
	struct waiter waiter; /* must be first */
	struct config *held;
	const struct config_database *database;
	_Atomic bool stop;
	pthread_t thread;
	int wake_fd;
	bool wanted; /* a worker misses a day */
	struct backoff backoff;

	pthread_mutex_t lock; /* of all below; held for a moment */
	struct keeper_figures figures;
	struct shown *shown;
	size_t shown_count;
};

static bool must_end(const struct keeper *k)
{
	return atomic_load(&k->stop);
}

/* A wait for time alone is also over when a worker misses a day: pruning can wait, work that stands still cannot. */
static int keeper_wait(struct waiter *self, int fd, short events, int64_t deadline_ms)
{
	struct keeper *k = (struct keeper *)self;
	for (;;) {
		if (must_end(k) || (fd < 0 && k->wanted))
			return -1;
		const int64_t rest = deadline_ms == WAIT_FOREVER ? -1 : deadline_ms - clock_mono_ms();
		if (deadline_ms != WAIT_FOREVER && rest <= 0)
			return 0;
		struct pollfd fds[] = { { .fd = k->wake_fd, .events = POLLIN }, { .fd = fd, .events = events } };
		if (poll(fds, ARRAY_LEN(fds), rest > INT32_MAX ? INT32_MAX : (int)rest) < 0 && errno != EINTR)
			return -1;
		uint64_t drop;
		if (fds[0].revents && read(k->wake_fd, &drop, sizeof(drop)) == sizeof(drop))
			k->wanted |= !must_end(k);
		if (fds[1].revents)
			return fds[1].revents;
	}
}

static struct shown *find_shown(struct keeper *k, const char *name)
{
	for (size_t i = 0; i < k->shown_count; i++)
		if (strcmp(k->shown[i].name, name) == 0)
			return &k->shown[i];
	struct shown *more = realloc(k->shown, (k->shown_count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	k->shown = more;
	struct shown *new = &more[k->shown_count++];
	*new = (struct shown){ 0 };
	snprintf(new->name, sizeof(new->name), "%s", name);
	return new;
}

/* While a long pass goes on its figures move. */
static void progress(void *arg, const char *consumer, int64_t rows)
{
	struct keeper *k = arg;
	pthread_mutex_lock(&k->lock);
	struct shown *shown = find_shown(k, consumer);
	if (shown)
		shown->deleted += (uint64_t)rows;
	pthread_mutex_unlock(&k->lock);
}

/* Who was forgotten is not shown any more. */
static void drop_forgotten(struct keeper *k, const struct pass *p)
{
	size_t left = 0;
	for (size_t i = 0; i < k->shown_count; i++)
		for (size_t j = 0; j < p->consumer_count; j++)
			if (strcmp(k->shown[i].name, p->consumers[j].name) == 0) {
				k->shown[left++] = k->shown[i];
				break;
			}
	k->shown_count = left;
}

static void show(struct keeper *k, const struct pass *p, bool success)
{
	pthread_mutex_lock(&k->lock);
	k->figures.dropped_days += (uint64_t)p->days.dropped;
	k->figures.failures = success ? 0 : k->figures.failures + 1;
	if (success)
		k->figures.last_success_s = clock_real_us() / 1000000;
	for (size_t i = 0; i < p->consumer_count; i++) {
		const struct pass_consumer *c = &p->consumers[i];
		struct shown *shown = find_shown(k, c->name);
		if (!shown)
			break;
		shown->window_s = c->window_s;
		if (!c->failed)
			shown->oldest_s = c->oldest_s;
	}
	if (p->consumer_count > 0)
		drop_forgotten(k, p);
	pthread_mutex_unlock(&k->lock);
}

/* Returns when to run the next one, on clock_mono_ms(). */
static int64_t run_pass(struct keeper *k)
{
	struct error err = { 0 };
	struct pass p = {
		.database = k->database->name,
		.waiter = &k->waiter,
		.batch_rows = k->database->retention_batch,
		.pause_ms = k->database->retention_pause_ms,
		.progress = progress,
		.arg = k,
	};
	params_of_retention(k->database, &p.app, &p.owner);
	const enum status st = pass_run(&p, &err);
	if (st != ST_STOPPED)
		show(k, &p, st == ST_OK);
	int64_t rows = 0;
	for (size_t i = 0; i < p.consumer_count; i++)
		rows += p.consumers[i].rows;
	pass_finish(&p);
	if (st == ST_STOPPED)
		return clock_mono_ms() + WANTED_MIN_MS;
	int64_t wait_ms;
	if (st == ST_OK) {
		struct backoff jitter;
		backoff_init(&jitter, k->database->retention_interval_ms, k->database->retention_interval_ms);
		wait_ms = backoff_next_ms(&jitter);
		backoff_reset(&k->backoff);
		log_debug("retention_pass", LOG_STR("database", k->database->name), LOG_INT("deleted", rows),
			  LOG_INT("next_ms", wait_ms));
		if (rows > 0)
			log_info("claims_deleted", LOG_STR("database", k->database->name), LOG_INT("rows", rows));
	} else {
		wait_ms = backoff_next_ms(&k->backoff);
		log_warn("retention_pass_failed", LOG_STR("database", k->database->name), LOG_ERR(&err),
			 LOG_INT("in_a_row", k->figures.failures), LOG_INT("retry_ms", wait_ms));
	}
	return clock_mono_ms() + wait_ms;
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;
	log_context(NULL, 0);
	int64_t next_ms = clock_mono_ms() + FIRST_PASS_MS, ran_ms = 0;
	while (!must_end(k)) {
		k->waiter.wait(&k->waiter, -1, 0, next_ms);
		if (k->wanted && ran_ms + WANTED_MIN_MS < next_ms)
			next_ms = ran_ms + WANTED_MIN_MS;
		k->wanted = false;
		if (must_end(k))
			break;
		if (clock_mono_ms() < next_ms)
			continue;
		ran_ms = clock_mono_ms();
		next_ms = run_pass(k);
		/* Missed during the pass: it may have looked before. */
		if (k->wanted)
			next_ms = ran_ms + WANTED_MIN_MS;
	}
	return NULL;
}

void keeper_destroy(struct keeper *k)
{
	if (k->wake_fd >= 0)
		close(k->wake_fd);
	pthread_mutex_destroy(&k->lock);
	free(k->shown);
	config_destroy(k->held);
	free(k);
}

enum status keeper_start(struct keeper **ret, struct config *config, const struct config_database *database,
			 struct error *err)
{
	struct keeper *k = calloc(1, sizeof(*k));
	if (!k)
		return error_oom(err);
	k->waiter.wait = keeper_wait;
	k->held = config_hold(config);
	k->database = database;
	pthread_mutex_init(&k->lock, NULL);
	backoff_init(&k->backoff, FAILED_MIN_MS, database->retention_interval_ms);
	k->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int failed = k->wake_fd < 0 ? errno : 0;
	if (!failed)
		failed = pthread_create(&k->thread, NULL, keeper_main, k);
	if (failed) {
		keeper_destroy(k);
		return error_errno(err, ST_INTERNAL, failed, "cannot start the thread of retention");
	}
	*ret = k;
	return ST_OK;
}

int keeper_fd(const struct keeper *k)
{
	return k->wake_fd;
}

void keeper_stop(struct keeper *k)
{
	atomic_store(&k->stop, true);
	const uint64_t one = 1;
	if (write(k->wake_fd, &one, sizeof(one)) < 0)
		log_debug("wake_failed", LOG_INT("errno", errno)); /* the counter is full: it is awake */
}

bool keeper_join(struct keeper *k, int64_t deadline_ms)
{
	return thread_join(k->thread, deadline_ms);
}

const struct config *keeper_config(const struct keeper *k)
{
	return k->held;
}

const char *keeper_database(const struct keeper *k)
{
	return k->database->name;
}

struct keeper_figures keeper_figures(struct keeper *k)
{
	pthread_mutex_lock(&k->lock);
	const struct keeper_figures figures = k->figures;
	pthread_mutex_unlock(&k->lock);
	return figures;
}

void keeper_each(struct keeper *k, void (*each)(void *arg, const struct keeper_consumer *c), void *arg)
{
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->shown_count; i++) {
		const struct shown *s = &k->shown[i];
		each(arg, &(struct keeper_consumer){ s->name, s->deleted, s->oldest_s, s->window_s });
	}
	pthread_mutex_unlock(&k->lock);
}

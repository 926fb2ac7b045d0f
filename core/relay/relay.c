#include "relay/relay.h"
#include "base/log.h"
#include "base/thread.h"
#include "relay/lane.h"
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 1000 /* a wakeup that costs nothing: whoever watches sees the loop turn */ };

const char *const relay_result_names[RELAY_RESULT_COUNT] = {
#define X(id, name) [RELAY_##id] = (name),
	RELAY_RESULTS(X)
#undef X
};

/* From a call on this machine to the longest timeout that is usual. */
const struct histogram_scale relay_call_scale = {
	.per_unit = 1000000,
	.count = 13,
	.bounds = { 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 10000000,
		    60000000 },
};

struct relay {
	const struct config_relay *config;
	struct relay_order order;
	struct lane *lanes;
	size_t lane_count;
};

static struct lane *lane_of(struct relay *r, const char *target)
{
	for (size_t i = 0; i < r->lane_count; i++)
		if (strcmp(r->lanes[i].target.config->name, target) == 0)
			return &r->lanes[i];
	return NULL;
}

static const struct config_target *find_target(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->target_count; i++)
		if (strcmp(config->targets[i].name, name) == 0)
			return &config->targets[i];
	return NULL;
}

static enum status create_lane(struct relay *r, const struct config_target *target, const struct pg_params *database,
			       int64_t watchdog_ms, struct error *err)
{
	struct lane *l = &r->lanes[r->lane_count++];
	const size_t most = r->config->kinds.count;
	l->config = r->config;
	l->tick_ms = earlier(watchdog_ms / 4, TICK_MS);
	l->order = &r->order;
	l->wake_fd = -1;
	l->shown.target = target;
	rows_init(&l->ready);
	rows_init(&l->done);
	arena_init(&l->arena);
	snprintf(l->name, sizeof(l->name), "effectd/relay:%s/%s", r->config->name, target->name);
	l->database = *database;
	l->database.application_name = l->name;
	/* Each statement must see what was committed before it, whatever the database's consumers need. */
	l->database.isolation = "read committed";
	l->shown.kinds = calloc(most, sizeof(*l->shown.kinds));
	l->leases = calloc(most, sizeof(*l->leases));
	l->calls = calloc((size_t)r->config->in_flight, sizeof(struct row *));
	if (!l->shown.kinds || !l->leases || !l->calls)
		return error_oom(err);
	l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->wake_fd < 0)
		return error_errno(err, ST_INTERNAL, errno, "eventfd");
	return target_init(&l->target, target, err);
}

static enum status create_lanes(struct relay *r, const struct config *config, const struct pg_params *database,
				struct error *err)
{
	r->lanes = calloc(r->config->kinds.count + 1, sizeof(*r->lanes));
	if (!r->lanes)
		return error_oom(err);
	for (size_t i = 0; i < r->config->kinds.count; i++) {
		const struct config_pair *pair = &r->config->kinds.list[i];
		struct lane *l = lane_of(r, pair->value);
		if (!l) {
			const enum status st = create_lane(r, find_target(config, pair->value), database,
							   config->process.watchdog_ms, err);
			if (st != ST_OK)
				return st;
			l = &r->lanes[r->lane_count - 1];
		}
		struct relay_kind *kind = &l->shown.kinds[l->shown.kind_count];
		kind->name = pair->name;
		l->leases[l->shown.kind_count++].kind = kind;
	}
	return ST_OK;
}

enum status relay_create(struct relay **ret, const struct config *config, const struct config_relay *relay,
			 const struct pg_params *database, struct error *err)
{
	/* Counted, and safe in any thread since 7.84. */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_set(err, ST_INTERNAL, "libcurl cannot be initialized");
	struct relay *r = calloc(1, sizeof(*r));
	if (!r)
		return error_oom(err);
	r->config = relay;
	atomic_init(&r->order.deadline_ms, INT64_MAX);
	const enum status st = create_lanes(r, config, database, err);
	if (st != ST_OK) {
		relay_destroy(r);
		return error_wrap(err, "relay %s", relay->name);
	}
	*ret = r;
	return ST_OK;
}

enum status relay_start(struct relay *r, struct error *err)
{
	for (size_t i = 0; i < r->lane_count; i++) {
		const enum status st = lane_start(&r->lanes[i], err);
		if (st != ST_OK)
			return error_wrap(err, "relay %s", r->config->name);
	}
	return ST_OK;
}

const struct config_relay *relay_config(const struct relay *r)
{
	return r->config;
}

size_t relay_lane_count(const struct relay *r)
{
	return r->lane_count;
}

const struct relay_lane *relay_lane(const struct relay *r, size_t index)
{
	return &r->lanes[index].shown;
}

void relay_watch(struct relay *r, int64_t passed_ms)
{
	for (size_t i = 0; i < r->lane_count; i++) {
		struct relay_lane *lane = &r->lanes[i].shown;
		const uint64_t ticks = atomic_load_explicit(&lane->ticks, memory_order_relaxed);
		const bool silent = ticks == lane->watched_ticks && atomic_load(&lane->state) != RELAY_ENDED;
		atomic_store(&lane->silent_ms, silent ? atomic_load(&lane->silent_ms) + passed_ms : 0);
		lane->watched_ticks = ticks;
	}
}

void relay_wake(struct relay *r)
{
	const uint64_t one = 1;
	for (size_t i = 0; i < r->lane_count; i++)
		if (write(r->lanes[i].wake_fd, &one, sizeof(one)) < 0)
			log_debug("wake_failed", LOG_INT("errno", errno)); /* the counter is full: it is awake */
}

void relay_stop(struct relay *r, int64_t deadline_ms)
{
	atomic_store(&r->order.deadline_ms, deadline_ms);
	atomic_store(&r->order.stop, true);
	relay_wake(r);
}

bool relay_join(struct relay *r, int64_t deadline_ms)
{
	bool all = true;
	for (size_t i = 0; i < r->lane_count; i++) {
		struct lane *l = &r->lanes[i];
		if (l->started && !l->joined)
			l->joined = thread_join(l->thread, deadline_ms);
		all = all && (l->joined || !l->started);
	}
	return all;
}

static void lane_destroy(struct lane *l)
{
	if (l->driver)
		l->driver->ops->destroy(l->driver);
	pg_session_destroy(l->pg);
	rows_free(&l->ready);
	rows_free(&l->done);
	arena_finish(&l->arena);
	target_finish(&l->target);
	free(l->shown.kinds);
	free(l->leases);
	free(l->calls);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
}

void relay_destroy(struct relay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->lane_count; i++)
		lane_destroy(&r->lanes[i]);
	free(r->lanes);
	free(r);
}

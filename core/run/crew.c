#include "run/crew.h"
#include "base/clock.h"

enum status crew_create(struct consumer **ret, struct config *config, const struct config_consumer *section,
			struct error *err)
{
	struct consumer *c = aligned_alloc(_Alignof(struct consumer), sizeof(*c));
	if (!c)
		return error_oom(err);
	*c = (struct consumer){ .held = config_hold(config), .process = &config->process };
	enum status st = consumer_init(c, section, err);
	c->workers = calloc(consumer_vitals_count(c), sizeof(struct worker *));
	if (st == ST_OK && !c->workers)
		st = error_oom(err);
	if (st != ST_OK) {
		crew_destroy(c);
		return st;
	}
	*ret = c;
	return ST_OK;
}

void crew_destroy(struct consumer *c)
{
	if (!c)
		return;
	consumer_finish(c);
	free(c->workers);
	config_destroy(c->held);
	free(c);
}

enum status crew_start(struct consumer *c, struct worker_context *context, struct error *err)
{
	c->since_s = clock_real_us() / 1000000;
	for (int number = WORKER_RETRY; number <= c->config->workers; number++) {
		const enum status st = worker_start(&c->workers[c->worker_count], c, number, context, err);
		if (st != ST_OK)
			return error_wrap(err, "consumer %s", c->config->name);
		c->worker_count++;
	}
	return ST_OK;
}

void crew_stop(struct consumer *c, enum stop order, int64_t fetch_until_ms, int64_t deadline_ms)
{
	if (order == STOP_DRAIN) {
		atomic_store(&c->stop.fetch_until_ms, fetch_until_ms);
		atomic_store(&c->stop.deadline_ms, deadline_ms);
	}
	atomic_store(&c->stop.order, (int)order);
	for (size_t i = 0; i < c->worker_count; i++)
		worker_wake(c->workers[i]);
}

size_t crew_join(struct consumer *c, int64_t deadline_ms)
{
	size_t left = 0;
	for (size_t i = 0; i < c->worker_count; i++)
		if (!worker_join(c->workers[i], deadline_ms))
			c->workers[left++] = c->workers[i];
	c->worker_count = left;
	return left;
}

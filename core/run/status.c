/* What the daemon tells of itself: JSON, of counters and vitals alone. */
#include "base/clock.h"
#include "base/log.h"
#include "run/health.h"
#include "run/hosting.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLE_MS = 5000 /* rates are those of the last few seconds */ };

static uint64_t settled(const struct consumer *c)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < OUTCOME_COUNT; i++)
		sum += counter_get(&c->counters.outcomes[i]);
	return sum;
}

void status_sample(struct process *p)
{
	const int64_t now = clock_mono_ms();
	for (size_t i = 0; i < p->view.consumer_count; i++) {
		struct consumer *c = p->view.consumers[i];
		const int64_t passed = now - c->rate.at_ms;
		if (passed < SAMPLE_MS)
			continue;
		const uint64_t sum = settled(c);
		c->rate.per_s = c->rate.at_ms > 0 ? (double)(sum - c->rate.settled) * 1000 / (double)passed : -1;
		c->rate.settled = sum;
		c->rate.at_ms = now;
	}
}

static json_t *outcomes_json(const struct consumer *c)
{
	json_t *all = json_object();
	for (size_t i = 0; i < OUTCOME_COUNT; i++)
		json_object_set_new(all, outcome_names[i],
				    json_integer((json_int_t)counter_get(&c->counters.outcomes[i])));
	return all;
}

static json_t *parked_json(const struct consumer *c)
{
	if (!atomic_load((_Atomic bool *)&c->parked_known))
		return json_null();
	json_t *all = json_object();
	for (size_t i = 0; i < PARKED_STATUS_COUNT; i++)
		json_object_set_new(all, parked_status_names[i], json_integer((json_int_t)counter_get(&c->parked[i])));
	return all;
}

/* How many workers have their session, of those that want one. */
static json_t *connected_json(const struct consumer *c, enum peer peer)
{
	json_int_t n = 0;
	for (size_t i = WORKER_RETRY + 1; i < consumer_vitals_count(c); i++)
		n += vitals_connected(&c->vitals[i], peer);
	return json_integer(n);
}

static json_int_t inflight(const struct consumer *c)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < consumer_vitals_count(c); i++)
		sum += counter_get(&c->vitals[i].inflight);
	return (json_int_t)sum;
}

static json_t *rate_json(const struct consumer *c)
{
	return c->rate.at_ms == 0 || c->rate.per_s < 0 ? json_null() : json_real(c->rate.per_s);
}

static json_t *consumer_json(const struct view *view, const struct consumer *c)
{
	const uint64_t first = counter_get(&c->counters.deliveries[0]), again = counter_get(&c->counters.deliveries[1]);
	const uint64_t all = settled(c), duplicates = counter_get(&c->counters.outcomes[OUTCOME_DUPLICATE]);
	const char *version = c->plugin->descriptor.version;
	return json_pack("{ss ss sI sI ss ss? ss ss ss sI sI sI so so sf so so so}", "name", c->config->name, "state",
			 health_consumer_word(view, c), "workers", (json_int_t)c->config->workers, "since",
			 (json_int_t)c->since_s, "plugin", c->config->plugin, "plugin_version", version, "queue",
			 c->config->queue, "broker", c->config->broker_name, "database", c->config->database_name,
			 "deliveries", (json_int_t)(first + again), "redelivered", (json_int_t)again, "inflight",
			 inflight(c), "per_second", rate_json(c), "outcomes", outcomes_json(c), "duplicate_percent",
			 all > 0 ? 100.0 * (double)duplicates / (double)all : 0.0, "parked", parked_json(c),
			 "broker_connections", connected_json(c, PEER_BROKER), "database_connections",
			 connected_json(c, PEER_DATABASE));
}

static json_t *relay_json(const struct relay *r)
{
	json_int_t pending = 0, dead = 0, under_way = 0;
	uint64_t results[RELAY_RESULT_COUNT] = { 0 };
	for (size_t i = 0; i < relay_lane_count(r); i++) {
		const struct relay_lane *lane = relay_lane(r, i);
		under_way += (json_int_t)counter_get(&lane->under_way);
		for (size_t k = 0; k < lane->kind_count; k++) {
			pending += atomic_load((_Atomic int64_t *)&lane->kinds[k].pending);
			dead += atomic_load((_Atomic int64_t *)&lane->kinds[k].dead);
			for (size_t j = 0; j < RELAY_RESULT_COUNT; j++)
				results[j] += counter_get(&lane->kinds[k].results[j]);
		}
	}
	json_t *calls = json_object();
	for (size_t j = 0; j < RELAY_RESULT_COUNT; j++)
		json_object_set_new(calls, relay_result_names[j], json_integer((json_int_t)results[j]));
	return json_pack("{ss ss sI sI sI so}", "name", relay_config(r)->name, "database",
			 relay_config(r)->database->name, "pending", pending, "dead", dead, "under_way", under_way,
			 "calls", calls);
}

static json_t *reasons_json(const struct view *view)
{
	CLEANUP(buffer_finish) struct buffer reasons = { 0 };
	json_t *list = json_array();
	if (health_is_ready(view, &reasons))
		return list;
	for (const char *line = buffer_text(&reasons); *line;) {
		const size_t len = strcspn(line, "\n");
		json_array_append_new(list, json_stringn(line, len));
		line += len + (line[len] == '\n');
	}
	return list;
}

static json_t *status_json(const struct process *p)
{
	json_t *consumers = json_array(), *relays = json_array(), *keepers = json_array();
	for (size_t i = 0; i < p->view.consumer_count; i++)
		json_array_append_new(consumers, consumer_json(&p->view, p->view.consumers[i]));
	for (size_t i = 0; i < p->context.relays.count; i++)
		json_array_append_new(relays, relay_json(p->context.relays.list[i].relay));
	for (size_t i = 0; i < p->view.keeper_count; i++) {
		const struct keeper_figures f = keeper_figures(p->view.keepers[i]);
		json_array_append_new(keepers, json_pack("{ss sI sI}", "database", keeper_database(p->view.keepers[i]),
							 "last_success", (json_int_t)f.last_success_s, "failures",
							 (json_int_t)f.failures));
	}
	const struct reloads *r = &p->view.reloads;
	json_t *reasons = reasons_json(&p->view);
	return json_pack("{ss si sI ss sI s{sI sI sb} sb so so so so}", "version", EFFECTD_VERSION, "pid",
			 (int)getpid(), "since", (json_int_t)p->started_s, "config_file", p->options->config_file,
			 "config_loaded", (json_int_t)r->loaded_s, "reloads", "applied", (json_int_t)r->applied,
			 "refused", (json_int_t)r->refused, "last_refused", r->last_refused, "ready",
			 json_array_size(reasons) == 0, "reasons", reasons, "consumers", consumers, "relays", relays,
			 "retention", keepers);
}

void status_answer(const struct process *p, struct control_request *request)
{
	json_t *all = status_json(p);
	AUTOFREE char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	control_answer(request, text ? text : "{}");
}

#include "run/metrics.h"
#include "config/config.h"
#include "effectd/plugin.h"
#include "run/keeper.h"
#include "run/outbox_metrics.h"
#include "run/worker.h"
#include <stdio.h>
#include <string.h>

#define CONSUMER(c)                           \
	{                                     \
		"consumer", (c)->config->name \
	}

static void deliveries(struct exposition *e, const struct view *view, int unused)
{
	static const char *const redelivered[] = { "false", "true" };
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++)
		for (size_t j = 0; j < ARRAY_LEN(redelivered); j++) {
			const struct consumer *c = view->consumers[i];
			const struct label labels[] = { CONSUMER(c), { "redelivered", redelivered[j] } };
			exposition_sample(e, labels, 2, counter_get(&c->counters.deliveries[j]));
		}
}

static void outcomes(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++)
		for (size_t j = 0; j < OUTCOME_COUNT; j++) {
			const struct consumer *c = view->consumers[i];
			const struct label labels[] = { CONSUMER(c), { "outcome", outcome_names[j] } };
			exposition_sample(e, labels, 2, counter_get(&c->counters.outcomes[j]));
		}
}

static void in_doubt(struct exposition *e, const struct view *view, int unused)
{
	static const char *const resolutions[] = { "not_committed", "committed" };
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++)
		for (size_t j = 0; j < ARRAY_LEN(resolutions); j++) {
			const struct consumer *c = view->consumers[i];
			const struct label labels[] = { CONSUMER(c), { "resolution", resolutions[j] } };
			exposition_sample(e, labels, 2, counter_get(&c->counters.in_doubt[j]));
		}
}

static void rollbacks(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		exposition_sample(e, (const struct label[]){ CONSUMER(c) }, 1, counter_get(&c->counters.rollbacks));
	}
}

static void distribution(struct exposition *e, const struct view *view, int which)
{
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		exposition_histogram(e, (const struct label[]){ CONSUMER(c) }, 1, &c->counters.distributions[which],
				     &distribution_scales[which]);
	}
}

static void inflight(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		uint64_t sum = 0;
		for (size_t number = 0; number < consumer_vitals_count(c); number++)
			sum += counter_get(&c->vitals[number].inflight);
		exposition_sample(e, (const struct label[]){ CONSUMER(c) }, 1, sum);
	}
}

static void workers(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		uint64_t counts[WORKER_STATE_COUNT] = { 0 }, connecting = 0;
		for (size_t number = WORKER_RETRY + 1; number < consumer_vitals_count(c); number++) {
			const struct vitals *v = &c->vitals[number];
			const enum worker_state state = vitals_state(v);
			const bool connected = vitals_connected(v, PEER_BROKER) && vitals_connected(v, PEER_DATABASE);
			if (state == WORKER_RUNNING && !connected)
				connecting++;
			else
				counts[state]++;
		}
		for (size_t j = 0; j < WORKER_STATE_COUNT; j++) {
			const struct label labels[] = { CONSUMER(c), { "state", worker_state_names[j] } };
			exposition_sample(e, labels, 2, counts[j]);
		}
		exposition_sample(e, (const struct label[]){ CONSUMER(c), { "state", "connecting" } }, 2, connecting);
	}
}

/* Every process that hosts the consumer tells the same number. */
static void parked(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		for (size_t j = 0; j < PARKED_STATUS_COUNT && atomic_load((_Atomic bool *)&c->parked_known); j++) {
			const struct label labels[] = { CONSUMER(c), { "status", parked_status_names[j] } };
			exposition_sample(e, labels, 2, counter_get(&c->parked[j]));
		}
	}
}

/* A server as the configuration calls it, and what the workers of all consumers that use it come to. */
struct peer_sums {
	bool used, connected;
	uint64_t reconnects;
};

static void add_consumer(const struct consumer *c, enum peer peer, struct peer_sums *sums)
{
	sums->used = true;
	sums->reconnects += counter_get(&c->counters.reconnects[peer]);
	/* The worker for retries has no broker; one that waits in probation has nobody yet. */
	for (size_t number = peer == PEER_BROKER; number < consumer_vitals_count(c); number++)
		if (!vitals_connected(&c->vitals[number], peer) && vitals_state(&c->vitals[number]) != WORKER_PROBATION)
			sums->connected = false;
}

enum { CONNECTED, RECONNECTS };

static void peer_sample(struct exposition *e, const char *kind, const char *name, const struct peer_sums *sums,
			int what)
{
	char text[128];
	if (!sums->used)
		return;
	snprintf(text, sizeof(text), "%s:%s", kind, name);
	exposition_sample(e, (const struct label[]){ { "peer", text } }, 1,
			  what == CONNECTED ? sums->connected : sums->reconnects);
}

static void peers(struct exposition *e, const struct view *view, int what)
{
	for (size_t i = 0; i < view->config->broker_count; i++) {
		const struct config_broker *broker = &view->config->brokers[i];
		struct peer_sums sums = { .connected = true };
		for (size_t j = 0; j < view->consumer_count; j++)
			if (strcmp(view->consumers[j]->config->broker->name, broker->name) == 0)
				add_consumer(view->consumers[j], PEER_BROKER, &sums);
		peer_sample(e, "broker", broker->name, &sums, what);
	}
	for (size_t i = 0; i < view->config->database_count; i++) {
		const struct config_database *database = &view->config->databases[i];
		struct peer_sums sums = { .connected = true };
		for (size_t j = 0; j < view->consumer_count; j++)
			if (strcmp(view->consumers[j]->config->database->name, database->name) == 0)
				add_consumer(view->consumers[j], PEER_DATABASE, &sums);
		peer_sample(e, "database", database->name, &sums, what);
	}
}

enum { DELETED, OLDEST, CLAIM_WINDOW };

struct kept {
	struct exposition *e;
	const char *database;
	int what;
};

static void kept_sample(void *arg, const struct keeper_consumer *c)
{
	const struct kept *k = arg;
	const struct label labels[] = { { "database", k->database }, { "consumer", c->name } };
	if (k->what == DELETED)
		exposition_sample(k->e, labels, ARRAY_LEN(labels), c->deleted);
	else if (k->what == OLDEST && c->oldest_s > 0)
		exposition_sample(k->e, labels, ARRAY_LEN(labels), (uint64_t)c->oldest_s);
	else if (k->what == CLAIM_WINDOW && c->window_s >= 0)
		exposition_sample(k->e, labels, ARRAY_LEN(labels), (uint64_t)c->window_s);
}

static void kept(struct exposition *e, const struct view *view, int what)
{
	for (size_t i = 0; i < view->keeper_count; i++)
		keeper_each(view->keepers[i], kept_sample,
			    &(struct kept){ e, keeper_database(view->keepers[i]), what });
}

enum { DROPPED_DAYS, FAILURES, LAST_SUCCESS };

static void keepers(struct exposition *e, const struct view *view, int what)
{
	for (size_t i = 0; i < view->keeper_count; i++) {
		const struct keeper_figures f = keeper_figures(view->keepers[i]);
		const uint64_t values[] = { [DROPPED_DAYS] = f.dropped_days,
					    [FAILURES] = f.failures,
					    [LAST_SUCCESS] = (uint64_t)f.last_success_s };
		exposition_sample(e, (const struct label[]){ { "database", keeper_database(view->keepers[i]) } }, 1,
				  values[what]);
	}
}

static void outbox_rows(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		exposition_sample(e, (const struct label[]){ CONSUMER(c) }, 1, counter_get(&c->counters.outbox_rows));
	}
}

static void plugin_info(struct exposition *e, const struct view *view, int unused)
{
	(void)unused;
	for (size_t i = 0; i < view->consumer_count; i++) {
		const struct consumer *c = view->consumers[i];
		const struct effectd_plugin *p = &c->plugin->descriptor;
		char abi[32];
		snprintf(abi, sizeof(abi), "%u.%u", (unsigned)p->abi_major, (unsigned)p->abi_minor);
		const struct label labels[] = {
			CONSUMER(c),
			{ "plugin", c->config->plugin },
			{ "version", p->version ? p->version : "" },
			{ "abi", abi },
		};
		exposition_sample(e, labels, ARRAY_LEN(labels), 1);
	}
}

enum { RELOADS, LAST_SUCCESSFUL, LOADED };

static void reloads(struct exposition *e, const struct view *view, int what)
{
	const struct reloads *r = &view->reloads;
	const uint64_t values[] = { [LAST_SUCCESSFUL] = !r->last_refused, [LOADED] = (uint64_t)r->loaded_s };
	if (what == RELOADS) {
		exposition_sample(e, (const struct label[]){ { "result", "applied" } }, 1, r->applied);
		exposition_sample(e, (const struct label[]){ { "result", "refused" } }, 1, r->refused);
	} else {
		exposition_sample(e, NULL, 0, values[what]);
	}
}

static void build_info(struct exposition *e, const struct view *view, int unused)
{
	char abi[32];
	(void)view;
	(void)unused;
	snprintf(abi, sizeof(abi), "%d.%d", EFFECTD_ABI_MAJOR, EFFECTD_ABI_MINOR);
	exposition_sample(e, (const struct label[]){ { "version", EFFECTD_VERSION }, { "abi", abi } }, 2, 1);
}

/* One row a metric. Names are stable: operators alert on them. */
static const struct {
	const char *name;
	enum metric_type type;
	const char *help;
	void (*collect)(struct exposition *e, const struct view *view, int which);
	int which;
} table[] = {
	{ "effectd_deliveries_total", METRIC_COUNTER, "Deliveries taken from the broker.", deliveries, 0 },
	{ "effectd_outcomes_total", METRIC_COUNTER, "What became of deliveries.", outcomes, 0 },
	{ "effectd_commit_in_doubt_total", METRIC_COUNTER,
	  "Commits whose answer was lost, by what was found out about them.", in_doubt, 0 },
	{ "effectd_rollbacks_total", METRIC_COUNTER, "Transactions that were rolled back and run again.", rollbacks,
	  0 },
	{ "effectd_batch_size", METRIC_HISTOGRAM,
	  "Messages that committed in one transaction; copies of a key count once.", distribution,
	  DISTRIBUTION_BATCH_SIZE },
	{ "effectd_transaction_seconds", METRIC_HISTOGRAM, "From BEGIN to the answer of COMMIT.", distribution,
	  DISTRIBUTION_TRANSACTION },
	{ "effectd_claim_wait_seconds", METRIC_HISTOGRAM,
	  "Until the claims of a transaction were answered; long where another transaction holds the same key.",
	  distribution, DISTRIBUTION_CLAIM_WAIT },
	{ "effectd_plugin_seconds", METRIC_HISTOGRAM,
	  "Time of a transaction in the plugin's apply, with the sending of what it queued.", distribution,
	  DISTRIBUTION_PLUGIN },
	{ "effectd_event_age_seconds", METRIC_HISTOGRAM,
	  "From the event to its committed effect, by the key's event time or the message's timestamp.", distribution,
	  DISTRIBUTION_EVENT_AGE },
	{ "effectd_inflight", METRIC_GAUGE, "Deliveries in hand, not settled yet.", inflight, 0 },
	{ "effectd_parked_messages", METRIC_GAUGE,
	  "Parked messages in the database, counted every 15 seconds; the same from every process.", parked, 0 },
	{ "effectd_workers", METRIC_GAUGE, "Workers by what they do.", workers, 0 },
	{ "effectd_connected", METRIC_GAUGE, "1 while every worker that uses the server has its session.", peers,
	  CONNECTED },
	{ "effectd_reconnects_total", METRIC_COUNTER, "Sessions made anew after one was lost.", peers, RECONNECTS },
	{ "effectd_retention_deleted_total", METRIC_COUNTER,
	  "Claims that were deleted because they are older than the window.", kept, DELETED },
	{ "effectd_retention_dropped_partitions_total", METRIC_COUNTER,
	  "Partitions of claims, a day each, that were dropped.", keepers, DROPPED_DAYS },
	{ "effectd_oldest_claim_timestamp_seconds", METRIC_GAUGE,
	  "When a consumer's oldest claim was made that may go.", kept, OLDEST },
	{ "effectd_claim_window_seconds", METRIC_GAUGE, "How long a consumer's claims are kept.", kept, CLAIM_WINDOW },
	{ "effectd_retention_last_success_timestamp_seconds", METRIC_GAUGE,
	  "When retention last went through without a failure; 0: not yet.", keepers, LAST_SUCCESS },
	{ "effectd_retention_failures", METRIC_GAUGE, "Passes of retention that failed in a row.", keepers, FAILURES },
	{ "effectd_outbox_rows_total", METRIC_COUNTER, "Outbox rows that committed with their effect.", outbox_rows,
	  0 },
	{ "effectd_outbox_pending", METRIC_GAUGE, "Outbox rows that wait for their call, as last counted.",
	  outbox_gauges, OUTBOX_PENDING },
	{ "effectd_outbox_dead", METRIC_GAUGE, "Outbox rows that wait for a person, as last counted.", outbox_gauges,
	  OUTBOX_DEAD },
	{ "effectd_outbox_oldest_timestamp_seconds", METRIC_GAUGE,
	  "When the oldest pending outbox row was written; 0: there is none.", outbox_gauges, OUTBOX_OLDEST },
	{ "effectd_outbox_calls_total", METRIC_COUNTER, "Calls to targets, by what became of the row.", outbox_calls,
	  0 },
	{ "effectd_outbox_call_seconds", METRIC_HISTOGRAM, "Time of a call, until its answer or its end.",
	  outbox_seconds, 0 },
	{ "effectd_outbox_under_way", METRIC_GAUGE, "Calls under way.", outbox_under_way, 0 },
	{ "effectd_outbox_lease_lost_total", METRIC_COUNTER,
	  "Calls whose row another relay had taken before they could be marked.", outbox_gauges, OUTBOX_FENCED },
	{ "effectd_config_reloads_total", METRIC_COUNTER, "Reloads of the configuration.", reloads, RELOADS },
	{ "effectd_config_last_reload_successful", METRIC_GAUGE,
	  "0 while what was read last was refused and the configuration before it goes on.", reloads, LAST_SUCCESSFUL },
	{ "effectd_config_loaded_timestamp_seconds", METRIC_GAUGE, "When the configuration in force was read.", reloads,
	  LOADED },
	{ "effectd_plugin_info", METRIC_INFO, "Which plugin each consumer runs.", plugin_info, 0 },
	{ "effectd_build_info", METRIC_INFO, "Which effectd this is.", build_info, 0 },
};

void metrics_write(const struct view *view, enum exposition_format format, struct buffer *out)
{
	struct exposition e;
	exposition_init(&e, format, out);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		exposition_family(&e, table[i].name, table[i].type, table[i].help);
		table[i].collect(&e, view, table[i].which);
	}
	exposition_finish(&e);
}

/* A consumer of the configuration, ready to be applied: its plugin loaded, its settings checked. */
#ifndef RUN_CONSUMER_H
#define RUN_CONSUMER_H

#include "base/counters.h"
#include "config/config.h"
#include "pg/session.h"
#include "plugin/options.h"
#include "run/stop.h"
#include "run/vitals.h"
#include <stdatomic.h>

enum parked_status { PARKED_RETRY, PARKED_DEAD, PARKED_STATUS_COUNT };
extern const char *const parked_status_names[PARKED_STATUS_COUNT];

/* What the workers of one consumer have in common. */
struct consumer {
	const struct config_consumer *config;
	const struct plugin *plugin;
	struct plugin_setting *settings; /* config's, in the plugin module's form */
	struct consumer_counters counters;
	struct vitals *vitals; /* of each worker, by its number */
	/* A fault of the program closes the consumer for all its workers: until a time on clock_mono_ms(), or for good.
	 */
	_Atomic int64_t closed_until_ms;
	_Atomic unsigned closures; /* in a row */
	_Atomic bool broken;
	_Atomic int consuming; /* workers that the broker may send deliveries to */
	_Atomic int trials;    /* of what was given back and cannot be applied yet; see giveback.c */
	_Atomic uint64_t parked[PARKED_STATUS_COUNT]; /* rows, as last counted; see gauge.c */
	_Atomic bool parked_known;
	_Atomic bool registered; /* a worker wrote its row in effectd.consumers */
	int keeper_fd;           /* of the keeper of its database; -1: this process has none */
	_Atomic bool met;        /* probation: it met a fresh message or an empty queue, or cannot be asked */

	/* Of one that the process hosts: see crew.h. */
	struct config *held;                  /* has config; a reload lets another one live beside it */
	const struct config_process *process; /* of the same configuration */
	struct stop_order stop;
	struct worker **workers;
	size_t worker_count;
	int64_t since_s; /* when its workers were started, since 1970 */
	struct {         /* the main thread's, for status */
		int64_t at_ms;
		uint64_t settled;
		double per_s; /* what was settled in the seconds before at_ms; below 0: not known yet */
	} rate;
};

/* Fills *c, which the caller zeroed. finish() after it whatever came back. */
enum status consumer_init(struct consumer *c, const struct config_consumer *config, struct error *err) MUST_USE;
void consumer_finish(struct consumer *c);

/* Loads the plugin, compares name and settings with what it declares, and lets it configure itself once. Reports every
 * problem, returns their number; the plugin is set when there was none. Main thread. */
size_t consumer_load(struct consumer *c, const char *plugin_dir, config_report *report, void *arg) MUST_USE;

/* Makes a plugin's problems those of the configuration: consumer_report_setting is the plugin_report, its arg is this.
 */
struct consumer_reporter {
	config_report *report;
	void *arg;
	const struct config_consumer *consumer;
	char section[80];
};
void consumer_reporter_init(struct consumer_reporter *r, const struct config_consumer *config, config_report *report,
			    void *arg);
void consumer_report_setting(void *reporter, const struct plugin_setting *setting, const char *text);

/* host.c: this session claims for the consumer from now on, if its row in the registry allows that: see registry.h. Who
 * serves it, and does not only feed it, also sets the window there. */
enum status consumer_host(struct consumer *c, struct pg_session *s, bool serves, struct error *err) MUST_USE;

/* A day of claims is missing: whoever keeps them, if anybody of this process does, shall look now. */
void consumer_miss_day(const struct consumer *c);

static inline size_t consumer_vitals_count(const struct consumer *c)
{
	return (size_t)c->config->workers + 1;
}

#endif

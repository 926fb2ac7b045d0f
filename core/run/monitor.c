#include "run/monitor.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "http/server.h"
#include "run/health.h"
#include "run/metrics.h"
#include "run/outbox_metrics.h"
#include "run/watch.h"
#include "run/worker.h"
#include <inttypes.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

enum { EXIT_HANG = 70 /* EX_SOFTWARE: the service manager starts it again, and probation finds the message */ };

struct monitor {
	struct view *view;
	struct watch *watch;
	struct http_server *http;
	int64_t wake_ms;
	int64_t ping_ms;      /* how often the service manager wants to hear; 0: never */
	int64_t next_ping_ms; /* on clock_mono_ms() */
	bool started, ready;
};

static void answer_metrics(void *arg, const char *accept, struct http_reply *reply)
{
	const struct monitor *m = arg;
	const enum exposition_format format = exposition_negotiate(accept);
	reply->content_type = exposition_content_types[format];
	pthread_mutex_lock(&m->view->lock);
	metrics_write(m->view, format, &reply->body);
	pthread_mutex_unlock(&m->view->lock);
}

static void answer_live(void *arg, const char *accept, struct http_reply *reply)
{
	const struct monitor *m = arg;
	(void)accept;
	pthread_mutex_lock(&m->view->lock);
	if (health_is_live(m->view, &reply->body))
		buffer_puts(&reply->body, "live\n");
	else
		reply->status = 503;
	pthread_mutex_unlock(&m->view->lock);
}

static void answer_ready(void *arg, const char *accept, struct http_reply *reply)
{
	const struct monitor *m = arg;
	(void)accept;
	pthread_mutex_lock(&m->view->lock);
	if (health_is_ready(m->view, &reply->body))
		buffer_puts(&reply->body, "ready\n");
	else
		reply->status = 503;
	outbox_notes(m->view, &reply->body);
	pthread_mutex_unlock(&m->view->lock);
}

static const struct http_route routes[] = {
	{ "/metrics", answer_metrics },
	{ "/healthz", answer_live },
	{ "/readyz", answer_ready },
	{ NULL, NULL },
};

static int64_t interval_ms(const struct monitor *m)
{
	const int64_t watch = watch_interval_ms(m->watch);
	return m->ping_ms > 0 && m->ping_ms < watch ? m->ping_ms : watch;
}

static enum status start(struct monitor *m, struct error *err)
{
	const struct config_process *config = &m->view->config->process;
	enum status st = watch_create(&m->watch, m->view, err);
	if (st != ST_OK)
		return st;
	uint64_t usec = 0;
	if (sd_watchdog_enabled(0, &usec) > 0)
		m->ping_ms = usec >= 2000 ? (int64_t)usec / 2000 : 1;
	m->wake_ms = clock_mono_ms() + interval_ms(m);
	if (!*config->http_listen)
		return ST_OK;
	st = http_server_start(&m->http, config->http_listen, routes, m, err);
	if (st != ST_OK)
		return error_wrap(err, "[effectd] http_listen (another address, or empty to do without)");
	log_info("http_listening", LOG_STR("address", config->http_listen));
	return ST_OK;
}

enum status monitor_create(struct monitor **ret, struct view *view, struct error *err)
{
	struct monitor *m = calloc(1, sizeof(*m));
	if (!m)
		return error_oom(err);
	m->view = view;
	const enum status st = start(m, err);
	if (st != ST_OK) {
		monitor_destroy(m);
		return st;
	}
	*ret = m;
	return ST_OK;
}

void monitor_destroy(struct monitor *m)
{
	if (!m)
		return;
	http_server_stop(m->http);
	watch_destroy(m->watch);
	free(m);
}

void monitor_tell_status(struct monitor *m)
{
	CLEANUP(buffer_finish) struct buffer reasons = { 0 };
	uint64_t sums[OUTCOME_COUNT] = { 0 };
	m->ready = health_is_ready(m->view, &reasons);
	for (size_t i = 0; i < m->view->consumer_count; i++)
		for (size_t j = 0; j < OUTCOME_COUNT; j++)
			sums[j] += counter_get(&m->view->consumers[i]->counters.outcomes[j]);
	const char *first = buffer_text(&reasons);
	sd_notifyf(0, "STATUS=%s%.*s; %zu consumer%s; %" PRIu64 " applied, %" PRIu64 " duplicate, %" PRIu64 " parked",
		   m->ready ? "ready" : "not ready: ", (int)strcspn(first, "\n"), first, m->view->consumer_count,
		   m->view->consumer_count == 1 ? "" : "s", sums[OUTCOME_APPLIED], sums[OUTCOME_DUPLICATE],
		   sums[OUTCOME_PARKED]);
}

void monitor_started(struct monitor *m)
{
	m->started = true;
	sd_notify(0, "READY=1");
	monitor_tell_status(m);
}

void monitor_reloading(struct monitor *m, bool begins)
{
	(void)m;
	sd_notify(0, begins ? "RELOADING=1" : "READY=1");
}

void monitor_stopping(struct monitor *m)
{
	sd_notify(0, "STOPPING=1\nSTATUS=draining");
	(void)m;
}

int64_t monitor_wake_ms(const struct monitor *m)
{
	return m->wake_ms;
}

void monitor_look(struct monitor *m)
{
	const int64_t now = clock_mono_ms();
	if (now < m->wake_ms)
		return;
	m->wake_ms = now + interval_ms(m);
	struct hang hang;
	const bool draining = atomic_load(&m->view->stop->order) != STOP_NO;
	if (watch_look(m->watch, &hang) && !draining) {
		log_error("plugin_hangs", LOG_STR("consumer", hang.consumer), LOG_INT("worker", hang.worker),
			  LOG_STR("function", hang.function), LOG_INT("ms", hang.ms),
			  LOG_STR("next", "the process ends, nothing is lost; started again it finds the message"));
		_exit(EXIT_HANG);
	}
	CLEANUP(buffer_finish) struct buffer reasons = { 0 };
	if (m->ping_ms > 0 && now >= m->next_ping_ms && health_is_live(m->view, &reasons)) {
		sd_notify(0, "WATCHDOG=1");
		m->next_ping_ms = now + m->ping_ms;
	}
	buffer_clear(&reasons);
	if (!draining && health_is_ready(m->view, &reasons) != m->ready)
		monitor_tell_status(m);
}

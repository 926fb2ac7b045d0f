/* Hosting a consumer: before a session claims anything, effectd.consumers must say that claims are kept
 * as this process means to keep them. What a new row or another window means is said once a process, before it acts. */
#include "base/log.h"
#include "retention/registry.h"
#include "run/consumer.h"
#include "run/interlock.h"
#include <errno.h>
#include <unistd.h>

/* A consumer under a new name has no claims. Whoever renamed one should hear of it before its queue is applied anew. */
static enum status tell_of_others(const struct consumer *c, struct pg_session *s, struct error *err)
{
	CLEANUP(buffer_finish) struct buffer names = { 0 };
	const enum status st = registry_idle(s, c->config->name, &names, err);
	if (st == ST_OK && names.len > 0)
		log_warn("consumer_is_new", LOG_STR("idle_consumers", buffer_text(&names)),
			 LOG_STR("next",
				 "if it is one of these under a new name: its claims are not found under the new "
				 "one, so a message that was applied already is applied again; give it back its "
				 "name. Those that are gone for good: `effectd retention --forget NAME`"));
	return st;
}

static void warn_of_window(void *arg, const char *key, const char *text)
{
	(void)arg;
	log_warn("window_is_short", LOG_STR("key", key), LOG_STR("detail", text));
}

enum status consumer_host(struct consumer *c, struct pg_session *s, bool serves, struct error *err)
{
	const struct config_consumer *config = c->config;
	const bool first = serves && !atomic_exchange(&c->registered, true);
	const struct registration registration = {
		.consumer = config->name,
		.daily = config->claims == CLAIMS_DAILY,
		.window_ms = config->retention_ms,
		.first = first,
	};
	struct registered before;
	enum status st = registry_host(s, &registration, &before, err);
	if (st == ST_OK && first && !before.known)
		st = tell_of_others(c, s, err);
	if (st == ST_OK && first && before.known && registry_shrinks(&before, config->retention_ms))
		log_warn("window_shrinks",
			 LOG_INT("from_s", before.old_window_ms < 0 ? -1 : before.old_window_ms / 1000),
			 LOG_INT("to_s", config->retention_ms / 1000),
			 LOG_STR("next", "the next pass of retention deletes the claims in between; copies of their "
					 "messages are not recognised after that"));
	if (st == ST_OK && first)
		interlock_check(config, NULL, warn_of_window, NULL);
	if (st != ST_OK && first)
		atomic_store(&c->registered, false);
	return st;
}

void consumer_miss_day(const struct consumer *c)
{
	const uint64_t one = 1;
	if (c->keeper_fd >= 0 && write(c->keeper_fd, &one, sizeof(one)) < 0)
		log_debug("wake_failed", LOG_INT("errno", errno));
}

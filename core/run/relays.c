#include "run/relays.h"
#include "run/params.h"
#include <string.h>

static bool is_named(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static const struct config_relay *find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->relay_count; i++)
		if (strcmp(config->relays[i].name, name) == 0)
			return &config->relays[i];
	return NULL;
}

enum status relays_init(struct relays *r, const struct config *config, const char *const *names, size_t name_count,
			bool all, struct error *err)
{
	*r = (struct relays){
		.config = config,
		.list = calloc(config->relay_count + 1, sizeof(*r->list)),
		.notified_ms = calloc(config->database_count + 1, sizeof(*r->notified_ms)),
	};
	if (!r->list || !r->notified_ms)
		return error_oom(err);
	for (size_t i = 0; i < name_count; i++)
		if (!find(config, names[i]))
			return error_set(err, ST_INVALID, "there is no section [relay:%s]", names[i]);
	for (size_t i = 0; i < config->relay_count; i++) {
		const struct config_relay *relay = &config->relays[i];
		if (!all && !is_named(names, name_count, relay->name))
			continue;
		struct pg_params database;
		params_of_database(relay->database, &config->process, NULL, &database);
		const enum status st = relay_create(&r->list[r->count], config, relay, &database, err);
		if (st != ST_OK)
			return st;
		r->count++;
	}
	return ST_OK;
}

enum status relays_start(struct relays *r, struct error *err)
{
	enum status st = ST_OK;
	for (size_t i = 0; st == ST_OK && i < r->count; i++)
		st = relay_start(r->list[i], err);
	return st;
}

void relays_wake(struct relays *r, const struct config_database *database)
{
	for (size_t i = 0; i < r->count; i++)
		if (relay_config(r->list[i])->database == database)
			relay_wake(r->list[i]);
}

void relays_stop(struct relays *r, int64_t deadline_ms)
{
	for (size_t i = 0; i < r->count; i++)
		relay_stop(r->list[i], deadline_ms);
}

bool relays_join(struct relays *r, int64_t deadline_ms)
{
	bool all = true;
	for (size_t i = 0; i < r->count; i++)
		all = relay_join(r->list[i], deadline_ms) && all;
	return all;
}

void relays_finish(struct relays *r)
{
	for (size_t i = 0; i < r->count; i++)
		relay_destroy(r->list[i]);
	free(r->list);
	free(r->notified_ms);
}

_Atomic int64_t *relays_notified_ms(struct relays *r, const struct config_database *database)
{
	return &r->notified_ms[database - r->config->databases];
}

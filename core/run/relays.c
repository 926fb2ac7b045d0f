#include "run/relays.h"
#include "run/params.h"
#include <stdio.h>
#include <string.h>

struct relay_notice {
	_Atomic int64_t sent_ms;
	struct relay_notice *next;
	char database[];
};

void relays_init(struct relays *r)
{
	*r = (struct relays){ 0 };
	pthread_mutex_init(&r->lock, NULL);
}

void relays_finish(struct relays *r)
{
	for (size_t i = 0; i < r->count; i++)
		hosted_relay_destroy(&r->list[i]);
	free(r->list);
	for (struct relay_notice *n = r->notices, *next; n; n = next) {
		next = n->next;
		free(n);
	}
	pthread_mutex_destroy(&r->lock);
}

enum status hosted_relay_create(struct hosted_relay *ret, struct config *config, const struct config_relay *section,
				struct error *err)
{
	struct pg_params database;
	params_of_database(section->database, &config->process, NULL, &database);
	const enum status st = relay_create(&ret->relay, config, section, &database, err);
	if (st == ST_OK)
		ret->held = config_hold(config);
	return st;
}

void hosted_relay_destroy(struct hosted_relay *h)
{
	relay_destroy(h->relay);
	config_destroy(h->held);
	*h = (struct hosted_relay){ 0 };
}

enum status relays_add(struct relays *r, const struct hosted_relay *h, struct error *err)
{
	pthread_mutex_lock(&r->lock);
	struct hosted_relay *more = realloc(r->list, (r->count + 1) * sizeof(*more));
	if (more) {
		r->list = more;
		r->list[r->count++] = *h;
	}
	pthread_mutex_unlock(&r->lock);
	return more ? ST_OK : error_oom(err);
}

struct hosted_relay relays_remove(struct relays *r, size_t index)
{
	pthread_mutex_lock(&r->lock);
	const struct hosted_relay h = r->list[index];
	memmove(&r->list[index], &r->list[index + 1], (--r->count - index) * sizeof(h));
	pthread_mutex_unlock(&r->lock);
	return h;
}

void relays_wake(struct relays *r, const char *database)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(relay_config(r->list[i].relay)->database->name, database) == 0)
			relay_wake(r->list[i].relay);
	pthread_mutex_unlock(&r->lock);
}

void relays_watch(struct relays *r, int64_t passed_ms)
{
	for (size_t i = 0; i < r->count; i++)
		relay_watch(r->list[i].relay, passed_ms);
}

void relays_stop(struct relays *r, int64_t deadline_ms)
{
	for (size_t i = 0; i < r->count; i++)
		relay_stop(r->list[i].relay, deadline_ms);
}

bool relays_join(struct relays *r, int64_t deadline_ms)
{
	bool all = true;
	for (size_t i = 0; i < r->count; i++)
		all = relay_join(r->list[i].relay, deadline_ms) && all;
	return all;
}

_Atomic int64_t *relays_notified_ms(struct relays *r, const char *database)
{
	for (struct relay_notice *n = r->notices; n; n = n->next)
		if (strcmp(n->database, database) == 0)
			return &n->sent_ms;
	struct relay_notice *n = calloc(1, sizeof(*n) + strlen(database) + 1);
	if (!n)
		return NULL;
	strcpy(n->database, database);
	n->next = r->notices;
	r->notices = n;
	return &n->sent_ms;
}

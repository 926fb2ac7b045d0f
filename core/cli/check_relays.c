/* check, where effects leave the database: do rows of each kind have one relay, and is there whom it calls? */
#include "base/text.h"
#include "cli/check.h"
#include "relay/relay.h"
#include <inttypes.h>
#include <string.h>

/* Each by its partial index. */
static const char rows_sql[] =
	"SELECT kind, sum(pending)::int8, sum(dead)::int8 FROM"
	" (SELECT kind, count(*) AS pending, 0 AS dead FROM effectd.outbox WHERE status = 'pending' GROUP BY kind"
	"  UNION ALL"
	"  SELECT kind, 0, count(*) FROM effectd.outbox WHERE status = 'dead' GROUP BY kind) AS o"
	" GROUP BY kind ORDER BY kind";

/* --- without asking anybody --- */

/* The first kind.NAME of the configuration that goes to this target. */
static const struct config_pair *user_of(const struct config *config, const struct config_target *target)
{
	for (size_t i = 0; i < config->relay_count; i++)
		for (size_t k = 0; k < config->relays[i].kinds.count; k++)
			if (strcmp(config->relays[i].kinds.list[k].value, target->name) == 0)
				return &config->relays[i].kinds.list[k];
	return NULL;
}

static const struct config_pair *kind_of(const struct config_relay *relay, const char *kind, size_t len)
{
	for (size_t k = 0; k < relay->kinds.count; k++)
		if (strlen(relay->kinds.list[k].name) == len && memcmp(relay->kinds.list[k].name, kind, len) == 0)
			return &relay->kinds.list[k];
	return NULL;
}

/* Two relays may share a kind; with two targets it is chance who gets a row. */
static void check_kinds(struct check *c, const struct config_relay *relay, const struct config_relay *before)
{
	for (size_t k = 0; k < relay->kinds.count && relay->database == before->database; k++) {
		const struct config_pair *kind = &relay->kinds.list[k];
		const struct config_pair *other = kind_of(before, kind->name, strlen(kind->name));
		char key[96];
		snprintf(key, sizeof(key), "kind.%s", kind->name);
		if (other && strcmp(other->value, kind->value) != 0)
			check_warning(
				c, kind->place, check_subject_of("relay", relay->name, relay->place).section, key,
				"[relay:%s] takes this kind as well, to target %s: each row goes to one of the two",
				before->name, other->value);
	}
}

void check_targets(struct check *c)
{
	for (size_t i = 0; i < c->config->relay_count; i++)
		for (size_t before = 0; before < i; before++)
			check_kinds(c, &c->config->relays[i], &c->config->relays[before]);
	for (size_t i = 0; i < c->config->target_count; i++) {
		const struct config_target *target = &c->config->targets[i];
		if (!user_of(c->config, target))
			check_warning(c, target->place, check_subject_of("target", target->name, target->place).section,
				      NULL, "no relay has a kind.NAME for it: it is never called");
	}
}

/* --- live --- */

static const struct config_relay *relay_for(const struct config *config, const struct config_database *database,
					    const char *kind, size_t len)
{
	for (size_t i = 0; i < config->relay_count; i++)
		if (config->relays[i].database == database && kind_of(&config->relays[i], kind, len))
			return &config->relays[i];
	return NULL;
}

enum status check_outbox(struct check *c, const struct config_database *config, struct pg_session *session,
			 struct error *err)
{
	const struct check_subject s = check_subject_of("database", config->name, config->place);
	struct pg_result result;
	const enum status st = pg_query(session, rows_sql, NULL, 0, &result, err);
	for (int row = 0; st == ST_OK && row < result.rows; row++) {
		int len = 0;
		const char *kind = pg_value(&result, row, 0, &len);
		const int64_t pending = pg_value_int8(&result, row, 1), dead = pg_value_int8(&result, row, 2);
		const struct config_relay *relay = relay_for(c->config, config, kind, (size_t)len);
		char shown[160]; /* whoever may insert rows chooses it */
		text_escape(shown, sizeof(shown), kind, (size_t)len);
		if (relay)
			check_fact(c, check_subject_of("relay", relay->name, relay->place).title,
				   "%" PRId64 " rows of kind %s are pending, %" PRId64 " are dead", pending, shown,
				   dead);
		else if (pending > 0)
			check_warning(c, s.place, s.section, NULL,
				      "%" PRId64
				      " outbox rows of kind %s are pending, and no relay of this configuration takes "
				      "them",
				      pending, shown);
	}
	return st;
}

void check_live_targets(struct check *c)
{
	for (size_t i = 0; i < c->config->target_count; i++) {
		const struct config_target *target = &c->config->targets[i];
		const struct check_subject s = check_subject_of("target", target->name, target->place);
		CLEANUP(buffer_finish) struct buffer fact = { 0 };
		struct error err = { 0 };
		if (!user_of(c->config, target))
			continue;
		if (relay_probe(target, &fact, &err) == ST_OK)
			check_fact(c, s.title, "%s", buffer_text(&fact));
		else
			check_error(c, &s, s.place, NULL, check_peer_exit_code(&err), &err);
	}
}

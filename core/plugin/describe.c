/* Statements on a new session: prepared, and described as far as a plugin must know.
 *
 * PostgreSQL describes a parameter that goes into a column of a domain as that domain. A domain takes the bytes of the
 * type below it, so it is looked through once here, and values are compared with what it is made of. */
#include "base/buffer.h"
#include "plugin/host.h"
#include <stdio.h>

enum { FIRST_OWN_OID = 16384 }; /* below are PostgreSQL's own types, none of which is a domain to us */

static const char domains_sql[] =
	"WITH RECURSIVE below AS ("
	" SELECT oid AS domain, typbasetype AS type FROM pg_catalog.pg_type WHERE oid = ANY ($1::oid[]) AND typtype = "
	"'d'"
	" UNION ALL"
	" SELECT below.domain, t.typbasetype FROM below JOIN pg_catalog.pg_type t ON t.oid = below.type"
	" WHERE t.typtype = 'd')"
	" SELECT below.domain::int8, t.oid::int8 FROM below JOIN pg_catalog.pg_type t ON t.oid = below.type"
	" WHERE t.typtype <> 'd'";

static void replace(struct plugin_instance *p, uint32_t domain, uint32_t type)
{
	for (size_t i = 0; i < p->statement_count; i++)
		for (uint16_t j = 0; j < p->prepared[i].param_count; j++)
			if (p->prepared[i].param_types[j] == domain)
				p->prepared[i].param_types[j] = type;
}

static enum status look_through_domains(struct plugin_instance *p, struct pg_session *s, struct error *err)
{
	CLEANUP(buffer_finish) struct buffer oids = { 0 };
	for (size_t i = 0; i < p->statement_count; i++)
		for (uint16_t j = 0; j < p->prepared[i].param_count; j++)
			if (p->prepared[i].param_types[j] >= FIRST_OWN_OID)
				buffer_printf(&oids, "%s%u", oids.len > 0 ? "," : "{", p->prepared[i].param_types[j]);
	if (oids.failed)
		return error_oom(err);
	if (oids.len == 0)
		return ST_OK;
	buffer_puts(&oids, "}");
	struct pg_result r;
	enum status st = pg_query(s, domains_sql, (const char *const[]){ buffer_text(&oids) }, 1, &r, err);
	if (st != ST_OK)
		return st;
	for (int row = 0; row < r.rows; row++)
		replace(p, (uint32_t)pg_value_int8(&r, row, 0), (uint32_t)pg_value_int8(&r, row, 1));
	return ST_OK;
}

/* The setting that statement i was written in; NULL: none. */
static const struct plugin_setting *origin(const struct plugin_instance *p, size_t i)
{
	const char *option = p->statements[i].option;
	return option ? plugin_find_setting(p->settings, p->setting_count, option) : NULL;
}

enum status plugin_instance_prepare(struct plugin_instance *p, struct pg_session *s, struct error *err)
{
	size_t bad = 0;
	enum status st = ST_OK;
	if (p->statement_count > 0)
		st = pg_prepare(s, p->prepared, p->statement_count, &bad, err);
	if (st == ST_REFUSED) {
		const struct plugin_setting *setting = origin(p, bad);
		return setting ? plugin_wrap_setting(err, setting)
			       : error_wrap(err, "statement %s", p->statements[bad].name);
	}
	if (st == ST_OK)
		st = look_through_domains(p, s, err);
	struct first_problem first = { .err = err };
	if (st == ST_OK && setup_described(p, plugin_keep_first, &first) > 0)
		st = ST_INVALID;
	return st;
}

enum status plugin_instance_check_statements(struct plugin_instance *p, struct pg_session *s, plugin_report *report,
					     void *arg, size_t *ret_problems, struct error *err)
{
	*ret_problems = 0;
	for (size_t i = 0; i < p->statement_count; i++) {
		struct error refused;
		char text[sizeof(refused.text) + 100];
		size_t bad;
		const enum status st = pg_prepare(s, &p->prepared[i], 1, &bad, &refused);
		if (st == ST_OK)
			continue;
		if (st != ST_REFUSED) {
			*err = refused;
			return st;
		}
		const struct plugin_setting *setting = origin(p, i);
		if (!setting)
			error_wrap(&refused, "statement %s", p->statements[i].name);
		snprintf(text, sizeof(text), refused.sqlstate[0] ? "%s (SQLSTATE %s)" : "%s", refused.text,
			 refused.sqlstate);
		report(arg, setting, text);
		++*ret_problems;
	}
	enum status st = *ret_problems == 0 ? look_through_domains(p, s, err) : ST_OK;
	if (st == ST_OK && *ret_problems == 0)
		*ret_problems = setup_described(p, report, arg);
	return st;
}

/* Statements on a new session: prepared, and described as far as a plugin must know.
 *
 * PostgreSQL describes a parameter that goes into a column of a domain as that domain. A domain takes the bytes of the
 * type below it, so it is looked through once here, and values are compared with what it is made of. */
#include "base/buffer.h"
#include "plugin/instance.h"

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

enum status plugin_instance_prepare(struct plugin_instance *p, struct pg_session *s, size_t *ret_bad, struct error *err)
{
	size_t bad = 0;
	if (p->statement_count == 0)
		return ST_OK;
	enum status st = pg_prepare(s, p->prepared, p->statement_count, &bad, err);
	if (st == ST_REFUSED) {
		*ret_bad = bad;
		return error_wrap(err, "statement %s", p->statements[bad].name);
	}
	return st == ST_OK ? look_through_domains(p, s, err) : st;
}

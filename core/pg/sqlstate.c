/* SQLSTATE -> whose fault it is. Section 2 of the contract as one table; what is not in it stops the consumer rather
 * than park messages, because a wrong guess in that direction loses nothing. */
#include "pg/sqlstate.h"

#include <string.h>

struct row {
	const char *prefix; /* a whole code, or the beginning that its codes share */
	enum fault_class class;
	unsigned traits;
};

/* In byte order; the longest prefix of a code counts. Every class that PostgreSQL has is here with what its unlisted
 * codes mean, so that a code of no class was raised by somebody's own function. */
static const struct row table[] = {
	{ "00", FAULT_PROGRAM },
	{ "01", FAULT_PROGRAM },
	{ "02", FAULT_PROGRAM },
	{ "03", FAULT_PROGRAM },
	{ "08", FAULT_ENVIRONMENT },
	{ "08P01", FAULT_PROGRAM }, /* one argument too few: ours, not the network's */
	{ "09", FAULT_PROGRAM },
	{ "0A", FAULT_PROGRAM },
	{ "0A000", FAULT_PROGRAM, FAULT_TRAIT_SESSION }, /* ALTER TABLE under a prepared statement */
	{ "0B", FAULT_PROGRAM },
	{ "0F", FAULT_PROGRAM },
	{ "0L", FAULT_PROGRAM },
	{ "0P", FAULT_PROGRAM },
	{ "0Z", FAULT_PROGRAM },
	{ "10", FAULT_PROGRAM },
	{ "20", FAULT_PROGRAM },
	{ "21", FAULT_MESSAGE },
	{ "22", FAULT_MESSAGE },
	{ "22P03", FAULT_PROGRAM }, /* an argument of the wrong width, not bad data */
	{ "23", FAULT_MESSAGE },
	{ "23505", FAULT_MESSAGE, FAULT_TRAIT_TWICE }, /* may be a race with another writer: then it is gone alone */
	{ "23P01", FAULT_MESSAGE, FAULT_TRAIT_TWICE },
	{ "24", FAULT_PROGRAM },
	{ "25", FAULT_PROGRAM },
	{ "25006", FAULT_ENVIRONMENT, FAULT_TRAIT_SESSION }, /* a server, or a session, that became read-only */
	{ "25P03", FAULT_ENVIRONMENT },                      /* idle in transaction for too long: we were stopped */
	{ "26", FAULT_PROGRAM },
	{ "26000", FAULT_PROGRAM, FAULT_TRAIT_SESSION }, /* the prepared statement is gone */
	{ "27", FAULT_PROGRAM },
	{ "28", FAULT_ENVIRONMENT }, /* passwords rotate; no message is to blame */
	{ "2B", FAULT_PROGRAM },
	{ "2D", FAULT_PROGRAM },
	{ "2F", FAULT_PROGRAM },
	{ "34", FAULT_PROGRAM },
	{ "38", FAULT_MESSAGE },
	{ "39", FAULT_MESSAGE },
	{ "3B", FAULT_PROGRAM },
	{ "3D", FAULT_PROGRAM },
	{ "3D000", FAULT_ENVIRONMENT }, /* the database is being restored */
	{ "3F", FAULT_PROGRAM },
	{ "40", FAULT_ENVIRONMENT },
	{ "40001", FAULT_ENVIRONMENT, FAULT_TRAIT_CONTENTION },
	{ "40P01", FAULT_ENVIRONMENT, FAULT_TRAIT_CONTENTION },
	{ "42", FAULT_PROGRAM },
	{ "44", FAULT_PROGRAM },
	{ "44000", FAULT_MESSAGE },
	{ "53", FAULT_ENVIRONMENT },
	{ "53200", FAULT_ENVIRONMENT, FAULT_TRAIT_OWN },
	{ "54", FAULT_MESSAGE },
	{ "55", FAULT_PROGRAM },
	{ "55006", FAULT_ENVIRONMENT },
	{ "55P03", FAULT_ENVIRONMENT, FAULT_TRAIT_OWN },
	{ "57", FAULT_PROGRAM },
	{ "57014", FAULT_ENVIRONMENT, FAULT_TRAIT_OWN },
	{ "57P0", FAULT_ENVIRONMENT },
	{ "58", FAULT_ENVIRONMENT },
	{ "72", FAULT_PROGRAM },
	{ "72000", FAULT_ENVIRONMENT },
	{ "F0", FAULT_PROGRAM },
	{ "HV", FAULT_PROGRAM },
	{ "P0", FAULT_MESSAGE },
	{ "XX", FAULT_PROGRAM },
};

struct prefix {
	const char *text;
	size_t len;
};

static int compare(const void *key, const void *element)
{
	const struct prefix *p = key;
	const char *row = ((const struct row *)element)->prefix;
	int order = strncmp(p->text, row, p->len);
	return order ? order : row[p->len] ? -1 : 0;
}

static const struct row *find(const char *sqlstate)
{
	const struct row *row = NULL;
	for (size_t len = strlen(sqlstate); len >= 2 && !row; len--) {
		struct prefix prefix = { sqlstate, len };
		row = bsearch(&prefix, table, ARRAY_LEN(table), sizeof(table[0]), compare);
	}
	return row;
}

struct fault_kind pg_sqlstate_kind(const struct error *err)
{
	static const struct row unknown = { "", FAULT_PROGRAM }, user_raised = { "", FAULT_MESSAGE };
	const struct row *row = err->sqlstate[0] ? find(err->sqlstate) : &unknown;
	if (!row)
		row = &user_raised;
	/* FATAL and PANIC end the session whatever they say of the statement: only what the environment itself would
	 * be asked about stays interesting. */
	if (err->fatal && row->class != FAULT_ENVIRONMENT)
		return (struct fault_kind){ FAULT_ENVIRONMENT, 0 };
	return (struct fault_kind){ row->class, row->traits };
}

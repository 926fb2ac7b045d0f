#ifndef RETENTION_SWITCH_H
#define RETENTION_SWITCH_H

#include "pg/session.h"

struct switched {
	bool already;    /* it claims by day, or in both tables, since earlier */
	int64_t until_s; /* when it stops claiming in both tables, since 1970; 0: it claims by day alone */
	int64_t days_made;
};

/* From claims in one table to claims by day, of a consumer that nobody hosts: from now on for one window it claims in
 * both tables, so that a copy meets the claim of before wherever that is. On a session whose role owns the tables;
 * the consumer stays taken until the session ends. ST_REFUSED: err says why not. */
enum status switch_to_daily(struct pg_session *owner, const char *consumer, struct switched *ret,
			    struct error *err) MUST_USE;

#endif

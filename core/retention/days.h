/* The partitions of effectd.processed_messages_daily: one a day of events, from the floor to some days ahead. Days are
 * numbers, counted from 1970-01-01, UTC.
 *
 * The floor only rises. It is committed before anything is taken away, so that whoever finds a day gone can read why.
 * Made with LIKE and ATTACH, taken away with DETACH CONCURRENTLY: neither waits for readers while others wait for it.
 */
#ifndef RETENTION_DAYS_H
#define RETENTION_DAYS_H

#include "pg/session.h"

enum {
	DAYS_AHEAD = 7,        /* made from today on: a week of failures does no harm */
	DAYS_AHEAD_NEEDED = 3, /* a consumer does not start with fewer */
};

struct days {
	bool used;               /* a registered consumer keeps claims by day */
	bool busy;               /* another session is at it; nothing was done */
	int64_t floor, today;    /* the floor as it is now */
	int64_t made, dropped;   /* partitions */
	int64_t missing, behind; /* days that are needed and not there; partitions below the floor */
};

/* One pass on a session whose role owns the table, outside of any transaction: finishes a detach that was interrupted,
 * raises the floor, makes days, drops days. What fails does not keep the other from being tried; err is the first
 * failure. ret is filled as far as it went. */
enum status days_keep(struct pg_session *owner, struct days *ret, struct error *err) MUST_USE;

/* What a pass would do: missing and behind; any role may look. */
enum status days_look(struct pg_session *s, struct days *ret, struct error *err) MUST_USE;

/* YYYY-MM-DD, of a day between year 0 and 9999. */
struct day_text {
	char text[16];
};
struct day_text days_text(int64_t day);

#endif

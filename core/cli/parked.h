/* effectd parked: what its files share. */
#ifndef CLI_PARKED_H
#define CLI_PARKED_H

#include "cli/rows.h"
#include "source/parked.h"

/* Of a row p of effectd.parked_messages: is its key claimed, by either kind of claim? Then a replay changes nothing. */
#define PARKED_IS_CLAIMED_SQL                                               \
	"(EXISTS (SELECT FROM effectd.processed_messages AS c"              \
	" WHERE c.consumer = p.consumer AND c.message_key = p.message_key)" \
	" OR EXISTS (SELECT FROM effectd.processed_messages_daily AS c"     \
	" WHERE c.consumer = p.consumer AND c.message_key = p.message_key))"

/* Is it older than the window, and nobody said yet that this does not matter? */
#define PARKED_IS_REFUSED_SQL "(NOT p.beyond_window AND " PARKED_IS_BEYOND_WINDOW_SQL ")"

/* Is a process at it, or was, until it died or lost its connection? */
#define PARKED_IS_IN_WORK_SQL "coalesce(p.leased_until > now(), false)"

extern const struct rows_table parked_table;

/* One message, complete, or its body alone as it is. */
int parked_show(struct cli *cli, const struct rows_choice *choice, bool body);

#endif

/* Which deliveries were inside plugin code when a process died: effectd.attempts. Written in probation only; in normal
 * running it costs nothing. */
#ifndef SOURCE_JOURNAL_H
#define SOURCE_JOURNAL_H

#include "exact/source.h"

enum { JOURNAL_CRASHES = 3, JOURNAL_STATEMENT_COUNT = 2 };

extern const struct pg_statement journal_statements[JOURNAL_STATEMENT_COUNT];

/* Counts the message as inside, in a transaction of its own. *ret_culprit: it was already when a process died, at least
 * JOURNAL_CRASHES times, or it is parked for that. */
enum status journal_enter(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			  bool *ret_culprit, struct error *err) MUST_USE;

/* Sends the statement that forgets it, into the transaction that settles it. */
enum status journal_leave_send(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			       struct error *err) MUST_USE;

#endif

/* Which deliveries were inside plugin code when a process died: effectd.attempts. Written in probation only; in normal
 * running it costs nothing. A row says how often its message went in and neither came out nor settled. */
#ifndef SOURCE_JOURNAL_H
#define SOURCE_JOURNAL_H

#include "exact/source.h"

enum { JOURNAL_CRASHES = 3, JOURNAL_FINGERPRINT_BYTES = 32, JOURNAL_STATEMENT_COUNT = 3 };

extern const struct pg_statement journal_statements[JOURNAL_STATEMENT_COUNT];

/* What the journal keeps of one message that is in hand. */
struct journal_entry {
	char fingerprint[JOURNAL_FINGERPRINT_BYTES];
	bool counted; /* as inside */
};

/* Counts the message as inside, in a transaction of its own. Suspects are counted only where they are let in; a culprit
 * was inside JOURNAL_CRASHES times when a process died, or is parked for that. */
enum status journal_enter(struct pg_session *s, const char *consumer, const struct message *m, struct arena *arena,
			  bool suspects, struct journal_entry *entry, enum entry *ret, struct error *err) MUST_USE;

/* Takes the count back, in a transaction of its own: the message came out, or never will be inside again here. */
enum status journal_leave(struct pg_session *s, const char *consumer, struct journal_entry *entry,
			  struct error *err) MUST_USE;

/* Sends the statement that forgets the message, into the transaction that settles it. */
enum status journal_forget_send(struct pg_session *s, const char *consumer, const struct journal_entry *entry,
				struct error *err) MUST_USE;

/* Removes what nobody will come back for: rows of messages that another process settled in normal running, where it
 * does not look here. A message that kills processes comes back sooner than the day that rows are kept. */
enum status journal_sweep(struct pg_session *s, const char *consumer, struct error *err) MUST_USE;

#endif

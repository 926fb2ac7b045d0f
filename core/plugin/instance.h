/* One configured plugin in one worker: its statements as PostgreSQL described them, and the calls into it.
 *
 * A call records operations; nothing is sent from inside plugin code. The heart sends a message's operations after its
 * apply() returned OK, so whatever a plugin queued before another verdict is simply forgotten. */
#ifndef PLUGIN_INSTANCE_H
#define PLUGIN_INSTANCE_H

#include "base/arena.h"
#include "pg/session.h"
#include "plugin/load.h"
#include "plugin/message.h"
#include "plugin/options.h"
#include <stdatomic.h>

/* What runs inside plugin code. */
enum plugin_function { PLUGIN_OUTSIDE, PLUGIN_KEY, PLUGIN_APPLY, PLUGIN_APPLY_BATCH };
enum { PLUGIN_FUNCTION_BITS = 2 };

struct plugin_instance {
	const struct plugin *plugin;
	const char *consumer;
	void *state;                          /* the plugin's own, from configure() */
	effectd_claim claim;                  /* mode */
	struct effectd_statement *statements; /* static ones, then those that configure() declared */
	struct pg_statement *prepared;        /* parallel; valid for the session last prepared on */
	size_t statement_count;
	const struct plugin_setting *settings; /* the caller's */
	size_t setting_count;
	/* For a watchdog in another thread: an enum plugin_function in the low bits, above them the number of calls, by
	 * which one long call is told from many short ones. Points to where the owner wants it; at first, in here. */
	_Atomic uint64_t *doing;
	/* private to core/plugin behind here */
	struct arena memory; /* of what configure() declared, and of statement names */
	bool configured;     /* configure() returned true: destroy() is owed */
	uint64_t calls;
	_Atomic uint64_t doing_here;
};

/* Checks the settings, calls configure(). The settings live as long as the instance. ST_INVALID: err says which setting
 * is wrong or what the plugin said, with file and line. */
enum status plugin_instance_create(struct plugin_instance **ret, const struct plugin *plugin, const char *consumer,
				   const struct plugin_setting *settings, size_t n, struct error *err) MUST_USE;
void plugin_instance_destroy(struct plugin_instance *p); /* calls destroy(); NULL is fine */

/* Would it be created? Reports every problem and returns how many there are. */
size_t plugin_instance_check(const struct plugin *plugin, const char *consumer, const struct plugin_setting *settings,
			     size_t n, plugin_report *report, void *arg) MUST_USE;

/* Prepares and describes all statements on a new session, then lets the plugin look at them. ST_REFUSED, ST_INVALID:
 * err says which statement or setting is wrong, with file and line where it has them. */
enum status plugin_instance_prepare(struct plugin_instance *p, struct pg_session *s, struct error *err) MUST_USE;

/* The same, but reports every problem instead: *ret_problems says how many. What fails is the session only. */
enum status plugin_instance_check_statements(struct plugin_instance *p, struct pg_session *s, plugin_report *report,
					     void *arg, size_t *ret_problems, struct error *err) MUST_USE;

/* One queued statement. */
enum plugin_op_kind { PLUGIN_OP_STATEMENT, PLUGIN_OP_OUTBOX };

struct plugin_op {
	enum plugin_op_kind kind;
	uint32_t statement; /* STATEMENT: index into the instance's statements */
	/* Encoded, in the arena. OUTBOX: kind text, payload jsonb, headers jsonb, ordering_key text, idempotency_key
	 * text, the last three may be NULL; the caller adds consumer, message key and the default key. */
	struct pg_values values;
	struct plugin_op *next;
};

/* One call into the plugin and what came of it. In the caller's memory; reset by each plugin_call_*(). */
struct plugin_call {
	struct effectd_call pub; /* must be first */
	struct plugin_instance *instance;
	struct arena *arena;
	const struct message *message; /* whose body effectd_body_json() means; NULL in apply_batch */
	struct plugin_op *first, **tail;
	size_t op_count;
	bool batch;   /* inside apply_batch */
	bool in_key;  /* inside key */
	bool decides; /* a deciding statement is queued */
	effectd_verdict
		fault;   /* not OK: what went wrong in the call outweighs what the plugin returns, text says how */
	char text[1001]; /* what the plugin said, or the fault; UTF-8, cut at a character */
};

void plugin_call_init(struct plugin_call *call, struct plugin_instance *instance, struct arena *arena);

/* The verdict, EFFECTD_BROKEN when the plugin broke the rules (also for a verdict that does not exist), EFFECTD_REJECT
 * when it gave a statement a value that its type cannot hold, EFFECTD_RETRY when memory ran out; text says what. All
 * messages need message_prepare() before. plugin_call_key checks the key: a bad one is EFFECTD_REJECT, *ret_bad_key
 * set. */
effectd_verdict plugin_call_key(struct plugin_call *call, struct message *m, struct effectd_key *ret,
				bool *ret_bad_key);
effectd_verdict plugin_call_apply(struct plugin_call *call, struct message *m);
effectd_verdict plugin_call_apply_batch(struct plugin_call *call, struct message *const *messages, size_t n);

#endif

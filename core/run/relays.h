/* The relays of this process, and the word that goes out when rows for them were committed. */
#ifndef RUN_RELAYS_H
#define RUN_RELAYS_H

#include "config/config.h"
#include "relay/relay.h"

struct relays {
	const struct config *config;
	struct relay **list;
	size_t count;
	bool started;
	/* When NOTIFY was last sent, for each database of the configuration, on clock_mono_ms(). */
	_Atomic int64_t *notified_ms;
};

/* Those named, or with `all` every one. ST_INVALID: there is none of that name. finish() after it whatever came back.
 */
enum status relays_init(struct relays *r, const struct config *config, const char *const *names, size_t name_count,
			bool all, struct error *err) MUST_USE;
enum status relays_start(struct relays *r, struct error *err) MUST_USE;
void relays_wake(struct relays *r, const struct config_database *database);
void relays_stop(struct relays *r, int64_t deadline_ms);
bool relays_join(struct relays *r, int64_t deadline_ms) MUST_USE;
void relays_finish(struct relays *r); /* after the join */

_Atomic int64_t *relays_notified_ms(struct relays *r, const struct config_database *database);

#endif

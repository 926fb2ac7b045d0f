/* The relays of this process, and the word that goes out when rows for them were committed. The main thread changes the
 * list, workers wake who is in it. */
#ifndef RUN_RELAYS_H
#define RUN_RELAYS_H

#include "config/config.h"
#include "relay/relay.h"
#include <pthread.h>

/* A relay, and the configuration that it came from, which it keeps alive. */
struct hosted_relay {
	struct relay *relay;
	struct config *held;
};

struct relay_notice;

struct relays {
	pthread_mutex_t lock; /* of the list, which is never empty memory; held for a moment */
	struct hosted_relay *list;
	size_t count;
	struct relay_notice *notices;
};

void relays_init(struct relays *r);
void relays_finish(struct relays *r); /* after the join */

/* Not started. */
enum status hosted_relay_create(struct hosted_relay *ret, struct config *config, const struct config_relay *section,
				struct error *err) MUST_USE;
void hosted_relay_destroy(struct hosted_relay *h); /* after the join; zeroes are fine */

enum status relays_add(struct relays *r, const struct hosted_relay *h, struct error *err) MUST_USE;
/* Takes it out; its place is the next one's then. */
struct hosted_relay relays_remove(struct relays *r, size_t index);

void relays_wake(struct relays *r, const char *database);
void relays_watch(struct relays *r, int64_t passed_ms); /* as relay_watch(); main thread */
void relays_stop(struct relays *r, int64_t deadline_ms);
bool relays_join(struct relays *r, int64_t deadline_ms) MUST_USE;

/* When NOTIFY was last sent to that database, on clock_mono_ms(); as long as the relays live. Main thread. NULL: out of
 * memory. */
_Atomic int64_t *relays_notified_ms(struct relays *r, const char *database);

#endif

/* A message as plugins see it: plain bytes from whichever source, parsed only when asked, parsed once. */
#ifndef PLUGIN_MESSAGE_H
#define PLUGIN_MESSAGE_H

#include "base/arena.h"
#include "base/properties.h"
#include "effectd/plugin.h"

struct message {
	struct effectd_message pub; /* must be first: plugins hold this */

	/* set by the source; the bytes live as long as the delivery */
	struct str body, routing_key, exchange;
	struct str properties;                /* encoded */
	const struct properties_codec *codec; /* how they are; NULL: none */
	bool redelivered;
	uint32_t attempt; /* 1 at the first try */

	/* set by message_prepare(), filled on demand */
	struct arena *arena;
	struct properties *decoded;
	void *json; /* json_t of the body */
	bool json_tried;
	const char *json_error;
};

/* Before the first call that sees the message. The arena holds what is decoded. */
void message_prepare(struct message *m, struct arena *arena);

/* Frees the parsed body. Before the arena is reset and before the body dies. */
void message_release(struct message *m);

/* The decoded properties, zeroed when there are none; never NULL. */
const struct properties *message_properties(const struct message *m);

#endif

/* A message's properties as a plugin may ask for them, whatever they were encoded in. */
#ifndef BASE_PROPERTIES_H
#define BASE_PROPERTIES_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

enum header_kind {
	HEADER_NULL,
	HEADER_TEXT,
	HEADER_BYTES,
	HEADER_INT,
	HEADER_BOOL,
	HEADER_REAL,
	HEADER_TIME,
	HEADER_NESTED
};

struct header {
	struct str name;
	enum header_kind kind; /* NESTED (tables and arrays): no value here */
	struct str text;       /* TEXT, BYTES */
	int64_t number;        /* INT, BOOL, TIME (seconds since 1970) */
	double real;           /* REAL */
};

struct properties {
	struct str content_type, content_encoding, message_id, correlation_id, type, app_id, reply_to, user_id;
	bool has_timestamp;
	int64_t timestamp_s; /* since 1970 */
	struct header *headers;
	size_t header_count;
};

/* How encoded properties are read. The heart and plugins never see an encoding; the source that brought a message does.
 */
struct properties_codec {
	/* Decodes into memory of the arena; false when the bytes are no properties (then *ret is zeroed). */
	bool (*decode)(struct str encoded, struct arena *arena, struct properties *ret);
	/* All headers, nested ones too, as one JSON object for people to read. */
	void (*headers_json)(struct str encoded, struct arena *arena, struct buffer *out);
	/* What identifies the message besides its body: message id, type, timestamp and the headers that no broker adds
	 * or changes on the way, as unambiguous bytes. */
	void (*identity)(struct str encoded, struct arena *arena, struct buffer *out);
};

#endif

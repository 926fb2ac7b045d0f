/* One line as a whole message: a JSON object with a body and what a broker would have brought with it. */
#ifndef SOURCE_ENVELOPE_H
#define SOURCE_ENVELOPE_H

#include "plugin/message.h"
#include <jansson.h>

/* The members that an envelope may have, for help and errors. */
extern const char envelope_members[];

/* Fills body, routing key, exchange and properties of *m, which point into the line and into *ret_root; free that with
 * json_decref(), also after a failure. A body that is a text is the text's bytes; any other is the bytes as they stand
 * in the line, so that no number is changed by reading it. False: text says what is wrong. */
bool envelope_read(struct str line, struct message *m, json_t **ret_root, char *text, size_t text_size) MUST_USE;

#endif

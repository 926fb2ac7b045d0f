/* Encoded AMQP 0-9-1 basic properties, read without a connection: for plugins that ask, for parking, for replay. */
#ifndef AMQP_PROPERTIES_H
#define AMQP_PROPERTIES_H

#include "base/properties.h"

extern const struct properties_codec amqp_properties;

/* For people: every property by its name, then every header (name is NULL) by its own as JSON text, each with its value
 * as JSON. What is not UTF-8 is escaped, what is nested too deep is cut. */
typedef void amqp_properties_show(void *arg, const char *name, const char *header_json, const char *value_json);

/* False: the bytes are no properties, or there is no memory. */
bool amqp_properties_each(struct str encoded, amqp_properties_show *show_one, void *arg) MUST_USE;

#endif

/* Encoded AMQP 0-9-1 basic properties, read without a connection: for plugins that ask, for parking, for replay. */
#ifndef AMQP_PROPERTIES_H
#define AMQP_PROPERTIES_H

#include "base/properties.h"

extern const struct properties_codec amqp_properties;

#endif

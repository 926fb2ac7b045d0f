/* Text of others in JSON. */
#ifndef RUN_JSON_TEXT_H
#define RUN_JSON_TEXT_H

#include "base/text.h"
#include <jansson.h>

/* Whatever its bytes: what is not UTF-8 is escaped. Absent is null; NULL without memory. */
json_t *json_text(struct str s);

#endif

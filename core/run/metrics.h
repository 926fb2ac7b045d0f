/* All metrics of the process, in one table: what each is called, what it means, where its value lies. Read from
 * counters and vitals without a lock; nothing is asked of a server. */
#ifndef RUN_METRICS_H
#define RUN_METRICS_H

#include "http/exposition.h"
#include "run/vitals.h"

void metrics_write(const struct view *view, enum exposition_format format, struct buffer *out);

#endif

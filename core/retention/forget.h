#ifndef RETENTION_FORGET_H
#define RETENTION_FORGET_H

#include "retention/prune.h"

/* Deletes every claim of p->consumer, in batches, then its row in effectd.consumers. ST_REFUSED: it is hosted, or has
 * parked messages. A kill in between loses nothing: the row goes last, so it can be said again. */
enum status forget_run(const struct prune *p, int64_t *ret_rows, struct error *err) MUST_USE;

#endif

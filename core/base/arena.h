/* Memory for one batch: handed out by bumping a pointer, given back all at once, kept for the next batch. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/macros.h"
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *first, *current;
	size_t used; /* of current, in bytes */
};

void arena_init(struct arena *a);
void arena_finish(struct arena *a);

/* Everything handed out dies. Memory above a few blocks goes back to the system, so one huge batch is not kept. */
void arena_reset(struct arena *a);

/* 16-byte aligned, not zeroed; NULL when there is no memory. */
void *arena_alloc(struct arena *a, size_t bytes) MUST_USE;
void *arena_copy(struct arena *a, const void *data, size_t bytes) MUST_USE; /* with a NUL behind it */

#endif

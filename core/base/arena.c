/* Memory for one batch.
 *
 * A chain of blocks: `current` is filled by bumping `used`, the blocks behind it are empty ones left from an earlier,
 * bigger batch. Something larger than a block gets a block of its own size. Under AddressSanitizer everything that is
 * not handed out is poisoned, so that a pointer kept past arena_reset() is a report and not a mystery. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define MARK_DEAD(p, bytes) ASAN_POISON_MEMORY_REGION((p), (bytes))
#define MARK_LIVE(p, bytes) ASAN_UNPOISON_MEMORY_REGION((p), (bytes))
#else
#define MARK_DEAD(p, bytes) ((void)(p), (void)(bytes))
#define MARK_LIVE(p, bytes) ((void)(p), (void)(bytes))
#endif

#define ALIGN_BYTES ((size_t)16)
#define BLOCK_BYTES ((size_t)64 * 1024) /* below malloc's mmap threshold: getting one again costs no system call */
#define KEEP_BYTES  (4 * BLOCK_BYTES)   /* over a reset */

struct arena_block {
	struct arena_block *next;
	size_t size; /* of data, in bytes; a multiple of ALIGN_BYTES */
	alignas(16) char data[];
};

static struct arena_block *block_create(size_t bytes)
{
	struct arena_block *block = malloc(sizeof(*block) + bytes);

	if (!block)
		return NULL;
	block->next = NULL;
	block->size = bytes;
	MARK_DEAD(block->data, bytes);
	return block;
}

static void block_destroy(struct arena_block *block)
{
	MARK_LIVE(block->data, block->size);
	free(block);
}

void arena_init(struct arena *a)
{
	*a = (struct arena){ 0 };
}

void arena_finish(struct arena *a)
{
	for (struct arena_block *block = a->first, *next; block; block = next) {
		next = block->next;
		block_destroy(block);
	}
	arena_init(a);
}

void arena_reset(struct arena *a)
{
	size_t kept = 0;

	for (struct arena_block **link = &a->first; *link;) {
		struct arena_block *block = *link;

		if (block->size > KEEP_BYTES - kept) {
			*link = block->next;
			block_destroy(block);
			continue;
		}
		kept += block->size;
		MARK_DEAD(block->data, block->size);
		link = &block->next;
	}
	a->current = a->first;
	a->used = 0;
}

/* Makes a block current that has bytes free: the next empty one, or a new one in front of it. */
static bool arena_advance(struct arena *a, size_t bytes)
{
	struct arena_block **link = a->current ? &a->current->next : &a->first;

	if (!*link || (*link)->size < bytes) {
		struct arena_block *block = block_create(bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes);

		if (!block)
			return false;
		block->next = *link;
		*link = block;
	}
	a->current = *link;
	a->used = 0;
	return true;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX / 2)
		return NULL;

	/* Nothing asked for still gets an address of its own. */
	const size_t taken = ((bytes ? bytes : 1) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;

	if ((!a->current || taken > a->current->size - a->used) && !arena_advance(a, taken))
		return NULL;

	void *p = a->current->data + a->used;
	a->used += taken;
	MARK_LIVE(p, bytes);
	return p;
}

void *arena_copy(struct arena *a, const void *data, size_t bytes)
{
	char *copy = bytes < SIZE_MAX ? arena_alloc(a, bytes + 1) : NULL;

	if (!copy)
		return NULL;
	if (bytes)
		memcpy(copy, data, bytes);
	copy[bytes] = '\0';
	return copy;
}

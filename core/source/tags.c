/* The ring holds what was delivered and cannot be forgotten yet: from the first unsettled tag on. Acknowledged ones
 * behind it are squeezed out before the ring grows, so that one delivery that is held for long costs no memory. */
#include "source/tags.h"

enum { CAPACITY_MIN = 64 };

struct tag {
	uint64_t tag;
	enum { TAG_UNSETTLED, TAG_SETTLED, TAG_ACKED } state;
};

void tags_init(struct tags *t)
{
	*t = (struct tags){ 0 };
}

void tags_finish(struct tags *t)
{
	free(t->ring);
	tags_init(t);
}

void tags_reset(struct tags *t)
{
	t->head = t->count = t->settled = t->single = 0;
}

static struct tag *at(const struct tags *t, size_t i)
{
	return &t->ring[(t->head + i) & (t->capacity - 1)];
}

static void squeeze(struct tags *t)
{
	size_t kept = 0;
	for (size_t i = 0; i < t->count; i++)
		if (at(t, i)->state != TAG_ACKED)
			*at(t, kept++) = *at(t, i);
	t->count = kept;
	t->single = 0;
}

static bool grow(struct tags *t)
{
	const size_t capacity = t->capacity ? 2 * t->capacity : CAPACITY_MIN;
	struct tag *ring = malloc(capacity * sizeof(*ring));
	if (!ring)
		return false;
	for (size_t i = 0; i < t->count; i++)
		ring[i] = *at(t, i);
	free(t->ring);
	t->ring = ring;
	t->capacity = capacity;
	t->head = 0;
	return true;
}

bool tags_add(struct tags *t, uint64_t tag)
{
	if (tag == 0 || (t->count > 0 && tag <= at(t, t->count - 1)->tag))
		return false;
	if (t->count == t->capacity) {
		squeeze(t);
		/* Squeezing pays only when it makes room for a while. */
		if (t->count >= t->capacity / 2 && !grow(t))
			return false;
	}
	*at(t, t->count++) = (struct tag){ .tag = tag, .state = TAG_UNSETTLED };
	return true;
}

bool tags_settle(struct tags *t, uint64_t tag)
{
	size_t low = 0, high = t->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (at(t, middle)->tag < tag)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == t->count || at(t, low)->tag != tag || at(t, low)->state != TAG_UNSETTLED)
		return false;
	at(t, low)->state = TAG_SETTLED;
	t->settled++;
	if (low < t->single)
		t->single = low;
	return true;
}

static void drop_first(struct tags *t)
{
	t->head = (t->head + 1) & (t->capacity - 1);
	t->count--; /* single is 0 then: settling the first one put it there */
}

bool tags_next_ack(struct tags *t, uint64_t *ret_tag, bool *ret_multiple)
{
	if (t->settled == 0)
		return false;

	size_t covered = 0;
	while (t->count > 0 && at(t, 0)->state != TAG_UNSETTLED) {
		if (at(t, 0)->state == TAG_SETTLED) {
			*ret_tag = at(t, 0)->tag;
			covered++;
		}
		drop_first(t);
	}
	if (covered > 0) {
		t->settled -= covered;
		*ret_multiple = covered > 1;
		return true;
	}

	while (at(t, t->single)->state != TAG_SETTLED)
		t->single++;
	struct tag *found = at(t, t->single++);
	found->state = TAG_ACKED;
	t->settled--;
	*ret_tag = found->tag;
	*ret_multiple = false;
	return true;
}

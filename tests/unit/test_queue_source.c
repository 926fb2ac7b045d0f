/* Which acks are sent, judged by a broker's rules: a single ack of a tag that is not outstanding ends the channel, a
 * multiple ack covers everything up to its tag. No server is needed to prove that nothing unsettled is ever covered. */
#include "source/queue.h"
#include "source/tags.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TAGS_MAX = 4096 };

/* What the broker holds, and what was settled here. Index 0 is never used. */
struct model {
	bool outstanding[TAGS_MAX + 1], settled[TAGS_MAX + 1];
	uint64_t last;
	size_t acks;
};

static void deliver(struct tags *t, struct model *m, uint64_t tag)
{
	assert_true(tags_add(t, tag));
	m->outstanding[tag] = true;
	m->last = tag;
}

static void settle(struct tags *t, struct model *m, uint64_t tag)
{
	assert_true(tags_settle(t, tag));
	m->settled[tag] = true;
}

static void broker_takes_ack(struct model *m, uint64_t tag, bool multiple)
{
	assert_in_range(tag, 1, m->last);
	m->acks++;
	if (!multiple) {
		assert_true(m->outstanding[tag]);
		assert_true(m->settled[tag]);
		m->outstanding[tag] = false;
		return;
	}
	size_t covered = 0;
	for (uint64_t i = 1; i <= tag; i++) {
		if (!m->outstanding[i])
			continue;
		assert_true(m->settled[i]);
		m->outstanding[i] = false;
		covered++;
	}
	assert_true(covered > 0);
}

static void flush(struct tags *t, struct model *m)
{
	uint64_t tag = 0;
	bool multiple;
	while (tags_next_ack(t, &tag, &multiple))
		broker_takes_ack(m, tag, multiple);
	for (uint64_t i = 1; i <= m->last; i++)
		assert_false(m->outstanding[i] && m->settled[i]);
}

static void a_batch_settled_in_order_is_one_ack(void **state)
{
	(void)state;
	struct tags t;
	struct model m = { 0 };
	tags_init(&t);
	for (uint64_t i = 1; i <= 500; i++)
		deliver(&t, &m, i);
	for (uint64_t i = 1; i <= 500; i++)
		settle(&t, &m, i);
	flush(&t, &m);
	assert_int_equal(m.acks, 1);
	tags_finish(&t);
}

static void one_settled_delivery_is_acked_alone(void **state)
{
	(void)state;
	struct tags t;
	uint64_t tag;
	bool multiple;
	tags_init(&t);
	assert_true(tags_add(&t, 1));
	assert_true(tags_add(&t, 2));
	assert_true(tags_settle(&t, 1));
	assert_true(tags_next_ack(&t, &tag, &multiple));
	assert_int_equal(tag, 1);
	assert_false(multiple);
	assert_false(tags_next_ack(&t, &tag, &multiple));
	tags_finish(&t);
}

static void an_unsettled_delivery_is_never_passed_over(void **state)
{
	(void)state;
	struct tags t;
	struct model m = { 0 };
	tags_init(&t);
	for (uint64_t i = 1; i <= 6; i++)
		deliver(&t, &m, i);
	for (uint64_t i = 1; i <= 6; i++)
		if (i != 3)
			settle(&t, &m, i);
	flush(&t, &m);
	assert_int_equal(m.acks, 4); /* 1-2 together; 4, 5, 6 */
	settle(&t, &m, 3);
	flush(&t, &m);
	assert_int_equal(m.acks, 5);
	tags_finish(&t);
}

/* Every order of settling n deliveries, with a flush after any subset of the steps. */
static void permute(const int n, int *order, int used, int depth, unsigned flushes)
{
	if (depth < n) {
		for (int i = 0; i < n; i++) {
			if (used & 1 << i)
				continue;
			order[depth] = i;
			permute(n, order, used | 1 << i, depth + 1, flushes);
		}
		return;
	}
	struct tags t;
	struct model m = { 0 };
	tags_init(&t);
	for (int i = 1; i <= n; i++)
		deliver(&t, &m, (uint64_t)i);
	for (int i = 0; i < n; i++) {
		settle(&t, &m, (uint64_t)order[i] + 1);
		if (flushes & 1U << i)
			flush(&t, &m);
	}
	flush(&t, &m);
	for (int i = 1; i <= n; i++)
		assert_false(m.outstanding[i]);
	tags_finish(&t);
}

static void every_order_of_settling_acks_exactly_what_is_settled(void **state)
{
	(void)state;
	for (int n = 1; n <= 5; n++)
		for (unsigned flushes = 0; flushes < 1U << n; flushes++)
			permute(n, (int[5]){ 0 }, 0, 0, flushes);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return *seed >> 33;
}

static void random_traffic_acks_exactly_what_is_settled(void **state)
{
	(void)state;
	for (uint64_t run = 1; run <= 300; run++) {
		uint64_t seed = run;
		struct tags t;
		static struct model m;
		memset(&m, 0, sizeof(m));
		tags_init(&t);
		const uint64_t stride = 1 + run % 3; /* tags of another consumer of the channel may lie between */
		for (uint64_t next = 1; next <= 1000;) {
			const uint64_t what = random_next(&seed) % 8;
			if (what < 4) {
				deliver(&t, &m, next);
				next += 1 + random_next(&seed) % stride;
			} else if (what < 7 && m.last > 0) {
				/* Mostly old ones, so that the ring turns. */
				const uint64_t back = random_next(&seed) % (random_next(&seed) % 8 ? 20 : 400);
				const uint64_t tag = m.last > back ? m.last - back : 1;
				if (m.outstanding[tag] && !m.settled[tag])
					settle(&t, &m, tag);
				else
					assert_false(tags_settle(&t, tag));
			} else {
				flush(&t, &m);
			}
		}
		for (uint64_t tag = 1; tag <= m.last; tag++)
			if (m.outstanding[tag] && !m.settled[tag])
				settle(&t, &m, tag);
		flush(&t, &m);
		tags_finish(&t);
	}
}

static void a_delivery_that_stays_unsettled_costs_no_memory(void **state)
{
	(void)state;
	struct tags t;
	uint64_t tag;
	bool multiple;
	tags_init(&t);
	assert_true(tags_add(&t, 1)); /* given back: never settled */
	for (uint64_t i = 2; i < 1000000; i++) {
		assert_true(tags_add(&t, i));
		assert_true(tags_settle(&t, i));
		assert_true(tags_next_ack(&t, &tag, &multiple));
		assert_int_equal(tag, i);
		assert_false(multiple);
	}
	assert_true(t.capacity <= 256);
	tags_finish(&t);
}

static void unknown_and_repeated_settles_are_refused(void **state)
{
	(void)state;
	struct tags t;
	uint64_t tag;
	bool multiple;
	tags_init(&t);
	assert_false(tags_settle(&t, 1));
	assert_true(tags_add(&t, 5));
	assert_false(tags_settle(&t, 4));
	assert_false(tags_settle(&t, 6));
	assert_true(tags_settle(&t, 5));
	assert_false(tags_settle(&t, 5));
	assert_true(tags_next_ack(&t, &tag, &multiple));
	assert_false(tags_settle(&t, 5));
	assert_false(tags_next_ack(&t, &tag, &multiple));
	tags_finish(&t);
}

static void tag_0_and_tags_that_do_not_ascend_are_refused(void **state)
{
	(void)state;
	struct tags t;
	tags_init(&t);
	assert_false(tags_add(&t, 0));
	assert_true(tags_add(&t, 7));
	assert_false(tags_add(&t, 7));
	assert_false(tags_add(&t, 6));
	tags_finish(&t);
}

static void a_new_channel_forgets_the_old_ones_tags(void **state)
{
	(void)state;
	struct tags t;
	uint64_t tag;
	bool multiple;
	tags_init(&t);
	for (uint64_t i = 1; i <= 100; i++)
		assert_true(tags_add(&t, i));
	for (uint64_t i = 1; i <= 50; i++)
		assert_true(tags_settle(&t, i));
	tags_reset(&t);
	assert_false(tags_next_ack(&t, &tag, &multiple));
	assert_true(tags_add(&t, 1));
	assert_true(tags_settle(&t, 1));
	assert_true(tags_next_ack(&t, &tag, &multiple));
	assert_int_equal(tag, 1);
	tags_finish(&t);
}

static void a_source_without_a_session_has_nothing(void **state)
{
	(void)state;
	struct consumer_counters counters = { 0 };
	struct queue_source *q;
	assert_int_equal(queue_source_create(&q, "loyalty", &counters, NULL), ST_OK);
	struct source *src = queue_source_base(q);
	assert_null(src->ops->next(src));
	src->ops->flush(src);
	assert_int_equal(queue_source_unsettled(q), 0);
	assert_int_equal(queue_source_attach(q, NULL, NULL), ST_OK);
	queue_source_destroy(q);
	queue_source_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_settled_in_order_is_one_ack),
		cmocka_unit_test(one_settled_delivery_is_acked_alone),
		cmocka_unit_test(an_unsettled_delivery_is_never_passed_over),
		cmocka_unit_test(every_order_of_settling_acks_exactly_what_is_settled),
		cmocka_unit_test(random_traffic_acks_exactly_what_is_settled),
		cmocka_unit_test(a_delivery_that_stays_unsettled_costs_no_memory),
		cmocka_unit_test(unknown_and_repeated_settles_are_refused),
		cmocka_unit_test(tag_0_and_tags_that_do_not_ascend_are_refused),
		cmocka_unit_test(a_new_channel_forgets_the_old_ones_tags),
		cmocka_unit_test(a_source_without_a_session_has_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

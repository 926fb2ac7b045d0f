/* The batch's memory: alignment, blocks, and what a reset keeps. */
#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void arena_destroy(struct arena *a)
{
	arena_finish(a);
}
#define ARENA CLEANUP(arena_destroy) struct arena

static void every_piece_is_aligned_and_its_own(void **state)
{
	ARENA a;
	unsigned char *pieces[2000];

	(void)state;
	arena_init(&a);
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		pieces[i] = arena_alloc(&a, i % 257);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % 16, 0);
		memset(pieces[i], (int)(i & 0xff), i % 257);
	}
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		for (size_t j = 0; j < i % 257; j++)
			assert_int_equal(pieces[i][j], i & 0xff);
	}
}

static void nothing_still_has_an_address(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	const void *first = arena_alloc(&a, 0), *second = arena_alloc(&a, 0);
	assert_non_null(first);
	assert_ptr_not_equal(first, second);
}

static void a_copy_ends_with_nul(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	assert_memory_equal(arena_copy(&a, "a\0b", 3), "a\0b", 4);
	assert_string_equal(arena_copy(&a, NULL, 0), "");
}

static void more_than_a_block_is_one_piece(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	for (size_t i = 0; i < 3; i++) {
		const size_t bytes = (size_t)1 << (16 + 2 * i);
		char *big = arena_alloc(&a, bytes), *small = arena_alloc(&a, 10);

		assert_non_null(big);
		assert_non_null(small);
		memset(big, 'b', bytes);
		memset(small, 's', 10);
		assert_int_equal(big[bytes - 1], 'b');
	}
}

static void a_kept_block_that_is_too_small_is_passed_over(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	for (size_t i = 0; i < 3; i++)
		assert_non_null(arena_alloc(&a, 60000));
	arena_reset(&a);

	const size_t sizes[] = { 60000, 200000, 60000, 60000 };
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		char *p = arena_alloc(&a, sizes[i]);
		assert_non_null(p);
		memset(p, 'x', sizes[i]);
	}
}

static void what_cannot_be_had_is_null(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 15));
	assert_null(arena_copy(&a, "", SIZE_MAX));
	assert_non_null(arena_alloc(&a, 1)); /* and it lives on */
}

static void a_batch_of_the_same_size_gets_the_same_memory(void **state)
{
	ARENA a;
	void *first[300];

	(void)state;
	arena_init(&a);
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		first[i] = arena_alloc(&a, 500);
	arena_reset(&a);
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		assert_ptr_equal(arena_alloc(&a, 500), first[i]);
}

/* Block sizes as the arena made them. */
struct arena_block {
	struct arena_block *next;
	size_t size;
};

static size_t held_bytes(const struct arena *a)
{
	size_t bytes = 0;

	for (const struct arena_block *block = a->first; block; block = block->next)
		bytes += block->size;
	return bytes;
}

static void one_huge_batch_is_not_kept(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	assert_non_null(arena_alloc(&a, 10));
	for (size_t i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&a, 100000));
	assert_non_null(arena_alloc(&a, 10 << 20));
	assert_true(held_bytes(&a) > 19 << 20);

	arena_reset(&a);
	assert_true(held_bytes(&a) > 0);
	assert_true(held_bytes(&a) <= 256 << 10);
	assert_non_null(arena_alloc(&a, 1000));
}

static void a_finished_arena_can_be_used_again(void **state)
{
	ARENA a;

	(void)state;
	arena_init(&a);
	arena_reset(&a); /* of nothing */
	assert_non_null(arena_alloc(&a, 1));
	arena_finish(&a);
	assert_non_null(arena_alloc(&a, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_piece_is_aligned_and_its_own),
		cmocka_unit_test(nothing_still_has_an_address),
		cmocka_unit_test(a_copy_ends_with_nul),
		cmocka_unit_test(more_than_a_block_is_one_piece),
		cmocka_unit_test(a_kept_block_that_is_too_small_is_passed_over),
		cmocka_unit_test(what_cannot_be_had_is_null),
		cmocka_unit_test(a_batch_of_the_same_size_gets_the_same_memory),
		cmocka_unit_test(one_huge_batch_is_not_kept),
		cmocka_unit_test(a_finished_arena_can_be_used_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

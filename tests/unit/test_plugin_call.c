/* Calls: what a plugin does wrong sticks to its message, whatever it answers; keys are judged. */
#include "plugin_fixture.h"

static effectd_verdict apply(struct fixture *f,
			     effectd_verdict (*fn)(struct effectd_call *call, const struct effectd_message *msg))
{
	f->plugin.descriptor.apply = fn;
	return plugin_call_apply(&f->call, &f->message);
}

static void expect_broken(struct fixture *f,
			  effectd_verdict (*fn)(struct effectd_call *call, const struct effectd_message *msg),
			  const char *text)
{
	assert_int_equal(apply(f, fn), EFFECTD_BROKEN);
	assert_string_equal(f->call.text, text);
}

#define APPLY(name, ...)                                                                          \
	static effectd_verdict name(struct effectd_call *call, const struct effectd_message *msg) \
	{                                                                                         \
		(void)call;                                                                       \
		(void)msg;                                                                        \
		__VA_ARGS__                                                                       \
	}

APPLY(wrong_then_ok, effectd_exec(call, 0, effectd_int8(1)); effectd_exec(call, 3); return EFFECTD_OK;)
APPLY(wrong_then_ignore, effectd_exec(call, 0, effectd_int8(1)); return effectd_ignore(call, "not for us");)
APPLY(wrong_then_nonsense, effectd_exec(call, 0, effectd_int8(1)); return 17;)
APPLY(too_few, effectd_exec(call, 0, effectd_int8(1), effectd_int8(1)); return EFFECTD_OK;)
APPLY(unknown_statement, effectd_exec(call, 4); return EFFECTD_OK;)
APPLY(decides_twice, effectd_exec(call, 1); effectd_exec(call, 2); return EFFECTD_OK;)
APPLY(decides_late, effectd_exec(call, 3); effectd_exec(call, 1); return EFFECTD_OK;)
APPLY(decides_behind_outbox, effectd_outbox(call, "mail", effectd_body(msg)); effectd_exec(call, 1); return EFFECTD_OK;)
APPLY(decides_first, effectd_exec(call, 1); effectd_exec(call, 3); return EFFECTD_OK;)
APPLY(no_such_verdict, return 17;)
APPLY(negative_verdict, return -1;)
APPLY(rejects, effectd_exec(call, 3); return effectd_reject(call, "no customer %d", 7);)
APPLY(queues_first, effectd_exec(call, 0); return EFFECTD_OK;)
APPLY(queues_nothing, return EFFECTD_OK;)
APPLY(says_nothing, return EFFECTD_RETRY;)

static void an_error_of_exec_cannot_be_swallowed(void **state)
{
	static const char text[] = "statement first takes 0 parameters, 1 were given";
	expect_broken(*state, wrong_then_ok, text);
	expect_broken(*state, wrong_then_ignore, text);
	expect_broken(*state, wrong_then_nonsense, text); /* the first fault is the one to read about */
}

static void a_wrong_number_of_arguments_is_broken(void **state)
{
	struct fixture *f = *state;
	f->prepared[0].param_count = 3;
	expect_broken(f, too_few, "statement first takes 3 parameters, 2 were given");
}

static void a_statement_that_was_never_declared_is_broken(void **state)
{
	expect_broken(*state, unknown_statement, "statement 4 does not exist: the plugin declares 4");
}

static void one_statement_decides_and_it_is_the_first(void **state)
{
	expect_broken(*state, decides_twice, "statement newer is the second that decides: a message has one at most");
	static const char late[] = "statement decides decides, so it must be the first that the message queues";
	expect_broken(*state, decides_late, late);
	expect_broken(*state, decides_behind_outbox, late);
	struct fixture *f = *state;
	assert_int_equal(apply(f, decides_first), EFFECTD_OK);
	assert_int_equal(f->call.op_count, 2);
}

static void a_verdict_that_does_not_exist_is_broken(void **state)
{
	expect_broken(*state, no_such_verdict, "the plugin returned the verdict 17, which does not exist");
	expect_broken(*state, negative_verdict, "the plugin returned the verdict -1, which does not exist");
}

static void a_verdict_brings_its_sentence(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(apply(f, rejects), EFFECTD_REJECT);
	assert_string_equal(f->call.text, "no customer 7");
	assert_int_equal(apply(f, says_nothing), EFFECTD_RETRY); /* and nothing is left of the last call */
	assert_string_equal(f->call.text, "");
	assert_int_equal(f->call.op_count, 0);
}

static const char *spoken;
APPLY(speaks, return effectd_reject(call, "%s", spoken);)

static void a_sentence_is_cut_between_characters_and_cleaned(void **state)
{
	struct fixture *f = *state;
	char text[1504] = "xyz"; /* and 750 characters of two bytes: each begins at an odd place */
	for (size_t i = 3; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	spoken = text;
	assert_int_equal(apply(f, speaks), EFFECTD_REJECT);
	assert_int_equal(strlen(f->call.text), 999);
	assert_true(text_is_utf8(f->call.text, 999));

	spoken = "two\nlines\xff";
	apply(f, speaks);
	assert_true(text_is_utf8(f->call.text, strlen(f->call.text)));
	assert_null(strchr(f->call.text, '\n'));
}

/* ---- keys ---- */

static struct effectd_str key_bytes;

static effectd_verdict give_key(struct effectd_call *call, const struct effectd_message *msg, struct effectd_key *key)
{
	(void)call;
	(void)msg;
	return effectd_key_bytes(key, key_bytes);
}

static effectd_verdict no_key(struct effectd_call *call, const struct effectd_message *msg, struct effectd_key *key)
{
	(void)call;
	(void)msg;
	(void)key;
	return EFFECTD_OK;
}

static effectd_verdict long_key(struct effectd_call *call, const struct effectd_message *msg, struct effectd_key *key)
{
	(void)call;
	(void)msg;
	return effectd_key_format(key, "%0600d", 1);
}

static effectd_verdict exec_in_key(struct effectd_call *call, const struct effectd_message *msg,
				   struct effectd_key *key)
{
	(void)msg;
	effectd_exec(call, 3);
	return effectd_key_format(key, "k");
}

static effectd_verdict outbox_in_key(struct effectd_call *call, const struct effectd_message *msg,
				     struct effectd_key *key)
{
	effectd_outbox(call, "mail", effectd_body(msg));
	return effectd_key_format(key, "k");
}

static effectd_verdict key_rejects(struct effectd_call *call, const struct effectd_message *msg,
				   struct effectd_key *key)
{
	(void)msg;
	(void)key;
	return effectd_reject(call, "no id");
}

static effectd_verdict ask_key(struct fixture *f,
			       effectd_verdict (*fn)(struct effectd_call *call, const struct effectd_message *msg,
						     struct effectd_key *key),
			       bool *ret_bad)
{
	struct effectd_key key;
	memset(&key, 'x', sizeof(key)); /* whatever was there before */
	f->plugin.descriptor.key = fn;
	return plugin_call_key(&f->call, &f->message, &key, ret_bad);
}

static void a_bad_key_is_the_messages_fault(void **state)
{
	struct fixture *f = *state;
	static char bytes[600];
	memset(bytes, 'k', sizeof(bytes));
	const struct {
		struct effectd_str key;
		const char *text; /* NULL: it is good */
	} cases[] = {
		{ { bytes, 1 }, NULL },
		{ { bytes, 512 }, NULL },
		{ { "caf\xc3\xa9", 5 }, NULL },
		{ { bytes, 0 }, "the key is empty" },
		{ { bytes, 513 }, "the key is 513 bytes long, at most 512 are allowed" },
		{ { bytes, 600 }, "the key is 600 bytes long, at most 512 are allowed" },
		{ { "a\0b", 3 }, "the key contains a NUL byte" },
		{ { "\xff", 1 }, "the key is not valid UTF-8" },
		{ { "\xed\xa0\x80", 3 }, "the key is not valid UTF-8" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool bad;
		key_bytes = cases[i].key;
		const effectd_verdict verdict = ask_key(f, give_key, &bad);
		assert_int_equal(bad, cases[i].text != NULL);
		assert_int_equal(verdict, cases[i].text ? EFFECTD_REJECT : EFFECTD_OK);
		assert_string_equal(f->call.text, cases[i].text ? cases[i].text : "");
	}
	bool bad;
	assert_int_equal(ask_key(f, no_key, &bad), EFFECTD_REJECT);
	assert_string_equal(f->call.text, "the key is empty");
	assert_int_equal(ask_key(f, long_key, &bad), EFFECTD_REJECT);
	assert_string_equal(f->call.text, "the key is 600 bytes long, at most 512 are allowed");
}

static void a_plugins_own_reject_is_no_bad_key(void **state)
{
	struct fixture *f = *state;
	bool bad;
	assert_int_equal(ask_key(f, key_rejects, &bad), EFFECTD_REJECT);
	assert_false(bad);
	assert_string_equal(f->call.text, "no id");
}

static void key_may_not_queue_anything(void **state)
{
	struct fixture *f = *state;
	bool bad;
	assert_int_equal(ask_key(f, exec_in_key, &bad), EFFECTD_BROKEN);
	assert_string_equal(f->call.text, "key() queued a statement: only apply() and apply_batch() may");
	assert_int_equal(ask_key(f, outbox_in_key, &bad), EFFECTD_BROKEN);
	assert_int_equal(f->call.op_count, 0);
}

/* ---- batches ---- */

static effectd_verdict (*batch_body)(struct effectd_call *call, const struct effectd_message *msg);

static effectd_verdict apply_batch(struct effectd_call *call, const struct effectd_message *const *msgs, size_t count)
{
	effectd_verdict verdict = EFFECTD_OK;
	for (size_t i = 0; i < count; i++)
		verdict = batch_body(call, msgs[i]);
	return verdict;
}

APPLY(each, effectd_exec(call, 3, effectd_int8((int64_t)effectd_body(msg).len)); return EFFECTD_OK;)
APPLY(body_in_batch, effectd_exec(call, 3, effectd_body_json()); return EFFECTD_OK;)
APPLY(outbox_in_batch, effectd_outbox(call, "mail", effectd_body(msg)); return EFFECTD_OK;)
APPLY(decides_in_batch, effectd_exec(call, 1); return EFFECTD_OK;)

static effectd_verdict batch(struct fixture *f,
			     effectd_verdict (*fn)(struct effectd_call *call, const struct effectd_message *msg))
{
	static struct message second = { .body = { "22", 2 } };
	message_prepare(&second, &f->arena);
	struct message *const messages[] = { &f->message, &second };
	batch_body = fn;
	f->plugin.descriptor.apply_batch = apply_batch;
	f->prepared[3].param_count = 1;
	return plugin_call_apply_batch(&f->call, messages, 2);
}

static void a_batch_sees_its_messages_in_order(void **state)
{
	struct fixture *f = *state;
	fixture_body(f, "1", 1);
	f->prepared[3].param_types[0] = OID_INT8;
	assert_int_equal(batch(f, each), EFFECTD_OK);
	assert_int_equal(f->call.op_count, 2);
	assert_memory_equal(f->call.first->values.data[0], "\0\0\0\0\0\0\0\1", 8);
	assert_memory_equal(f->call.first->next->values.data[0], "\0\0\0\0\0\0\0\2", 8);
}

static void what_belongs_to_one_message_is_broken_in_a_batch(void **state)
{
	struct fixture *f = *state;
	f->prepared[3].param_types[0] = OID_JSONB;
	assert_int_equal(batch(f, body_in_batch), EFFECTD_BROKEN);
	assert_string_equal(f->call.text,
			    "statement each, parameter 1: apply_batch has many messages, none of them is the body");
	assert_int_equal(batch(f, outbox_in_batch), EFFECTD_BROKEN);
	assert_string_equal(f->call.text, "an outbox row belongs to one message: queue it in apply()");
	assert_int_equal(batch(f, decides_in_batch), EFFECTD_BROKEN);
	assert_string_equal(f->call.text, "statement decides decides for one message, apply_batch() has many: use one "
					  "that expects EACH");
}

static void without_a_claim_the_first_statement_guards(void **state)
{
	struct fixture *f = *state;
	f->instance.claim = EFFECTD_CLAIM_NONE;
	expect_broken(f, queues_first, "without a claim the first statement must be one that decides (NEW or NEWER)");
	assert_int_equal(apply(f, decides_first), EFFECTD_OK);
	assert_int_equal(apply(f, queues_nothing), EFFECTD_OK);
	assert_int_equal(batch(f, queues_first), EFFECTD_BROKEN);
	assert_string_equal(f->call.text, "without a claim the first statement must be one that expects EACH");
	f->prepared[3].param_types[0] = OID_INT8;
	assert_int_equal(batch(f, each), EFFECTD_OK);
}

/* ---- what a watchdog sees ---- */

static const _Atomic uint64_t *watched;
static uint64_t seen;

APPLY(look, seen = *watched; return EFFECTD_OK;)

static effectd_verdict look_in_key(struct effectd_call *call, const struct effectd_message *msg,
				   struct effectd_key *key)
{
	look(call, msg);
	return effectd_key_format(key, "k");
}

static void each_call_is_seen_from_outside_while_it_lasts(void **state)
{
	struct fixture *f = *state;
	watched = f->instance.doing;
	bool bad;
	assert_int_equal(ask_key(f, look_in_key, &bad), EFFECTD_OK);
	assert_int_equal(seen, 1 << PLUGIN_FUNCTION_BITS | PLUGIN_KEY);
	assert_int_equal(*watched, 1 << PLUGIN_FUNCTION_BITS);
	assert_int_equal(apply(f, look), EFFECTD_OK);
	assert_int_equal(seen, 2 << PLUGIN_FUNCTION_BITS | PLUGIN_APPLY);
	assert_int_equal(batch(f, look), EFFECTD_OK);
	assert_int_equal(seen, 3 << PLUGIN_FUNCTION_BITS | PLUGIN_APPLY_BATCH);
	assert_int_equal(*watched, 3 << PLUGIN_FUNCTION_BITS);
}

/* ---- outbox ---- */

static struct effectd_outbox_row row;
APPLY(outbox_row, call->host->outbox(call, &row); return EFFECTD_OK;)
APPLY(decides_and_outbox_row, effectd_exec(call, 1); call->host->outbox(call, &row); return EFFECTD_OK;)

static void an_outbox_row_has_what_it_needs(void **state)
{
	struct fixture *f = *state;
	static const char needs[] = "an outbox row needs its size, a kind and a payload";
	row = (struct effectd_outbox_row){ .kind = "mail", .payload = { "{}", 2 } };
	expect_broken(f, outbox_row, needs);
	row.size = sizeof(row);
	assert_int_equal(apply(f, outbox_row), EFFECTD_OK);
	row.kind = "";
	expect_broken(f, outbox_row, needs);
	row = (struct effectd_outbox_row){ .size = sizeof(row), .kind = "mail" };
	expect_broken(f, outbox_row, needs);

	row.payload = (struct effectd_str){ "{}", 2 };
	f->instance.claim = EFFECTD_CLAIM_NONE;
	expect_broken(f, outbox_row, "an outbox row needs an idempotency key where there is no claim");
	row.idempotency_key = (struct effectd_str){ "k", 1 };
	row.headers = (struct effectd_str){ "[]", 2 };
	assert_int_equal(apply(f, decides_and_outbox_row), EFFECTD_OK);
	const struct pg_values *v = &f->call.first->next->values;
	assert_int_equal(f->call.first->next->kind, PLUGIN_OP_OUTBOX);
	assert_int_equal(v->count, 5);
	assert_memory_equal(v->data[2], "\1[]", 3);
	assert_null(v->data[3]);
	assert_memory_equal(v->data[4], "k", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(an_error_of_exec_cannot_be_swallowed),
		FIXTURE_TEST(a_wrong_number_of_arguments_is_broken),
		FIXTURE_TEST(a_statement_that_was_never_declared_is_broken),
		FIXTURE_TEST(one_statement_decides_and_it_is_the_first),
		FIXTURE_TEST(a_verdict_that_does_not_exist_is_broken),
		FIXTURE_TEST(a_verdict_brings_its_sentence),
		FIXTURE_TEST(a_sentence_is_cut_between_characters_and_cleaned),
		FIXTURE_TEST(a_bad_key_is_the_messages_fault),
		FIXTURE_TEST(a_plugins_own_reject_is_no_bad_key),
		FIXTURE_TEST(key_may_not_queue_anything),
		FIXTURE_TEST(a_batch_sees_its_messages_in_order),
		FIXTURE_TEST(what_belongs_to_one_message_is_broken_in_a_batch),
		FIXTURE_TEST(without_a_claim_the_first_statement_guards),
		FIXTURE_TEST(each_call_is_seen_from_outside_while_it_lasts),
		FIXTURE_TEST(an_outbox_row_has_what_it_needs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

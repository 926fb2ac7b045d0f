/* What holds for a queue, put together of what the broker says of its arguments and policies. The brokers that these
 * tests have no server of are here as their answers are. */
#include "management/management.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define QUEUE(type, arguments, policies)                                                                       \
	"{\"name\": \"q\", \"type\": \"" type "\", \"durable\": true, \"auto_delete\": false, \"exclusive\": " \
	"false, \"policy\": \"p\", \"operator_policy\": null, \"arguments\": {" arguments "}, "                \
	"\"effective_policy_definition\": {" policies "}}"

static struct queue_facts facts_of(const char *text, const char *version)
{
	struct queue_facts q;
	struct error err = { 0 };
	json_t *all = json_loads(text, 0, NULL);
	assert_non_null(all);
	assert_int_equal(queue_facts_read(&q, all, version, &err), ST_OK);
	return q;
}

static void the_delivery_limit_is_what_the_broker_makes_of_it(void **state)
{
	(void)state;
	static const struct {
		const char *queue, *version;
		int64_t limit; /* -1: none */
		const char *origin;
	} cases[] = {
		{ QUEUE("quorum", "", ""), "3.13.7", -1, "" },
		{ QUEUE("quorum", "", ""), "4.1.0", 20, "the default of RabbitMQ 4.1.0" },
		{ QUEUE("classic", "", ""), "4.1.0", -1, "" },
		{ QUEUE("classic", "", "\"delivery-limit\": 5"), "4.1.0", -1, "" },
		{ QUEUE("quorum", "\"x-delivery-limit\": 0", ""), "3.13.7", 0, "argument x-delivery-limit" },
		{ QUEUE("quorum", "\"x-delivery-limit\": 50", ""), "4.1.0", 50, "argument x-delivery-limit" },
		{ QUEUE("quorum", "\"x-delivery-limit\": 50", "\"delivery-limit\": 5"), "4.1.0", 5, "policy p" },
		{ QUEUE("quorum", "\"x-delivery-limit\": 5", "\"delivery-limit\": 50"), "4.1.0", 5,
		  "argument x-delivery-limit" },
		{ QUEUE("quorum", "", "\"delivery-limit\": -1"), "4.1.0", -1, "policy p" },
		{ QUEUE("quorum", "\"x-delivery-limit\": -1", "\"delivery-limit\": 5"), "4.1.8", 5, "policy p" },
		{ QUEUE("quorum", "\"x-delivery-limit\": 5", "\"delivery-limit\": -1"), "4.1.8", 5,
		  "argument x-delivery-limit" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct queue_facts q = facts_of(cases[i].queue, cases[i].version);
		const struct queue_setting *limit = &q.settings[QUEUE_DELIVERY_LIMIT];
		assert_int_equal(limit->set, cases[i].limit >= 0);
		assert_string_equal(limit->origin, cases[i].origin);
		if (limit->set)
			assert_int_equal(limit->number, cases[i].limit);
		queue_facts_finish(&q);
	}
}

static void arguments_and_policies_win_where_the_broker_lets_them(void **state)
{
	(void)state;
	static const char arguments[] = "\"x-dead-letter-exchange\": \"a\", \"x-overflow\": \"drop-head\", "
					"\"x-message-ttl\": 1000, \"x-single-active-consumer\": true, "
					"\"x-max-priority\": 3";
	static const char policies[] = "\"dead-letter-exchange\": \"p\", \"overflow\": \"reject-publish\", "
				       "\"message-ttl\": 2000, \"single-active-consumer\": true, "
				       "\"consumer-timeout\": 60000";
	char text[2048];
	static const struct {
		const char *type, *overflow;
	} cases[] = { { "quorum", "reject-publish" }, { "classic", "drop-head" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text),
			 "{\"name\": \"q\", \"type\": \"%s\", \"policy\": \"p\", \"operator_policy\": \"o\", "
			 "\"arguments\": {%s}, \"effective_policy_definition\": {%s}}",
			 cases[i].type, arguments, policies);
		struct queue_facts q = facts_of(text, "4.1.0");
		assert_string_equal(q.settings[QUEUE_DEAD_LETTER_EXCHANGE].text, "a");
		assert_string_equal(q.settings[QUEUE_OVERFLOW].text, cases[i].overflow);
		assert_int_equal(q.settings[QUEUE_MESSAGE_TTL].number, 1000);
		assert_true(q.settings[QUEUE_SINGLE_ACTIVE].set);
		assert_int_equal(q.settings[QUEUE_MAX_PRIORITY].number, 3);
		assert_int_equal(q.settings[QUEUE_CONSUMER_TIMEOUT].number, 60000);
		assert_string_equal(q.settings[QUEUE_CONSUMER_TIMEOUT].origin, "policy p or operator policy o");
		queue_facts_finish(&q);
	}
}

static void what_an_old_broker_ignores_is_ignored(void **state)
{
	(void)state;
	struct queue_facts q = facts_of(QUEUE("quorum", "\"x-consumer-timeout\": 1000", ""), "3.10.8");
	assert_false(q.settings[QUEUE_CONSUMER_TIMEOUT].set);
	queue_facts_finish(&q);
}

static void without_statistics_policies_are_not_known(void **state)
{
	(void)state;
	struct queue_facts known = facts_of(QUEUE("quorum", "", ""), "3.13.7");
	struct queue_facts unknown = facts_of("{\"name\": \"q\", \"arguments\": {}}", "3.13.7");
	assert_true(known.policies_known);
	assert_false(unknown.policies_known);
	queue_facts_finish(&known);
	queue_facts_finish(&unknown);
}

static void values_of_another_kind_are_as_if_they_were_not_there(void **state)
{
	(void)state;
	struct queue_facts q = facts_of("{\"name\": \"q\", \"arguments\": {\"x-dead-letter-exchange\": 7, "
					"\"x-message-ttl\": \"soon\", \"x-max-length\": {}, "
					"\"x-single-active-consumer\": false}, \"effective_policy_definition\": []}",
					"what");
	for (int key = 0; key < QUEUE_KEYS; key++)
		assert_false(q.settings[key].set);
	assert_string_equal(q.type, "classic");
	queue_facts_finish(&q);
}

static void an_answer_that_is_no_queue_is_refused(void **state)
{
	(void)state;
	static const char *const answers[] = { "[]", "{}", "{\"name\": \"q\"}", "{\"arguments\": {}}", "[1]" };
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct queue_facts q;
		struct error err = { 0 };
		assert_int_equal(queue_facts_read(&q, json_loads(answers[i], 0, NULL), "4.0", &err), ST_INVALID);
	}
}

static void another_declaration_is_told_from_the_same(void **state)
{
	(void)state;
	struct queue_facts q = facts_of(QUEUE("quorum",
					      "\"x-queue-type\": \"quorum\", \"x-delivery-limit\": 30, "
					      "\"x-single-active-consumer\": true, \"x-dead-letter-exchange\": \"d\"",
					      "\"message-ttl\": 5"),
					"4.1.0");
	static const struct queue_argument same[] = { { "x-dead-letter-exchange", "d" },
						      { "x-delivery-limit", "30" },
						      { "x-single-active-consumer", "true" } };
	struct queue_argument other[ARRAY_LEN(same)];
	char name[64];
	assert_false(queue_facts_differ(&q, same, ARRAY_LEN(same), name, sizeof(name)));
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		memcpy(other, same, sizeof(same));
		other[i].value = "31";
		assert_true(queue_facts_differ(&q, other, ARRAY_LEN(other), name, sizeof(name)));
		assert_string_equal(name, same[i].name);
		other[i].name = "x-queue-type"; /* now one is missing */
		assert_true(queue_facts_differ(&q, other, ARRAY_LEN(other), name, sizeof(name)));
		assert_string_equal(name, same[i].name);
	}
	queue_facts_finish(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_delivery_limit_is_what_the_broker_makes_of_it),
		cmocka_unit_test(arguments_and_policies_win_where_the_broker_lets_them),
		cmocka_unit_test(what_an_old_broker_ignores_is_ignored),
		cmocka_unit_test(without_statistics_policies_are_not_known),
		cmocka_unit_test(values_of_another_kind_are_as_if_they_were_not_there),
		cmocka_unit_test(an_answer_that_is_no_queue_is_refused),
		cmocka_unit_test(another_declaration_is_told_from_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

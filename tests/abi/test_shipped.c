/* The shipped plugins, called as effectd calls them, without a server: keys, verdicts, and the values that they queue.
 */
#include "plugin/instance.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* last: its macro fail() would hit the host table's fail */

enum {
	INT8 = 20,
	TEXT = 25,
	DATE = 1082,
	TIMESTAMPTZ = 1184,
	NUMERIC = 1700,
	INT8S = 1016,
	TEXTS = 1009,
	DATES = 1182,
	NUMERICS = 1231
};
enum { DAY_2026_11_30 = 20787, DAYS_1970_TO_2000 = 10957 };
enum { MOST = 1000 };

/* What PostgreSQL says of the statements, in the order of each plugin's table. */
static const struct shipped {
	const char *name, *consumer;
	uint32_t types[4][4];
} shipped[] = {
	{ "loyalty_points",
	  "loyalty",
	  { { INT8, INT8, INT8 }, { INT8, INT8 }, { INT8S, INT8S, INT8S }, { INT8S, INT8S } } },
	{ "analytics", "analytics", { { DATE, TEXT, NUMERIC }, { DATES, TEXTS, INT8S, NUMERICS } } },
	{ "receipts", "receipts", { { 0 } } },
	{ "order_status", "order_status", { { INT8, INT8, TEXT, TIMESTAMPTZ } } },
};
enum { LOYALTY, ANALYTICS, RECEIPTS, OF_ORDERS /* so many take OrderCompleted */, ORDER_STATUS = OF_ORDERS };

static struct plugin_instance *instance;
static struct arena arena;
static struct plugin_call call;
static struct message messages[MOST];
static size_t message_count;

static void start(size_t which, const char *option, const char *value)
{
	const struct shipped *one = &shipped[which];
	const struct plugin *plugin;
	struct error err;
	char path[64];
	snprintf(path, sizeof(path), "%s/%s.so", one->name, one->name);
	const struct plugin_setting setting = { option, value, NULL, 0 };
	if (plugin_load(&plugin, getenv("PLUGINS"), path, &err) != ST_OK ||
	    plugin_instance_create(&instance, plugin, one->consumer, &setting, option ? 1 : 0, &err) != ST_OK)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < instance->statement_count; i++) {
		memcpy(instance->prepared[i].param_types, one->types[i], sizeof(one->types[i]));
		while (instance->prepared[i].param_count < 4 && one->types[i][instance->prepared[i].param_count])
			instance->prepared[i].param_count++;
	}
	arena_init(&arena);
	plugin_call_init(&call, instance, &arena);
	message_count = 0;
}

static void finish(void)
{
	for (size_t i = 0; i < message_count; i++)
		message_release(&messages[i]);
	plugin_instance_destroy(instance);
	arena_finish(&arena);
}

/* The next message; its body lives in the arena, so that a read behind its end is seen. */
static struct message *message(const char *fmt, ...) PRINTF(1, 2);
static struct message *message(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	const int len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	struct message *m = &messages[message_count++];
	*m = (struct message){ .body = { arena_copy(&arena, text, (size_t)len), (size_t)len } };
	message_prepare(m, &arena);
	return m;
}

static struct message *order(int64_t order_id, int64_t customer_id, int64_t cents, const char *currency,
			     const char *time)
{
	return message("{\"event\":\"OrderCompleted\",\"order_id\":%" PRId64 ",\"customer_id\":%" PRId64
		       ",\"total_cents\":%" PRId64 ",\"currency\":\"%s\",\"completed_at\":\"%s\"}",
		       order_id, customer_id, cents, currency, time);
}

static effectd_verdict key_of(struct message *m, struct effectd_key *ret)
{
	bool bad;
	const effectd_verdict verdict = plugin_call_key(&call, m, ret, &bad);
	assert_false(bad);
	return verdict;
}

static effectd_verdict apply_batch(void)
{
	struct message *list[MOST];
	for (size_t i = 0; i < message_count; i++)
		list[i] = &messages[i];
	return plugin_call_apply_batch(&call, list, message_count);
}

static int64_t big_endian(const char *p, size_t bytes)
{
	int64_t n = (signed char)p[0];
	for (size_t i = 1; i < bytes; i++)
		n = (int64_t)((uint64_t)n << 8 | (unsigned char)p[i]);
	return n;
}

static int64_t number(const struct plugin_op *op, int parameter)
{
	assert_int_equal(op->values.formats[parameter], 1);
	return big_endian(op->values.data[parameter], (size_t)op->values.lengths[parameter]);
}

static const char *text(const struct plugin_op *op, int parameter)
{
	return arena_copy(&arena, op->values.data[parameter], (size_t)op->values.lengths[parameter]);
}

/* An element of a binary array: 20 bytes of header, then each with its length in front. */
static const char *element(const struct plugin_op *op, int parameter, size_t i, size_t *ret_len)
{
	const char *p = op->values.data[parameter] + 20;
	for (;; i--) {
		*ret_len = (size_t)big_endian(p, 4);
		if (i == 0)
			return p + 4;
		p += 4 + *ret_len;
	}
}

static int64_t element_number(const struct plugin_op *op, int parameter, size_t i)
{
	size_t len;
	const char *p = element(op, parameter, i, &len);
	return big_endian(p, len);
}

static size_t elements(const struct plugin_op *op, int parameter)
{
	return (size_t)big_endian(op->values.data[parameter] + 12, 4);
}

static void the_key_names_the_order_and_not_the_delivery(void **state)
{
	(void)state;
	for (size_t which = 0; which < OF_ORDERS; which++) {
		struct effectd_key key;
		start(which, NULL, NULL);
		assert_int_equal(key_of(order(INT64_MAX, 7, 1999, "EUR", "2026-11-30T12:00:00Z"), &key), EFFECTD_OK);
		assert_string_equal(key.text, "order-completed:9223372036854775807");
		assert_true(key.has_event_time);
		assert_int_equal(key.event_time_us, INT64_C(1796040000000000));
		assert_int_equal(key_of(order(-1, 7, 1999, "EUR", "2026-11-30T12:00:00Z"), &key), EFFECTD_OK);
		assert_string_equal(key.text, "order-completed:-1");
		assert_int_equal(key_of(message("{\"event\":\"OrderCancelled\"}"), &key), EFFECTD_IGNORE);
		finish();
	}
}

static void what_is_no_order_is_rejected_by_all(void **state)
{
	static const char *const bodies[] = {
		"",
		"null",
		"[]",
		"7",
		"{",
		"{}",
		"{\"event\":7}",
		"{\"event\":\"OrderCompleted\"}",
		"{\"event\":\"OrderCompleted\",\"order_id\":1.0,\"customer_id\":1}",
		"{\"event\":\"OrderCompleted\",\"order_id\":1e3,\"customer_id\":1}",
		"{\"event\":\"OrderCompleted\",\"order_id\":\"1\",\"customer_id\":1}",
		"{\"event\":\"OrderCompleted\",\"order_id\":null,\"customer_id\":1}",
		"{\"event\":\"OrderCompleted\",\"order_id\":9223372036854775808,\"customer_id\":1}",
		"{\"event\":\"OrderCompleted\",\"event\":\"OrderCompleted\",\"order_id\":1,\"customer_id\":1}",
	};
	(void)state;
	for (size_t which = 0; which < OF_ORDERS; which++) {
		start(which, NULL, NULL);
		for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
			struct effectd_key key;
			assert_int_equal(key_of(message("%s", bodies[i]), &key), EFFECTD_REJECT);
			assert_true(call.text[0]);
		}
		finish();
	}
}

static void loyalty_locks_customers_and_counts_whole_cents(void **state)
{
	static const struct {
		int64_t cents, points;
	} cases[] = { { 0, 0 }, { 99, 0 }, { 100, 1 }, { 199, 1 }, { INT64_MAX, INT64_C(92233720368547758) } };
	struct effectd_key key;
	(void)state;
	start(LOYALTY, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct message *m = order(INT64_MAX, INT64_MAX - 1, cases[i].cents, "EUR", "");
		assert_int_equal(key_of(m, &key), EFFECTD_OK);
		assert_int_equal(key.lock_order, INT64_MAX - 1);
		assert_false(key.has_event_time);
		assert_int_equal(plugin_call_apply(&call, m), EFFECTD_OK);
		assert_int_equal(call.op_count, 2);
		const struct plugin_op *entry = call.first, *balance = entry->next;
		assert_int_equal(number(entry, 0), INT64_MAX);
		assert_int_equal(number(entry, 1), INT64_MAX - 1);
		assert_int_equal(number(entry, 2), cases[i].points);
		assert_int_equal(number(balance, 0), INT64_MAX - 1);
		assert_int_equal(number(balance, 1), cases[i].points);
	}
	finish();

	start(LOYALTY, "cents_per_point", "7");
	assert_int_equal(plugin_call_apply(&call, order(1, 2, 20, "EUR", "")), EFFECTD_OK);
	assert_int_equal(number(call.first, 2), 2);
	finish();
}

static void a_total_that_is_no_whole_number_is_rejected(void **state)
{
	static const char *const totals[] = { "12.5", "100.0", "1e2", "\"100\"", "-1", "null", "true", "[1]", "{}" };
	(void)state;
	for (size_t which = 0; which < OF_ORDERS; which++) {
		start(which, NULL, NULL);
		for (size_t i = 0; i < ARRAY_LEN(totals); i++) {
			struct message *m =
				message("{\"event\":\"OrderCompleted\",\"order_id\":1,\"customer_id\":2,\"currency\":"
					"\"EUR\",\"completed_at\":\"2026-11-30T12:00:00Z\",\"total_cents\":%s}",
					totals[i]);
			assert_int_equal(plugin_call_apply(&call, m), EFFECTD_REJECT);
			assert_non_null(strstr(call.text, "total_cents"));
		}
		finish();
	}
}

static void a_loyalty_batch_is_two_statements_of_any_size(void **state)
{
	static const size_t sizes[] = { 2, MOST, 3 };
	(void)state;
	start(LOYALTY, NULL, NULL);
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
		for (size_t i = 0; i < message_count; i++)
			message_release(&messages[i]);
		message_count = 0;
		for (size_t i = 0; i < sizes[s]; i++)
			order((int64_t)i, (int64_t)i % 5, (int64_t)i * 100, "EUR", "");
		assert_int_equal(apply_batch(), EFFECTD_OK);
		assert_int_equal(call.op_count, 2);
		const struct plugin_op *entries = call.first, *balances = entries->next;
		assert_int_equal(elements(entries, 0), sizes[s]);
		for (size_t i = 0; i < sizes[s]; i++) {
			assert_int_equal(element_number(entries, 0, i), i);
			assert_int_equal(element_number(entries, 1, i), i % 5);
			assert_int_equal(element_number(entries, 2, i), i);
			assert_int_equal(element_number(balances, 0, i), i % 5);
			assert_int_equal(element_number(balances, 1, i), i);
		}
	}
	order(1, 2, -1, "EUR", "");
	assert_int_equal(apply_batch(), EFFECTD_REJECT);
	finish();
}

static void analytics_locks_days_then_currencies(void **state)
{
	static const char *const sorted[][2] = {
		{ "0000-01-01T00:00:00Z", "EUR" },      { "1969-12-31T23:59:59Z", "EUR" },
		{ "1970-01-01T00:00:00Z", "AAA" },      { "1970-01-01T23:59:59Z", "ZZZ" },
		{ "2026-11-30T00:30:00+01:00", "USD" }, { "2026-11-30T12:00:00Z", "EUR" },
		{ "2026-11-30T00:00:00Z", "USD" },      { "9999-12-31T23:59:59Z", "EUR" },
	};
	int64_t last = INT64_MIN;
	(void)state;
	start(ANALYTICS, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
		struct effectd_key key;
		assert_int_equal(key_of(order(1, 2, 3, sorted[i][1], sorted[i][0]), &key), EFFECTD_OK);
		assert_true(key.lock_order > last);
		last = key.lock_order;
	}
	finish();
}

static void analytics_queues_exact_amounts_of_utc_days(void **state)
{
	static const struct {
		int64_t cents;
		const char *total;
	} cases[] = { { 0, "0.00" }, { 5, "0.05" }, { 1230, "12.30" }, { INT64_MAX, "92233720368547758.07" } };
	(void)state;
	start(ANALYTICS, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct message *m = order(1, 2, cases[i].cents, "EUR", "2026-12-01T00:30:00+01:00");
		assert_int_equal(plugin_call_apply(&call, m), EFFECTD_OK);
		assert_int_equal(call.op_count, 1);
		assert_int_equal(number(call.first, 0), DAY_2026_11_30 - DAYS_1970_TO_2000);
		assert_string_equal(text(call.first, 1), "EUR");
		assert_string_equal(text(call.first, 2), cases[i].total);
	}
	finish();
}

static void an_analytics_batch_touches_each_row_once_in_order(void **state)
{
	(void)state;
	start(ANALYTICS, NULL, NULL);
	for (int64_t i = 0; i < 100; i++) {
		order(i, 2, 101, i % 2 ? "USD" : "EUR", "2026-11-30T12:00:00Z");
		order(i, 2, 1, "EUR", "2026-11-29T23:00:00-00:30");
	}
	assert_int_equal(apply_batch(), EFFECTD_OK);
	assert_int_equal(call.op_count, 1);
	static const struct {
		int64_t day, orders;
		const char *currency, *total;
	} rows[] = {
		{ DAY_2026_11_30 - 1, 100, "EUR", "1.00" },
		{ DAY_2026_11_30, 50, "EUR", "50.50" },
		{ DAY_2026_11_30, 50, "USD", "50.50" },
	};
	assert_int_equal(elements(call.first, 0), ARRAY_LEN(rows));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len;
		assert_int_equal(element_number(call.first, 0, i), rows[i].day - DAYS_1970_TO_2000);
		assert_memory_equal(element(call.first, 1, i, &len), rows[i].currency, 3);
		assert_int_equal(element_number(call.first, 2, i), rows[i].orders);
	}
	assert_string_equal(text(call.first, 3), "{\"1.00\",\"50.50\",\"50.50\"}");

	order(1, 2, INT64_MAX, "EUR", "2026-11-30T12:00:00Z");
	assert_int_equal(apply_batch(), EFFECTD_RETRY);
	finish();
}

static void analytics_rejects_what_it_cannot_place(void **state)
{
	static const char *const wrong[][2] = {
		{ "2026-11-30", "EUR" },
		{ "2026-02-29T12:00:00Z", "EUR" },
		{ "2026-11-30T12:00:00", "EUR" },
		{ "2026-11-30T12:00:00+25:00", "EUR" },
		{ "", "EUR" },
		{ "2026-11-30T12:00:00Z", "eur" },
		{ "2026-11-30T12:00:00Z", "EURO" },
		{ "2026-11-30T12:00:00Z", "" },
		{ "2026-11-30T12:00:00Z", "EU1" },
	};
	(void)state;
	start(ANALYTICS, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct effectd_key key;
		assert_int_equal(key_of(order(1, 2, 3, wrong[i][1], wrong[i][0]), &key), EFFECTD_REJECT);
	}
	finish();
}

static void a_receipt_is_one_outbox_row_with_every_digit(void **state)
{
	(void)state;
	start(RECEIPTS, NULL, NULL);
	struct message *m = order(INT64_MIN, INT64_MAX, INT64_MAX, "EUR", "");
	assert_int_equal(plugin_call_apply(&call, m), EFFECTD_OK);
	assert_int_equal(call.op_count, 1);
	assert_int_equal(call.first->kind, PLUGIN_OP_OUTBOX);
	assert_string_equal(text(call.first, 0), "send_receipt");
	assert_non_null(strstr(text(call.first, 1),
			       "{\"order_id\":-9223372036854775808,\"customer_id\":9223372036854775807,"
			       "\"total\":\"92233720368547758.07\",\"currency\":\"EUR\"}"));
	assert_int_equal(plugin_call_apply(&call, order(1, 2, 5, "E\\\"R", "")), EFFECTD_REJECT);
	assert_int_equal(plugin_call_apply(&call, order(1, 2, 5, "EURO", "")), EFFECTD_REJECT);
	finish();
}

static void an_order_s_status_goes_without_a_claim_in_its_order_s_turn(void **state)
{
	struct effectd_key key;
	(void)state;
	start(ORDER_STATUS, NULL, NULL);
	assert_int_equal(instance->claim, EFFECTD_CLAIM_NONE);
	struct message *m = message("{\"event\":\"OrderStatusChanged\",\"order_id\":%" PRId64 ",\"version\":%" PRId64
				    ",\"status\":\"paid\",\"changed_at\":\"2000-01-01T00:00:00.5Z\"}",
				    INT64_MAX, INT64_MIN);
	assert_int_equal(key_of(m, &key), EFFECTD_OK);
	assert_string_equal(key.text, "order-status:9223372036854775807:-9223372036854775808");
	assert_int_equal(key.lock_order, INT64_MAX);
	assert_int_equal(plugin_call_apply(&call, m), EFFECTD_OK);
	assert_int_equal(call.op_count, 1);
	assert_int_equal(number(call.first, 0), INT64_MAX);
	assert_int_equal(number(call.first, 1), INT64_MIN);
	assert_string_equal(text(call.first, 2), "paid");
	assert_int_equal(number(call.first, 3), 500000);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_key_names_the_order_and_not_the_delivery),
		cmocka_unit_test(what_is_no_order_is_rejected_by_all),
		cmocka_unit_test(loyalty_locks_customers_and_counts_whole_cents),
		cmocka_unit_test(a_total_that_is_no_whole_number_is_rejected),
		cmocka_unit_test(a_loyalty_batch_is_two_statements_of_any_size),
		cmocka_unit_test(analytics_locks_days_then_currencies),
		cmocka_unit_test(analytics_queues_exact_amounts_of_utc_days),
		cmocka_unit_test(an_analytics_batch_touches_each_row_once_in_order),
		cmocka_unit_test(analytics_rejects_what_it_cannot_place),
		cmocka_unit_test(a_receipt_is_one_outbox_row_with_every_digit),
		cmocka_unit_test(an_order_s_status_goes_without_a_claim_in_its_order_s_turn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Values, ranges, and what values say about each other. */
#include "config_fixture.h"

/* Loads BASE with more lines in the consumer's section. */
static enum status load_consumer(const char *lines)
{
	char text[2048];
	snprintf(text, sizeof(text), "%s%s", BASE, lines);
	return load_text(text);
}

static void values_with_units_are_exact(void **state)
{
	(void)state;
	expect_good(load_consumer("retry_min = 250ms\nretry_max = 12h\nhold_max = 25min\nretention = 3650d\n"
				  "batch_bytes = 64KiB\nmax_body = 128MiB\nworkers = 3\nbatch_max = 1000\n"));
	const struct config_consumer *c = &loaded->consumers[0];
	assert_int_equal(c->retry_min_ms, 250);
	assert_int_equal(c->retry_max_ms, 12 * 3600 * 1000);
	assert_int_equal(c->hold_max_ms, 25 * 60 * 1000);
	assert_int_equal(c->retention_ms, INT64_C(3650) * 86400 * 1000);
	assert_int_equal(c->batch_bytes, 64 * 1024);
	assert_int_equal(c->max_body_bytes, 128 << 20);
	assert_int_equal(c->prefetch, 3000);
	expect_good(load_consumer("retention = never\n"));
	assert_int_equal(loaded->consumers[0].retention_ms, -1);
}

static void what_is_malformed_or_out_of_range_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *line, *text;
	} cases[] = {
		{ "workers = 0", "between 1 and 64" },
		{ "workers = 65", "between 1 and 64" },
		{ "workers = -1", "between 1 and 64" },
		{ "workers = 2x", "whole number" },
		{ "workers = 0x2", "whole number" },
		{ "workers = 1.5", "whole number" },
		{ "workers = 99999999999999999999", "whole number" },
		{ "workers =", "no value" },
		{ "batch_max = 0", "between 1 and 1000" },
		{ "batch_max = 1001", "between 1 and 1000" },
		{ "prefetch = 0", "between 1 and 65535" },
		{ "prefetch = 65536", "between 1 and 65535" },
		{ "prefetch = 99", "below batch_max = 100" },
		{ "hold_max = 26min", "between 1s and 25min" },
		{ "hold_max = 10", "a duration like" },
		{ "hold_max = 10 min", "a duration like" },
		{ "hold_max = 10m", "a duration like" },
		{ "retention = forever", "or never" },
		{ "retention = 0", "between 1s and 3650d, or never" },
		{ "hold_max = never", "a duration like" },
		{ "batch_bytes = 4MB", "a size like" },
		{ "max_body = 1023", "between 1KiB and 128MiB" },
		{ "stop_on_dead = true", "yes or no" },
		{ "order = Queue", "none or queue" },
		{ "declare = auto", "no, passive or yes" },
		{ "queue_type = stream", "quorum or classic" },
		{ "bind.1 = orders", "EXCHANGE:ROUTING_KEY" },
		{ "bind.1 = :x", "EXCHANGE:ROUTING_KEY" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char line[256], begin[128];
		snprintf(line, sizeof(line), "%s\n", cases[i].line);
		snprintf(begin, sizeof(begin),
			 "effectd.ini:8: [consumer:loyalty] %.*s:", (int)strcspn(cases[i].line, " "), cases[i].line);
		assert_int_equal(load_consumer(line), ST_INVALID);
		expect_problem(begin, cases[i].text);
		assert_int_equal(problem_count, 1);
	}
}

static void families_keep_their_order_and_their_places(void **state)
{
	(void)state;
	expect_good(load_consumer("declare = yes\nqueue_arg.x-max-length = 10\nqueue_arg.x-overflow =\n"
				  "bind.2 = a:x.#\nbind.1 = b:\nplugin.z = 1\nplugin.a.b-c = 2\n"));
	const struct config_consumer *c = &loaded->consumers[0];
	assert_int_equal(c->queue_args.count, 2);
	assert_string_equal(c->queue_args.list[0].name, "x-max-length");
	assert_string_equal(c->queue_args.list[1].value, "");
	assert_string_equal(c->binds.list[0].value, "a:x.#");
	assert_string_equal(c->binds.list[1].value, "b:");
	assert_string_equal(c->settings.list[1].name, "a.b-c");
	assert_int_equal(c->settings.list[1].place.line, 14);
}

static void what_does_not_fit_together_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *lines, *where, *text;
	} cases[] = {
		{ "order = queue\nworkers = 2\n", "effectd.ini:8: [consumer:loyalty] order:", "needs workers = 1" },
		{ "stop_on_dead = yes\n",
		  "effectd.ini:8: [consumer:loyalty] stop_on_dead:", "only with order = queue" },
		{ "claims = daily\nretention = never\n",
		  "effectd.ini:9: [consumer:loyalty] retention:", "claims = daily" },
		{ "claims = daily\nretention = 23h\n", "effectd.ini:9: [consumer:loyalty] retention:", "at least 1d" },
		{ "retry_min = 10min\n", "effectd.ini:5: [consumer:loyalty] retry_max:", "shorter than retry_min" },
		{ "queue_arg.x = 1\n", "effectd.ini:8: [consumer:loyalty] :", "only with declare = yes" },
		{ "batch_bytes = 256MiB\n",
		  "effectd.ini:0: [effectd] memory_max:", "is 512MiB, but the consumers may hold 513MiB" },
		{ "[database:two]\nconninfo = x\nlock_timeout = 40s\n",
		  "effectd.ini:10: [database:two] lock_timeout:", "longer than statement_timeout" },
		{ "[broker:two]\nurl = amqps://h/\ntls_cert_file = c\n",
		  "effectd.ini:10: [broker:two] tls_cert_file:", "needs tls_key_file" },
		{ "[broker:two]\nurl = amqps://h/\ntls_key_file = c\n",
		  "effectd.ini:10: [broker:two] tls_key_file:", "needs tls_cert_file" },
		{ "[consumer:two]\nplugin = p.so\nqueue = q\n",
		  "effectd.ini:10: [consumer:two] queue:", "[consumer:loyalty] has the same queue" },
		{ "[consumer:Loyalty]\nplugin = p.so\nqueue = q2\n", "effectd.ini:8: []", "capital letters" },
		{ "[consumer:two]\nplugin = p.so\n", "effectd.ini:8: [consumer:two] :", "queue is missing" },
		{ "[consumer:two]\nqueue = x\n", "effectd.ini:8: [consumer:two] :", "plugin is missing" },
		{ "[relay:r]\n", "effectd.ini:8: [relay:r] :", "kind.NAME is missing" },
		{ "[relay:r]\nkind.x = mailr\n[target:mailer]\ntype = http\nurl = https://m/\n",
		  "effectd.ini:9: [relay:r] kind.x:", "did you mean mailer?" },
		{ "[relay:r]\nkind.x = m\nlease = 10s\n[target:m]\ntype = http\nurl = https://m/\n",
		  "effectd.ini:10: [relay:r] lease:", "longer than the timeout" },
		{ "[target:m]\ntype = http\nurl = amqp://m/\n", "effectd.ini:10: [target:m] url:", "must be http://" },
		{ "[target:m]\ntype = http\nurl = https://m/\nexchange = x\n",
		  "effectd.ini:11: [target:m] exchange:", "no meaning" },
		{ "[target:m]\ntype = amqp\nurl = amqp://m/\n",
		  "effectd.ini:8: [target:m] :", "exchange or routing_key" },
		{ "[target:m]\ntype = smtp\nurl = smtp://m/\n", "effectd.ini:8: [target:m] :", "mail_from is missing" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(load_consumer(cases[i].lines), ST_INVALID);
		expect_problem(cases[i].where, cases[i].text);
		assert_int_equal(problem_count, 1);
	}
}

static void the_same_queue_of_two_brokers_is_two_queues(void **state)
{
	(void)state;
	expect_good(load_consumer("[broker:two]\nurl = amqp://two/\n"
				  "[consumer:two]\nplugin = p.so\nqueue = q\nbroker = two\n"));
	assert_int_equal(load_consumer("[broker:two]\nurl = amqp://effectd@127.0.0.1/\n"
				       "[consumer:two]\nplugin = p.so\nqueue = q\nbroker = two\n"),
			 ST_INVALID);
	expect_problem("effectd.ini:12: [consumer:two] queue:", "the same queue");
}

static void a_broker_is_the_named_one_or_main_or_the_only_one(void **state)
{
	(void)state;
	expect_good(load_consumer("[broker:two]\nurl = amqp://two/\n"));
	assert_string_equal(loaded->consumers[0].broker_name, "main");
	expect_good(load_consumer("broker = two\n[broker:two]\nurl = amqp://two/\n"));
	assert_string_equal(loaded->consumers[0].broker->url, "amqp://two/");
	expect_good(load_text("[broker:a]\nurl = amqp://h/\n[database:b]\nconninfo = x\n"
			      "[consumer:c]\nplugin = p.so\nqueue = q\n"));
	assert_string_equal(loaded->consumers[0].broker_name, "a");
	assert_string_equal(loaded->consumers[0].database_name, "b");
	assert_int_equal(load_text("[broker:a]\nurl = amqp://h/\n[broker:b]\nurl = amqp://i/\n"
				   "[consumer:c]\nplugin = p.so\nqueue = q\n"),
			 ST_INVALID);
	expect_problem("effectd.ini:5: [consumer:c] :", "none is named main");
	expect_problem("effectd.ini:5: [consumer:c] :", "there is no [database:NAME]");
	assert_int_equal(problem_count, 2);
}

static void relays_and_targets_are_typed(void **state)
{
	(void)state;
	expect_good(load_consumer("[target:mailer]\ntype = http\nurl = https://m/\nheader.X-A = b\nmethod = PUT\n"
				  "[target:bus]\ntype = amqp\nurl = amqps://b/\nrouting_key = k\n"
				  "[relay:main]\nkind.receipt = mailer\nkind.event = bus\nsent_retention = never\n"));
	assert_int_equal(loaded->target_count, 2);
	assert_string_equal(loaded->targets[0].method, "PUT");
	assert_string_equal(loaded->targets[0].headers.list[0].value, "b");
	assert_null(loaded->targets[0].exchange);
	assert_string_equal(loaded->targets[1].exchange, "");
	assert_null(loaded->targets[1].method);
	assert_int_equal(loaded->relays[0].in_flight, 64);
	assert_int_equal(loaded->relays[0].sent_retention_ms, -1);
	assert_int_equal(loaded->relays[0].kinds.count, 2);
	assert_ptr_equal(loaded->relays[0].database, &loaded->databases[0]);
}

static void sections_are_bounded(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer text = { 0 };
	for (int i = 0; i < 1100; i++)
		buffer_printf(&text, "[database:d%d]\nconninfo = x\n", i);
	assert_int_equal(load_text(buffer_text(&text)), ST_INVALID);
	expect_problem("effectd.ini:2001:", "more than 1000 sections");
}

static void problems_are_bounded_and_the_rest_is_counted(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer text = { 0 };
	buffer_puts(&text, BASE);
	for (int i = 0; i < 1500; i++)
		buffer_puts(&text, "nonsense\n");
	assert_int_equal(load_text(buffer_text(&text)), ST_INVALID);
	assert_int_equal(problem_count, 1001);
	expect_problem(":0:", "and 500 more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(values_with_units_are_exact),
		TEST(what_is_malformed_or_out_of_range_is_refused),
		TEST(families_keep_their_order_and_their_places),
		TEST(what_does_not_fit_together_is_refused),
		TEST(the_same_queue_of_two_brokers_is_two_queues),
		TEST(a_broker_is_the_named_one_or_main_or_the_only_one),
		TEST(relays_and_targets_are_typed),
		TEST(sections_are_bounded),
		TEST(problems_are_bounded_and_the_rest_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Drives one AMQP session for test_amqp_session.py: a command a line on stdin, an answer in JSON a line on stdout.
 *
 * It waits as a worker does: poll() on the session's socket, input only while the session reads, no longer than
 * amqp_session_wake_ms(). Words of a command are separated by blanks; "-" stands for none. */
#include "amqp/session.h"
#include "base/clock.h"
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 16, TAKEN_MAX = 65536, ARGUMENTS_MAX = 8 };

static struct amqp_session *session;
static struct amqp_delivery *taken[TAKEN_MAX]; /* by the order of taking */
static size_t taken_count;

static const char *const status_names[] = {
	[ST_OK] = "ok",
	[ST_INVALID] = "invalid",
	[ST_UNAVAILABLE] = "unavailable",
	[ST_REFUSED] = "refused",
	[ST_IN_DOUBT] = "in_doubt",
	[ST_STOPPED] = "stopped",
	[ST_INTERNAL] = "internal",
};

static const char *word(char **words, int i)
{
	return words[i] && strcmp(words[i], "-") != 0 ? words[i] : NULL;
}

static long long number(char **words, int i)
{
	return words[i] ? atoll(words[i]) : 0;
}

static json_t *answer(enum status status, const struct error *err)
{
	return json_pack("{s:s, s:i, s:s}", "status", status_names[status], "code", err->code, "text", err->text);
}

static json_t *hex(struct str s)
{
	AUTOFREE char *text = malloc(2 * s.len + 1);
	for (size_t i = 0; i < s.len; i++)
		snprintf(text + 2 * i, 3, "%02x", (unsigned char)s.data[i]);
	return json_stringn(text, 2 * s.len);
}

static json_t *describe(const struct amqp_delivery *d)
{
	return json_pack("{s:I, s:i, s:b, s:b, s:o, s:o, s:o, s:o}", "tag", (json_int_t)d->tag, "epoch", (int)d->epoch,
			 "redelivered", d->redelivered, "oversized", d->oversized, "exchange", hex(d->exchange),
			 "routing_key", hex(d->routing_key), "properties", hex(d->properties), "body", hex(d->body));
}

/* Pumps until ms are over or something is wrong; takes up to count deliveries into list. */
static enum status serve(int64_t ms, size_t count, json_t *list, struct error *err)
{
	const int64_t until = clock_mono_ms() + ms;
	for (;;) {
		enum status st = amqp_session_pump(session, err);
		while (list && json_array_size(list) < count && taken_count < TAKEN_MAX) {
			struct amqp_delivery *d = amqp_session_take(session);
			if (!d)
				break;
			taken[taken_count++] = d;
			json_array_append_new(list, describe(d));
		}
		const int64_t now = clock_mono_ms();
		if (st != ST_OK || now >= until || (list && json_array_size(list) == count))
			return st;
		const int64_t wake = amqp_session_wake_ms(session) < until ? amqp_session_wake_ms(session) : until;
		struct pollfd p = { amqp_session_fd(session), amqp_session_reading(session) ? POLLIN : 0, 0 };
		poll(&p, 1, wake > now ? (int)(wake - now) : 0);
	}
}

/* open URL HEARTBEAT PASSWORD CA CERT KEY VERIFY */
static json_t *do_open(char **words)
{
	const struct amqp_params params = {
		.url = words[1],
		.heartbeat_s = (int)number(words, 2),
		.password = word(words, 3),
		.tls_ca_file = word(words, 4),
		.tls_cert_file = word(words, 5),
		.tls_key_file = word(words, 6),
		.tls_verify = words[7] && strcmp(words[7], "no") != 0,
		.connection_name = "effectd/loyalty/1",
	};
	struct error err = { 0 };
	return answer(amqp_session_open(&session, &params, &wait_alone, &err), &err);
}

/* consume QUEUE PREFETCH BUFFER_BYTES MAX_BODY DECLARE QUEUE_TYPE EXCHANGE ROUTING_KEY [NAME VALUE].. */
static json_t *do_consume(char **words)
{
	static const char *const declares[] = { "no", "passive", "yes" };
	struct amqp_argument arguments[ARGUMENTS_MAX];
	struct amqp_consume c = {
		.queue = words[1],
		.prefetch = (uint16_t)number(words, 2),
		.buffer_bytes = (size_t)number(words, 3),
		.max_body = (size_t)number(words, 4),
		.consumer_tag = "loyalty",
		.arguments = arguments,
	};
	for (int i = 0; words[5] && i < 3; i++)
		if (strcmp(words[5], declares[i]) == 0)
			c.declare = (enum amqp_declare)i;
	c.queue_type = words[5] ? word(words, 6) : NULL;
	struct amqp_binding binding = { 0 };
	if (c.queue_type && word(words, 7)) {
		binding = (struct amqp_binding){ words[7], words[8] };
		c.bindings = &binding;
		c.binding_count = 1;
		for (int i = 9; words[i] && words[i + 1] && c.argument_count < ARGUMENTS_MAX; i += 2)
			arguments[c.argument_count++] = (struct amqp_argument){ words[i], words[i + 1] };
	}
	struct error err = { 0 };
	return answer(amqp_session_consume(session, &c, &err), &err);
}

/* take COUNT MS: pumps until that many are there */
static json_t *do_take(char **words)
{
	struct error err = { 0 };
	json_t *list = json_array();
	enum status st = serve(number(words, 2), (size_t)number(words, 1), list, &err);
	json_t *reply = answer(st, &err);
	json_object_set_new(reply, "deliveries", list);
	return reply;
}

/* idle MS: pumps, takes nothing */
static json_t *do_idle(char **words)
{
	struct error err = { 0 };
	return answer(serve(number(words, 1), 0, NULL, &err), &err);
}

/* stream COUNT MS: takes, acknowledges and returns one by one */
static json_t *do_stream(char **words)
{
	struct error err = { 0 };
	enum status st = ST_OK;
	long long left = number(words, 1);
	const int64_t until = clock_mono_ms() + number(words, 2);
	while (left > 0 && st == ST_OK && clock_mono_ms() < until) {
		st = serve(amqp_session_peek(session) ? 0 : 100, 0, NULL, &err);
		for (struct amqp_delivery *d; left > 0 && (d = amqp_session_take(session)); left--) {
			if (amqp_session_ack(session, d->epoch, d->tag, false, &err) != ST_OK)
				break;
			amqp_session_return(session, d);
		}
	}
	json_t *reply = answer(st, &err);
	json_object_set_new(reply, "left", json_integer(left));
	return reply;
}

/* show INDEX: a taken delivery, read again */
static json_t *do_show(char **words)
{
	return describe(taken[number(words, 1)]);
}

/* return FROM TO: taken deliveries, by index */
static json_t *do_return(char **words)
{
	struct error err = { 0 };
	for (long long i = number(words, 1); i <= number(words, 2); i++)
		amqp_session_return(session, taken[i]);
	return answer(ST_OK, &err);
}

/* ack EPOCH TAG single|multiple */
static json_t *do_ack(char **words)
{
	struct error err = { 0 };
	return answer(amqp_session_ack(session, (uint32_t)number(words, 1), (uint64_t)number(words, 2),
				       strcmp(words[3], "multiple") == 0, &err),
		      &err);
}

static json_t *do_ready(char **words)
{
	struct error err = { 0 };
	uint32_t ready = 0;
	json_t *reply = answer(amqp_session_ready(session, words[1], &ready, &err), &err);
	json_object_set_new(reply, "ready", json_integer(ready));
	return reply;
}

static json_t *do_cancel(char **words)
{
	struct error err = { 0 };
	(void)words;
	return answer(amqp_session_cancel(session, &err), &err);
}

static json_t *do_close_channel(char **words)
{
	struct error err = { 0 };
	(void)words;
	return answer(amqp_session_close_channel(session, &err), &err);
}

static json_t *do_state(char **words)
{
	(void)words;
	return json_pack("{s:i, s:b, s:b, s:b, s:b}", "epoch", (int)amqp_session_epoch(session), "reading",
			 amqp_session_reading(session), "blocked", amqp_session_blocked(session), "cancelled",
			 amqp_session_cancelled(session), "connected", amqp_session_fd(session) >= 0);
}

static json_t *do_destroy(char **words)
{
	struct error err = { 0 };
	(void)words;
	amqp_session_destroy(session);
	session = NULL;
	taken_count = 0;
	return answer(ST_OK, &err);
}

static const struct {
	const char *name;
	json_t *(*run)(char **words);
} commands[] = {
	{ "open", do_open },
	{ "consume", do_consume },
	{ "take", do_take },
	{ "idle", do_idle },
	{ "stream", do_stream },
	{ "show", do_show },
	{ "return", do_return },
	{ "ack", do_ack },
	{ "ready", do_ready },
	{ "cancel", do_cancel },
	{ "close_channel", do_close_channel },
	{ "state", do_state },
	{ "destroy", do_destroy },
};

int main(void)
{
	AUTOFREE char *line = NULL;
	size_t capacity = 0;
	while (getline(&line, &capacity, stdin) > 0) {
		char *words[WORDS_MAX + 2] = { NULL }, *rest = line;
		for (int i = 0; i < WORDS_MAX && (words[i] = strtok_r(rest, " \n", &rest)); i++)
			;
		json_t *reply = NULL;
		for (size_t i = 0; words[0] && i < ARRAY_LEN(commands); i++)
			if (strcmp(words[0], commands[i].name) == 0)
				reply = commands[i].run(words);
		if (!reply)
			return 2;
		json_dumpf(reply, stdout, JSON_COMPACT);
		json_decref(reply);
		putchar('\n');
		fflush(stdout);
	}
	amqp_session_destroy(session);
	return 0;
}

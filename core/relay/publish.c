/* A target in RabbitMQ: each row is published as a persistent message, mandatory, and sent when the broker confirmed
 * it. A row that was routed nowhere, or that the broker refused, is tried again: the topology is wrong, not the row.
 *
 * No confirm in time, or a broken connection, leaves in doubt whether the broker has it: the row goes again, with the
 * same message id. */
#include "amqp/session.h"
#include "base/fault.h"
#include "base/log.h"
#include "relay/lane.h"
#include <string.h>

enum {
	RECONNECT_MIN_MS = 100,
	RECONNECT_MAX_MS = 5000,
	FULL_SOCKET_MS = 5,    /* the broker reads slowly: look again */
	TIMEOUT_LOOK_MS = 100, /* how late a timeout may be seen */
	MESSAGE_ID_MAX = 255,  /* bytes, in AMQP 0-9-1 */
	HEADERS_MAX = 64,
};

struct publisher {
	struct driver base; /* must be first */
	struct amqp_session *session;
	bool connecting, full;
	struct backoff backoff;
	int64_t connect_ms;     /* not before */
	int64_t next_look_ms;   /* for timeouts */
	struct row **by_number; /* under way, by the number of its publication modulo slots */
	size_t slots;
};

static struct publisher *publisher_of(const struct driver *d)
{
	return (struct publisher *)d;
}

static enum status create(struct driver **ret, struct lane *lane, struct error *err)
{
	struct publisher *p = calloc(1, sizeof(*p));
	if (!p)
		return error_oom(err);
	p->base = (struct driver){ &amqp_driver, lane };
	p->slots = 2 * (size_t)lane->config->in_flight;
	p->by_number = calloc(p->slots, sizeof(struct row *));
	backoff_init(&p->backoff, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
	*ret = &p->base;
	return p->by_number ? ST_OK : error_oom(err);
}

static void destroy(struct driver *d)
{
	struct publisher *p = publisher_of(d);
	amqp_session_destroy(p->session);
	for (size_t i = 0; p->by_number && i < p->slots; i++)
		if (p->by_number[i])
			row_free(p->by_number[i]);
	free(p->by_number);
	free(p);
}

/* --- the end of a call --- */

static struct row *take(struct publisher *p, uint64_t number)
{
	struct row **slot = &p->by_number[number % p->slots], *row = *slot;
	if (!row || row->number != number)
		return NULL; /* given up before */
	*slot = NULL;
	return row;
}

static void give_up(struct publisher *p, const char *why)
{
	struct verdict verdict = { 0 };
	verdict_set(&verdict, VERDICT_RETRY, "%s", why);
	for (size_t i = 0; i < p->slots; i++) {
		struct row *row = p->by_number[i];
		p->by_number[i] = NULL;
		if (row)
			lane_finish(p->base.lane, row, &verdict);
	}
}

/* Everything under way is in doubt. */
static void lose(struct publisher *p, const struct error *err)
{
	const struct lane *l = p->base.lane;
	amqp_session_destroy(p->session);
	p->session = NULL;
	const int64_t wait_ms = backoff_next_ms(&p->backoff);
	p->connect_ms = clock_mono_ms() + wait_ms;
	log_warn("broker_lost", LANE_FIELDS(l), LOG_ERR(err), LOG_INT("code", err->code), LOG_INT("retry_ms", wait_ms));
	give_up(p, err->text);
}

static void abandon(struct driver *d)
{
	give_up(publisher_of(d), "effectd stopped before the broker confirmed");
}

/* --- the session --- */

static void connect_broker(struct publisher *p)
{
	struct lane *l = p->base.lane;
	struct amqp_params params;
	struct error err = { 0 };
	target_amqp_params(&l->target, l->name, &params);
	p->connecting = true;
	enum status st = amqp_session_open(&p->session, &params, &l->waiter, &err);
	if (st == ST_OK)
		st = amqp_session_publish_open(p->session, &err);
	p->connecting = false;
	if (st == ST_OK)
		backoff_reset(&p->backoff);
	else
		lose(p, &err);
}

static bool is_writable(const struct publisher *p)
{
	struct pollfd fd = { .fd = amqp_session_fd(p->session), .events = POLLOUT };
	return poll(&fd, 1, 0) == 1 && fd.revents == POLLOUT;
}

static bool ready(struct driver *d)
{
	struct publisher *p = publisher_of(d);
	p->full = false;
	if (p->connecting)
		return false;
	if (!p->session && clock_mono_ms() >= p->connect_ms)
		connect_broker(p);
	if (!p->session || amqp_session_blocked(p->session))
		return false;
	p->full = p->by_number[amqp_session_next_number(p->session) % p->slots] || !is_writable(p);
	return !p->full;
}

/* --- a call --- */

/* The row's headers. What they say is copied; where, is known when all is there: the buffer moves while it grows. */
struct given {
	struct buffer text;
	size_t names[HEADERS_MAX], values[HEADERS_MAX]; /* offsets */
	struct amqp_argument headers[HEADERS_MAX];
	size_t count;
	bool bad;
};

static void add_given(void *arg, const char *name, const char *value)
{
	struct given *g = arg;
	g->bad = g->bad || g->count == HEADERS_MAX || strlen(name) > MESSAGE_ID_MAX;
	if (g->bad)
		return;
	g->names[g->count] = g->text.len;
	buffer_add(&g->text, name, strlen(name) + 1);
	g->values[g->count++] = g->text.len;
	buffer_add(&g->text, value, strlen(value) + 1);
}

static bool read_headers(struct given *g, const struct row *row, struct verdict *verdict)
{
	struct error err = { 0 };
	if (headers_each(row->headers, add_given, g, &err) != ST_OK)
		verdict_set(verdict, VERDICT_DEAD, "%s", err.text);
	else if (g->bad)
		verdict_set(verdict, VERDICT_DEAD, "it has more than %d headers, or one with a name above %d bytes",
			    HEADERS_MAX, MESSAGE_ID_MAX);
	else if (g->text.failed)
		verdict_set(verdict, VERDICT_RETRY, "out of memory");
	else
		for (size_t i = 0; i < g->count; i++)
			g->headers[i] =
				(struct amqp_argument){ g->text.data + g->names[i], g->text.data + g->values[i] };
	return verdict->text[0] == '\0';
}

static void given_finish(struct given *g)
{
	buffer_finish(&g->text);
}

static void begin(struct driver *d, struct row *row, int64_t timeout_ms)
{
	struct publisher *p = publisher_of(d);
	const struct config_target *config = d->lane->target.config;
	CLEANUP(given_finish) struct given given = { .count = 0 };
	struct error err = { 0 };
	struct verdict verdict = { 0 };
	(void)timeout_ms; /* the target's, looked at in pump() */
	if (!read_headers(&given, row, &verdict)) {
		lane_finish(d->lane, row, &verdict);
		return;
	}
	const struct amqp_publication publication = {
		.exchange = config->exchange,
		.routing_key = config->routing_key,
		.content_type = "application/json",
		.type = row->kind->name,
		.message_id = row->key.len <= MESSAGE_ID_MAX ? row->key : row->digest,
		.idempotency_key = row->key,
		.headers = given.headers,
		.header_count = given.count,
		.body = row->body,
	};
	const enum status st = amqp_session_publish(p->session, &publication, &row->number, &err);
	if (st == ST_OK) {
		p->by_number[row->number % p->slots] = row;
		(void)FAULT_POINT("outbox_called");
		return;
	}
	verdict_set(&verdict, VERDICT_RETRY, "%s", err.text);
	lane_finish(d->lane, row, &verdict);
	lose(p, &err);
}

static void take_confirms(struct publisher *p)
{
	struct amqp_confirm confirm;
	while (amqp_session_confirm(p->session, &confirm)) {
		struct verdict verdict = { 0 };
		struct row *row = take(p, confirm.number);
		if (!row)
			continue;
		switch (confirm.kind) {
		case AMQP_CONFIRM_ACKED:
			verdict.kind = VERDICT_SENT;
			break;
		case AMQP_CONFIRM_NACKED:
			verdict_set(&verdict, VERDICT_RETRY, "the broker refused it (basic.nack)");
			break;
		case AMQP_CONFIRM_RETURNED:
			verdict_set(&verdict, VERDICT_RETRY, "no queue is bound for it: the broker returned it, %u %s",
				    confirm.code, confirm.text);
			break;
		}
		lane_finish(p->base.lane, row, &verdict);
	}
}

static void look_for_timeouts(struct publisher *p)
{
	struct lane *l = p->base.lane;
	const int64_t now = clock_mono_us(), timeout_ms = l->target.config->timeout_ms;
	if (now / 1000 < p->next_look_ms)
		return;
	p->next_look_ms = now / 1000 + TIMEOUT_LOOK_MS;
	struct verdict verdict = { 0 };
	verdict_set(&verdict, VERDICT_RETRY, "no confirm within %lld ms", (long long)timeout_ms);
	for (size_t i = l->under_way; i > 0; i--) {
		struct row *row = l->calls[i - 1];
		if (now - row->begun_us > timeout_ms * 1000 && take(p, row->number) == row)
			lane_finish(l, row, &verdict);
	}
}

static void pump(struct driver *d)
{
	struct publisher *p = publisher_of(d);
	struct error err = { 0 };
	if (p->session && !p->connecting) {
		const enum status st = amqp_session_pump(p->session, &err);
		take_confirms(p);
		if (st != ST_OK)
			lose(p, &err);
	}
	look_for_timeouts(p);
}

static int fd(const struct driver *d)
{
	const struct publisher *p = publisher_of(d);
	return p->session && !p->connecting ? amqp_session_fd(p->session) : -1;
}

static int64_t wake_ms(const struct driver *d)
{
	const struct publisher *p = publisher_of(d);
	const struct lane *l = d->lane;
	int64_t until = WAIT_FOREVER;
	if (p->connecting)
		return until;
	if (p->session)
		until = amqp_session_wake_ms(p->session);
	else if (l->ready.first)
		until = p->connect_ms;
	if (l->under_way > 0)
		until = earlier(until, p->next_look_ms);
	if (p->full && l->ready.first)
		until = earlier(until, clock_mono_ms() + FULL_SOCKET_MS);
	return until;
}

static bool away(const struct driver *d)
{
	const struct publisher *p = publisher_of(d);
	return !p->session && p->backoff.failures > 0;
}

const struct driver_ops amqp_driver = {
	.key_most = MESSAGE_ID_MAX,
	.create = create,
	.destroy = destroy,
	.ready = ready,
	.begin = begin,
	.pump = pump,
	.abandon = abandon,
	.fd = fd,
	.wake_ms = wake_ms,
	.away = away,
};

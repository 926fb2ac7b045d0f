/* The channel's life: open with QoS, declare, bind, consume; cancel; close. Each opening is a new epoch.
 *
 * These calls wait for the broker's answer, bounded, heartbeats going on. Nothing here rejects or requeues a single
 * delivery: without a dead-letter exchange basic.reject deletes it. Giving back is closing the channel. */
#include "amqp/link.h"
#include <stdio.h>
#include <string.h>

static amqp_table_entry_t argument(const char *name, const char *value)
{
	amqp_table_entry_t e = { .key = amqp_cstring_bytes(name) };
	int64_t number;
	if (text_parse_int(value, &number)) {
		e.value.kind = AMQP_FIELD_KIND_I64;
		e.value.value.i64 = number;
	} else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
		e.value.kind = AMQP_FIELD_KIND_BOOLEAN;
		e.value.value.boolean = value[0] == 't';
	} else {
		e.value.kind = AMQP_FIELD_KIND_UTF8;
		e.value.value.bytes = amqp_cstring_bytes(value);
	}
	return e;
}

static enum status declare(struct amqp_session *s, const struct amqp_consume *c, struct error *err)
{
	if (c->declare == AMQP_DECLARE_NO)
		return ST_OK;
	const bool passive = c->declare == AMQP_DECLARE_PASSIVE;
	AUTOFREE amqp_table_entry_t *entries = calloc(c->argument_count + 1, sizeof(*entries));
	if (!entries)
		return error_oom(err);
	amqp_table_t table = { 0, entries };
	if (!passive) {
		if (c->queue_type)
			entries[table.num_entries++] = argument("x-queue-type", c->queue_type);
		for (size_t i = 0; i < c->argument_count; i++)
			entries[table.num_entries++] = argument(c->arguments[i].name, c->arguments[i].value);
	}
	amqp_queue_declare(s->conn, AMQP_CHANNEL, amqp_cstring_bytes(c->queue), passive, true, false, false, table);
	return link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "queue.declare", err);
}

static enum status bind_queue(struct amqp_session *s, const struct amqp_consume *c, struct error *err)
{
	for (size_t i = 0; i < c->binding_count; i++) {
		amqp_queue_bind(s->conn, AMQP_CHANNEL, amqp_cstring_bytes(c->queue),
				amqp_cstring_bytes(c->bindings[i].exchange),
				amqp_cstring_bytes(c->bindings[i].routing_key), amqp_empty_table);
		enum status st = link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "queue.bind", err);
		if (st != ST_OK)
			return error_wrap(err, "exchange %s", c->bindings[i].exchange);
	}
	return ST_OK;
}

static enum status consume_steps(struct amqp_session *s, const struct amqp_consume *c, struct error *err)
{
	enum status st = declare(s, c, err);
	if (st == ST_OK)
		st = bind_queue(s, c, err);
	if (st != ST_OK)
		return st;
	/* A limit in bytes is not implemented by RabbitMQ (540 ends the connection), a global one not on quorum queues.
	 */
	amqp_basic_qos(s->conn, AMQP_CHANNEL, 0, c->prefetch, false);
	st = link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "basic.qos", err);
	if (st != ST_OK)
		return st;
	amqp_basic_consume(s->conn, AMQP_CHANNEL, amqp_cstring_bytes(c->queue), amqp_cstring_bytes(s->consumer_tag),
			   false, false, false, amqp_empty_table);
	return link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "basic.consume", err);
}

static enum status dead(const struct amqp_session *s, struct error *err)
{
	if (err)
		*err = s->dead;
	return s->dead.status;
}

enum status amqp_session_consume(struct amqp_session *s, const struct amqp_consume *c, struct error *err)
{
	struct error unheard;
	if (!err)
		err = &unheard;
	enum status st = amqp_session_close_channel(s, err);
	if (st != ST_OK)
		return st;
	s->cancelled = false;
	s->buffer_bytes = c->buffer_bytes;
	s->max_body = c->max_body;
	snprintf(s->consumer_tag, sizeof(s->consumer_tag), "%s", c->consumer_tag ? c->consumer_tag : "");

	amqp_channel_open(s->conn, AMQP_CHANNEL);
	st = link_check_reply(s, AMQP_CHANNEL, amqp_get_rpc_reply(s->conn), "channel.open", err);
	if (st != ST_OK)
		return st;
	s->epoch = ++s->last_epoch;
	st = consume_steps(s, c, err);
	amqp_maybe_release_buffers(s->conn);
	return st == ST_OK ? ST_OK : error_wrap(err, "queue %s", c->queue);
}

enum status amqp_session_close_channel(struct amqp_session *s, struct error *err)
{
	if (s->dead.status != ST_OK)
		return dead(s, err);
	error_clear(&s->closed);
	held_drop_pending(s);
	if (s->epoch == 0)
		return ST_OK;
	s->epoch = 0;
	amqp_rpc_reply_t reply = amqp_channel_close(s->conn, AMQP_CHANNEL, AMQP_REPLY_SUCCESS);
	enum status st = link_check_reply(s, AMQP_CHANNEL, reply, "channel.close", err);
	/* Both sides closing at once is a closed channel as well. */
	return st == ST_OK || st == ST_REFUSED ? link_discard_queued(s, err) : st;
}

enum status amqp_session_cancel(struct amqp_session *s, struct error *err)
{
	if (s->dead.status != ST_OK)
		return dead(s, err);
	if (s->epoch == 0)
		return ST_OK;
	/* Only sent: cancel-ok comes behind the deliveries that are under way, and the pump reads both. */
	amqp_basic_cancel_t m = { .consumer_tag = amqp_cstring_bytes(s->consumer_tag) };
	return link_send(s, AMQP_CHANNEL, AMQP_BASIC_CANCEL_METHOD, &m, err);
}

bool amqp_session_cancelled(const struct amqp_session *s)
{
	return s->cancelled;
}

enum status amqp_session_ack(struct amqp_session *s, uint32_t epoch, uint64_t tag, bool multiple, struct error *err)
{
	/* Tag 0 with multiple would acknowledge everything, without it ends the channel. */
	if (tag == 0)
		return error_set(err, ST_INTERNAL, "delivery tag 0 cannot be acknowledged");
	if (s->dead.status != ST_OK)
		return dead(s, err);
	if (epoch == 0 || epoch != s->epoch)
		return ST_OK;
	amqp_basic_ack_t m = { .delivery_tag = tag, .multiple = multiple };
	return link_send(s, AMQP_CHANNEL, AMQP_BASIC_ACK_METHOD, &m, err);
}

/* ---- questions, on a channel of their own ---- */

static enum status probe_begin(struct amqp_session *s, struct error *err)
{
	if (s->dead.status != ST_OK)
		return dead(s, err);
	amqp_channel_open(s->conn, AMQP_PROBE_CHANNEL);
	return link_check_reply(s, AMQP_PROBE_CHANNEL, amqp_get_rpc_reply(s->conn), "channel.open", err);
}

static enum status probe_end(struct amqp_session *s, struct error *err)
{
	const amqp_rpc_reply_t reply = amqp_channel_close(s->conn, AMQP_PROBE_CHANNEL, AMQP_REPLY_SUCCESS);
	const enum status st = link_check_reply(s, AMQP_PROBE_CHANNEL, reply, "channel.close", err);
	if (st == ST_OK)
		amqp_maybe_release_buffers(s->conn);
	return st;
}

enum status amqp_session_ready(struct amqp_session *s, const char *queue, uint32_t *ret_ready, struct error *err)
{
	struct error unheard;
	if (!err)
		err = &unheard;
	enum status st = probe_begin(s, err);
	if (st != ST_OK)
		return st;
	const amqp_queue_declare_ok_t *ok = amqp_queue_declare(s->conn, AMQP_PROBE_CHANNEL, amqp_cstring_bytes(queue),
							       true, false, false, false, amqp_empty_table);
	st = link_check_reply(s, AMQP_PROBE_CHANNEL, amqp_get_rpc_reply(s->conn), "queue.declare", err);
	if (st != ST_OK)
		return error_wrap(err, "queue %s", queue);
	const uint32_t ready = ok->message_count;
	st = probe_end(s, err);
	if (st == ST_OK)
		*ret_ready = ready;
	return st;
}

enum status amqp_session_find_exchange(struct amqp_session *s, const char *exchange, struct error *err)
{
	struct error unheard;
	if (!err)
		err = &unheard;
	if (!*exchange)
		return ST_OK; /* the broker refuses to be asked for it */
	enum status st = probe_begin(s, err);
	if (st != ST_OK)
		return st;
	/* Passive: of what is said here only the name counts. */
	amqp_exchange_declare(s->conn, AMQP_PROBE_CHANNEL, amqp_cstring_bytes(exchange), amqp_cstring_bytes("direct"),
			      true, true, false, false, amqp_empty_table);
	st = link_check_reply(s, AMQP_PROBE_CHANNEL, amqp_get_rpc_reply(s->conn), "exchange.declare", err);
	return st == ST_OK ? probe_end(s, err) : error_wrap(err, "exchange %s", exchange);
}

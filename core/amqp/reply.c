/* What the library and the broker answer, turned into errors. A connection that failed once is never used again. */
#include "amqp/link.h"
#include "base/clock.h"
#include <stdarg.h>
#include <stdio.h>

/* The broker's words are cut: an error is one sentence. */
enum { WORDS_MAX = 400 };

enum status link_fail(struct amqp_session *s, struct error *err, const char *fmt, ...)
{
	char text[sizeof(s->dead.text)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->dead.status == ST_OK)
		error_set(&s->dead, ST_UNAVAILABLE, "%s", text);
	s->epoch = 0;
	held_drop_pending(s);
	if (err)
		*err = s->dead;
	return ST_UNAVAILABLE;
}

enum status link_fail_library(struct amqp_session *s, int amqp_status, const char *what, struct error *err)
{
	return link_fail(s, err, "%s: %s", what, amqp_error_string2(amqp_status));
}

static void describe(struct error *err, enum status status, const char *what, uint16_t code, amqp_bytes_t words)
{
	char text[WORDS_MAX];
	text_escape(text, sizeof(text), words.bytes, words.len);
	error_set(err, status, "the broker closed the %s: %u %s", what, code, text);
	err->code = code;
}

void link_describe_connection_close(const amqp_connection_close_t *m, struct error *err)
{
	describe(err, ST_UNAVAILABLE, "connection", m->reply_code, m->reply_text);
}

void link_describe_channel_close(const amqp_channel_close_t *m, struct error *err)
{
	describe(err, ST_REFUSED, "channel", m->reply_code, m->reply_text);
}

enum status link_send(struct amqp_session *s, amqp_channel_t channel, amqp_method_number_t id, void *method,
		      struct error *err)
{
	int rc = amqp_send_method(s->conn, channel, id, method);
	if (rc != AMQP_STATUS_OK)
		return link_fail_library(s, rc, "sending to the broker", err);
	s->sent_ms = clock_mono_ms();
	return ST_OK;
}

enum status link_check_reply(struct amqp_session *s, amqp_channel_t channel, amqp_rpc_reply_t reply, const char *what,
			     struct error *err)
{
	s->sent_ms = clock_mono_ms();
	if (reply.reply_type == AMQP_RESPONSE_NORMAL)
		return ST_OK;
	if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		return link_fail_library(s, reply.library_error, what, err);
	if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION)
		return link_fail(s, err, "%s: the broker gave no answer", what);

	struct error cause;
	error_clear(&cause);
	if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
		link_describe_channel_close(reply.reply.decoded, &cause);
		if (channel == AMQP_CHANNEL)
			s->epoch = 0;
		amqp_channel_close_ok_t ok = { 0 };
		enum status st = link_send(s, channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok, err);
		if (st != ST_OK)
			return st;
		(void)error_wrap(&cause, "%s", what);
		if (err)
			*err = cause;
		return ST_REFUSED;
	}
	if (reply.reply.id != AMQP_CONNECTION_CLOSE_METHOD)
		return link_fail(s, err, "%s: the broker gave an unexpected answer", what);
	link_describe_connection_close(reply.reply.decoded, &cause);
	amqp_connection_close_ok_t ok = { 0 };
	(void)amqp_send_method(s->conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
	(void)error_wrap(&cause, "%s", what);
	s->dead = cause;
	return link_fail(s, err, "%s", cause.text);
}

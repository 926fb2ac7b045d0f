/* Mail: one message a row, its Message-ID made of the row's key, so that a mailbox can tell a repetition.
 *
 * The payload is {"to": ADDRESS or [ADDRESS, ...], "subject": TEXT, "text": TEXT}. 250 is sent; 5yz to sender,
 * recipient or message is dead; everything else, a login that is refused included, is tried again. */
#include "base/fault.h"
#include "relay/calls.h"
#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
	WORD_BYTES = 45, /* of UTF-8 in one encoded word, which holds 75 characters */
	LINE_BYTES = 57, /* in one line of base64, which holds 76 */
	ADDRESS_MAX = 254,
	RECIPIENTS_MAX = 100,
};

/* Each line that the server says; the last one tells what became of it, but for the goodbye. */
static size_t on_reply(char *data, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	if (size * n >= 3 && memcmp(data, "221", 3) == 0)
		return size * n;
	c->answer_len = 0;
	call_keep_answer(c, data, size * n);
	return size * n;
}

static size_t on_read(char *data, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	const size_t left = c->body.len - c->body_sent, room = size * n, len = left < room ? left : room;
	memcpy(data, c->body.data + c->body_sent, len);
	c->body_sent += len;
	if (len == 0)
		(void)FAULT_POINT("outbox_called");
	return len;
}

static bool set_up(struct call *c, const struct target *t)
{
	/* A password never goes over an open wire. */
	const long tls = t->password ? CURLUSESSL_ALL : CURLUSESSL_TRY;
	return curl_easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps") == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_USE_SSL, tls) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_MAIL_FROM, t->config->mail_from) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_READFUNCTION, on_read) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_READDATA, c) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_reply) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c) == CURLE_OK;
}

/* --- the mail --- */

static bool is_address(const char *s)
{
	const char *at = strrchr(s, '@');
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("<>,;\"()", *p))
			return false;
	return at && at > s && at[1] && strlen(s) <= ADDRESS_MAX;
}

static bool add_recipient(struct call *c, const json_t *value, struct verdict *verdict)
{
	const char *address = json_string_value(value);
	if (!address || !is_address(address)) {
		verdict_set(verdict, VERDICT_DEAD, "\"to\" is no mail address: %.200s",
			    address ? address : "not a text");
		return false;
	}
	struct curl_slist *longer = curl_slist_append(c->list, address);
	if (!longer) {
		verdict_set(verdict, VERDICT_RETRY, "out of memory");
		return false;
	}
	c->list = longer;
	return true;
}

static bool add_recipients(struct call *c, const json_t *to, struct verdict *verdict)
{
	if (!json_is_array(to))
		return add_recipient(c, to, verdict);
	const size_t n = json_array_size(to);
	if (n == 0 || n > RECIPIENTS_MAX) {
		verdict_set(verdict, VERDICT_DEAD, "\"to\" has %zu addresses: 1 to %d are possible", n, RECIPIENTS_MAX);
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (!add_recipient(c, json_array_get(to, i), verdict))
			return false;
	return true;
}

/* Any text as encoded words: no line break of it can become one of the header. */
static void add_words(struct buffer *mail, const char *text)
{
	size_t left = strlen(text);
	do {
		const size_t len = text_utf8_cut(text, left, WORD_BYTES);
		buffer_puts(mail, "=?UTF-8?B?");
		base64_add(mail, text, len);
		buffer_puts(mail, left > len ? "?=\r\n " : "?=\r\n");
		text += len;
		left -= len;
	} while (left > 0);
}

static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			return false;
	return strlen(text) < 200 && !strstr(text, "=?");
}

static void add_header(struct buffer *mail, const char *name, const char *value)
{
	buffer_printf(mail, "%s: ", name);
	if (is_plain(value))
		buffer_printf(mail, "%s\r\n", value);
	else
		add_words(mail, value);
}

static void add_body(struct buffer *mail, const char *text)
{
	size_t left = strlen(text);
	while (left > 0) {
		const size_t len = left < LINE_BYTES ? left : LINE_BYTES;
		base64_add(mail, text, len);
		buffer_puts(mail, "\r\n");
		text += len;
		left -= len;
	}
}

static void add_date(struct buffer *mail)
{
	/* Not strftime(): its words follow the locale. */
	static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	const time_t now = (time_t)(clock_real_us() / 1000000);
	struct tm t;
	gmtime_r(&now, &t);
	buffer_printf(mail, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[t.tm_wday], t.tm_mday, months[t.tm_mon],
		      t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

struct given {
	struct buffer *mail;
	const char *bad;
};

static void add_given(void *arg, const char *name, const char *value)
{
	static const char *const ours[] = {
		"From", "To", "Subject", "Date", "Message-ID", "Sender", "Bcc", "Received"
	};
	struct given *g = arg;
	bool good = *name && strlen(name) < 64 && strncasecmp(name, "Content-", 8) != 0 &&
		    strncasecmp(name, "MIME-", 5) != 0;
	for (const char *p = name; *p; p++)
		good = good && (unsigned char)*p > ' ' && (unsigned char)*p < 0x7f && *p != ':';
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		good = good && strcasecmp(name, ours[i]) != 0;
	if (good)
		add_header(g->mail, name, value);
	else
		g->bad = "one of its headers is effectd's own, or has a name that no mail header can have";
}

static bool write_mail(struct call *c, const struct target *t, const char *subject, const char *text,
		       struct verdict *verdict)
{
	const char *from = t->config->mail_from, *domain = strrchr(from, '@');
	struct buffer *mail = &c->body;
	struct given given = { .mail = mail };
	struct error err = { 0 };
	buffer_printf(mail, "From: <%s>\r\nTo: ", from);
	for (const struct curl_slist *to = c->list; to; to = to->next)
		buffer_printf(mail, "<%s>%s", to->data, to->next ? ",\r\n " : "\r\n");
	add_header(mail, "Subject", subject);
	add_date(mail);
	buffer_printf(mail, "Message-ID: <%s%s>\r\n", c->row->digest.data, domain ? domain : "@localhost");
	buffer_puts(mail, "Auto-Submitted: auto-generated\r\n");
	if (headers_each(c->row->headers, add_given, &given, &err) != ST_OK || given.bad) {
		verdict_set(verdict, VERDICT_DEAD, "%s", given.bad ? given.bad : err.text);
		return false;
	}
	buffer_puts(mail, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
			  "Content-Transfer-Encoding: base64\r\n\r\n");
	add_body(mail, text);
	if (!mail->failed)
		return true;
	buffer_finish(mail);
	verdict_set(verdict, VERDICT_RETRY, "out of memory");
	return false;
}

static void decref(json_t **value)
{
	json_decref(*value);
}

static bool prepare(struct call *c, const struct target *t, struct verdict *verdict)
{
	CLEANUP(decref) json_t *payload = json_loadb(c->row->body.data, c->row->body.len, 0, NULL);
	const char *subject = json_string_value(json_object_get(payload, "subject"));
	const char *text = json_string_value(json_object_get(payload, "text"));
	if (!subject || !text) {
		verdict_set(verdict, VERDICT_DEAD, "a mail's payload is an object with the texts to, subject and text");
		return false;
	}
	return add_recipients(c, json_object_get(payload, "to"), verdict) && write_mail(c, t, subject, text, verdict) &&
	       curl_easy_setopt(c->easy, CURLOPT_MAIL_RCPT, c->list) == CURLE_OK;
}

/* --- the answer --- */

/* Did the server refuse this very mail, and for good? Refusing everybody (greeting, TLS, login) is no fault of it. */
static bool is_refused(const struct call *c, CURLcode code, long status)
{
	const bool asked = code == CURLE_SEND_ERROR || (code == CURLE_WEIRD_SERVER_REPLY && c->body_sent > 0);
	const bool login = status == 530 || status == 534 || status == 535 || status == 538;
	return asked && status >= 500 && status < 600 && !login;
}

static void judge(const struct call *c, const struct target *t, CURLcode code, struct verdict *verdict)
{
	long status = 0;
	(void)t;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	char answer[ANSWER_SHOWN + 1];
	size_t len = c->answer_len;
	while (len > 0 && (c->answer[len - 1] == '\r' || c->answer[len - 1] == '\n'))
		len--;
	memcpy(answer, c->answer, len);
	answer[len] = '\0';
	if (code == CURLE_OK)
		verdict_set(verdict, VERDICT_SENT, "SMTP %s", answer);
	else if (status >= 400)
		verdict_set(verdict, is_refused(c, code, status) ? VERDICT_DEAD : VERDICT_RETRY, "SMTP %s", answer);
	else
		verdict_set(verdict, VERDICT_RETRY, "no answer: %s", c->error[0] ? c->error : curl_easy_strerror(code));
}

const struct protocol smtp_protocol = { set_up, prepare, judge };

static enum status create(struct driver **ret, struct lane *lane, struct error *err)
{
	return calls_create(ret, lane, &smtp_driver, &smtp_protocol, err);
}

const struct driver_ops smtp_driver = CALLS_OPS(create, 0);

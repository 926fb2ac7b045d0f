/* HTTP: one request a row, its key in Idempotency-Key.
 *
 * 2xx is sent; 408, 425, 429, 5xx and all that is no complete answer is tried again; any other 4xx is dead: the target
 * will never take this request. A redirect is not followed, and tried again: the address is wrong, not the row. */
#include "base/fault.h"
#include "relay/calls.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ANSWER_MAX = 64 * 1024 /* more is not read: the status is all that counts */ };

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct call *c = arg;
	call_keep_answer(c, data, size * n);
	c->answer_bytes += size * n;
	if (c->answer_bytes <= ANSWER_MAX)
		return size * n;
	c->cut = true;
	return 0; /* ends the transfer, and its connection */
}

/* The target has the request: its answer begins. */
static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	(void)FAULT_POINT("outbox_called");
	return size * n;
}

static bool set_up(struct call *c, const struct target *t)
{
	const char *method = t->config->method;
	return curl_easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_POST, 1L) == CURLE_OK &&
	       (strcmp(method, "POST") == 0 || curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK) &&
	       curl_easy_setopt(c->easy, CURLOPT_USERAGENT, "effectd/" EFFECTD_VERSION) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c) == CURLE_OK;
}

/* --- the request --- */

struct headers {
	struct curl_slist *list;
	bool failed;     /* out of memory */
	bool typed;      /* somebody else says what the body is */
	const char *bad; /* a header that cannot be sent */
	char name[100];  /* of it */
};

static void add_line(struct headers *h, const char *line)
{
	struct curl_slist *longer = curl_slist_append(h->list, line);
	if (longer)
		h->list = longer;
	else
		h->failed = true;
}

static void add_header(struct headers *h, const char *name, const char *value)
{
	CLEANUP(buffer_finish) struct buffer line = { 0 };
	h->typed = h->typed || strcasecmp(name, "Content-Type") == 0;
	/* libcurl's word for a header without a value is a semicolon. */
	buffer_printf(&line, *value ? "%s: %s" : "%s;", name, value);
	if (line.failed)
		h->failed = true;
	else
		add_line(h, buffer_text(&line));
}

/* What effectd says itself, or what decides how the request is read: a row must not say it. */
static bool is_ours(const char *name)
{
	static const char *const ours[] = { "Idempotency-Key", "Content-Length", "Transfer-Encoding",
					    "Connection",      "Host",           "Expect",
					    "Upgrade",         "Trailer" };
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return true;
	return false;
}

static bool is_token(const char *name)
{
	return *name &&
	       name[strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] ==
		       '\0';
}

static bool is_value(const char *value)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' ? *p != '\t' : *p == 0x7f)
			return false;
	return true;
}

static void add_given(void *arg, const char *name, const char *value)
{
	struct headers *h = arg;
	const char *bad = !is_token(name)    ? "is no name of a header"
			  : !is_value(value) ? "has a control character"
			  : is_ours(name)    ? "is effectd's own"
					     : NULL;
	if (!bad) {
		add_header(h, name, value);
	} else if (!h->bad) {
		h->bad = bad;
		snprintf(h->name, sizeof(h->name), "%s", name);
	}
}

/* Printable ASCII but for % stays as it is, every other byte becomes %XX: a key is one line, and different keys stay
 * different. */
static void add_key(struct headers *h, struct str key)
{
	CLEANUP(buffer_finish) struct buffer line = { 0 };
	buffer_puts(&line, "Idempotency-Key: ");
	for (size_t i = 0; i < key.len; i++) {
		const unsigned char c = (unsigned char)key.data[i];
		if (c > ' ' && c < 0x7f && c != '%')
			buffer_add(&line, &key.data[i], 1);
		else
			buffer_printf(&line, "%%%02X", c);
	}
	if (line.failed)
		h->failed = true;
	else
		add_line(h, buffer_text(&line));
}

static bool prepare(struct call *c, const struct target *t, struct verdict *verdict)
{
	const struct row *row = c->row;
	const struct config_target *config = t->config;
	struct headers h = { 0 };
	struct error err = { 0 };
	add_key(&h, row->key);
	add_line(&h, "Expect:"); /* no round trip before a large body */
	for (size_t i = 0; i < config->headers.count; i++)
		add_header(&h, config->headers.list[i].name, config->headers.list[i].value);
	if (config->bearer_token) {
		CLEANUP(buffer_finish) struct buffer bearer = { 0 };
		buffer_printf(&bearer, "Bearer %s", config->bearer_token);
		add_header(&h, "Authorization", buffer_text(&bearer));
		h.failed = h.failed || bearer.failed;
	}
	const enum status st = headers_each(row->headers, add_given, &h, &err);
	if (!h.typed)
		add_header(&h, "Content-Type", "application/json");
	c->list = h.list;
	if (st != ST_OK)
		verdict_set(verdict, VERDICT_DEAD, "%s", err.text);
	else if (h.bad)
		verdict_set(verdict, VERDICT_DEAD, "its header %s %s", h.name, h.bad);
	else if (h.failed)
		verdict_set(verdict, VERDICT_RETRY, "out of memory");
	else
		return curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->list) == CURLE_OK &&
		       curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)row->body.len) == CURLE_OK &&
		       curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, row->body.data) == CURLE_OK;
	return false;
}

/* --- the answer --- */

static int kind_of(long status, const struct config_target *config, int64_t attempts)
{
	static const struct {
		const char *word;
		int kind;
	} words[] = { { "sent", VERDICT_SENT }, { "retry", VERDICT_RETRY }, { "dead", VERDICT_DEAD } };
	char name[8];
	snprintf(name, sizeof(name), "%ld", status);
	for (size_t i = 0; i < config->answers.count; i++)
		for (size_t w = 0; strcmp(config->answers.list[i].name, name) == 0 && w < ARRAY_LEN(words); w++)
			if (strcmp(config->answers.list[i].value, words[w].word) == 0)
				return words[w].kind;
	switch (status) {
	case 408: /* it waited too long for us */
	case 425:
	case 429:
		return VERDICT_RETRY;
	case 409: /* to a repeated call: the one before is still in work there */
		return attempts > 1 ? VERDICT_RETRY : VERDICT_DEAD;
	default:
		return status / 100 == 2 ? VERDICT_SENT : status / 100 == 4 ? VERDICT_DEAD : VERDICT_RETRY;
	}
}

static int64_t retry_after_ms(const struct call *c)
{
	curl_off_t seconds = 0;
	if (curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds <= 0)
		return 0;
	return seconds < INT64_MAX / 1000 ? (int64_t)seconds * 1000 : INT64_MAX;
}

static void judge(const struct call *c, const struct target *t, CURLcode code, struct verdict *verdict)
{
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK && !c->cut) {
		verdict_set(verdict, VERDICT_RETRY, "no answer: %s", c->error[0] ? c->error : curl_easy_strerror(code));
		return;
	}
	const int kind = kind_of(status, t->config, c->row->attempts);
	char answer[ANSWER_SHOWN + 1];
	memcpy(answer, c->answer, c->answer_len);
	answer[c->answer_len] = '\0';
	verdict_set(verdict, kind, "HTTP %ld%s%s", status, c->answer_len ? ": " : "", answer);
	if (kind == VERDICT_RETRY)
		verdict->wait_ms = retry_after_ms(c);
}

const struct protocol http_protocol = { set_up, prepare, judge };

static enum status create(struct driver **ret, struct lane *lane, struct error *err)
{
	return calls_create(ret, lane, &http_driver, &http_protocol, err);
}

const struct driver_ops http_driver = CALLS_OPS(create, INT32_MAX);

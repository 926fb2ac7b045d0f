/* Is a target there? As much of a call as nobody notices. */
#include "base/wait.h"
#include "relay/calls.h"
#include <string.h>

enum { ALERT_MS = 300 /* a server that does not want our certificate says so after the handshake of TLS 1.3 */ };

static bool is_ours(CURLcode code)
{
	return code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT;
}

static bool is_refusal(CURLcode code)
{
	return code == CURLE_LOGIN_DENIED || code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_USE_SSL_FAILED;
}

/* The server's own words where it said why. */
static enum status explain(const struct call *c, const struct target *t, CURLcode code, struct error *err)
{
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	char said[ANSWER_SHOWN + 1];
	const bool spoke = status >= 400 && c->answer_len > 0;
	memcpy(said, c->answer, c->answer_len);
	said[c->answer_len] = '\0';
	AUTOFREE char *text = target_mask(t, spoke ? said : c->error[0] ? c->error : curl_easy_strerror(code));
	if (!text)
		return error_oom(err);
	const enum status st = is_ours(code) ? ST_INVALID : is_refusal(code) || spoke ? ST_REFUSED : ST_UNAVAILABLE;
	error_set(err, st, "%s", text);
	err->code = (int)status;
	return st;
}

static bool is_tls(const struct config_target *config)
{
	return strncmp(config->url, "https:", 6) == 0 || strncmp(config->url, "smtps:", 6) == 0;
}

/* The handshake is over for us; is it for the server? Nobody but a mail server speaks unasked, and that one has spoken.
 */
static bool is_dropped(const struct call *c)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	char byte;
	size_t n;
	if (curl_easy_getinfo(c->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD)
		return true;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	return poll(&ready, 1, ALERT_MS) > 0 && curl_easy_recv(c->easy, &byte, sizeof(byte), &n) != CURLE_AGAIN;
}

static enum status probe_by_curl(const struct target *t, struct buffer *fact, struct error *err)
{
	const struct config_target *config = t->config;
	const bool mail = config->type == TARGET_SMTP;
	CLEANUP(call_destroy) struct call c = { 0 };
	if (!call_create(&c, t, mail ? &smtp_protocol : &http_protocol) ||
	    curl_easy_setopt(c.easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
	    curl_easy_setopt(c.easy, CURLOPT_TIMEOUT_MS, (long)config->timeout_ms) != CURLE_OK)
		return error_set(err, ST_INTERNAL, "libcurl refuses an option: is it built without TLS?");
	const CURLcode code = curl_easy_perform(c.easy);
	if (code != CURLE_OK)
		return explain(&c, t, code, err);
	if (is_tls(config) && is_dropped(&c))
		return error_set(err, ST_REFUSED,
				 "it ends the connection after the TLS handshake: does it ask for a "
				 "certificate of ours (tls_cert_file, tls_key_file)?");
	buffer_puts(fact, mail ? "it is there and answers" : "it takes connections");
	if (is_tls(config))
		buffer_puts(fact, config->tls_verify ? ", its certificate is trusted"
						     : ", its certificate is not looked at (tls_verify = no)");
	if (mail && t->password)
		buffer_puts(fact, ", logged in");
	return ST_OK;
}

static void session_destroy(struct amqp_session **s)
{
	amqp_session_destroy(*s);
}

static enum status probe_broker(const struct target *t, struct buffer *fact, struct error *err)
{
	const struct config_target *config = t->config;
	CLEANUP(session_destroy) struct amqp_session *s = NULL;
	struct amqp_params params;
	uint32_t ready = 0;
	target_amqp_params(t, "effectd/check", &params);
	enum status st = amqp_session_open(&s, &params, &wait_alone, err);
	if (st == ST_OK)
		st = *config->exchange ? amqp_session_find_exchange(s, config->exchange, err)
				       : amqp_session_ready(s, config->routing_key, &ready, err);
	if (st != ST_OK)
		return st;
	if (*config->exchange)
		buffer_printf(fact, "logged in, exchange %s is there; whether a queue is bound for %s is not known",
			      config->exchange, *config->routing_key ? config->routing_key : "it");
	else
		buffer_printf(fact, "logged in, queue %s is there", config->routing_key);
	return ST_OK;
}

enum status relay_probe(const struct config_target *config, struct buffer *fact, struct error *err)
{
	CLEANUP(target_finish) struct target t = { 0 };
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return error_set(err, ST_INTERNAL, "libcurl cannot be initialized");
	const enum status st = target_init(&t, config, err);
	if (st != ST_OK)
		return st;
	return config->type == TARGET_AMQP ? probe_broker(&t, fact, err) : probe_by_curl(&t, fact, err);
}

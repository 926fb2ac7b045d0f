#include "relay/target.h"
#include "base/text.h"
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum { HEARTBEAT_S = 30 };

static char *url_part(CURLU *url, CURLUPart part)
{
	char *text = NULL, *copy = NULL;
	if (curl_url_get(url, part, &text, CURLU_URLDECODE) == CURLUE_OK)
		copy = strdup(text);
	curl_free(text);
	return copy;
}

static void url_cleanup(CURLU **url)
{
	curl_url_cleanup(*url);
}

/* AMQP's URL stays whole: rabbitmq-c takes it apart itself. */
static enum status take_url_apart(struct target *t, struct error *err)
{
	CLEANUP(url_cleanup) CURLU *url = curl_url();
	if (!url)
		return error_oom(err);
	const CURLUcode code = curl_url_set(url, CURLUPART_URL, t->config->url, CURLU_NON_SUPPORT_SCHEME);
	if (code != CURLUE_OK)
		return error_set(err, ST_INVALID, "[target:%s] url: %s", t->config->name, curl_url_strerror(code));
	t->user = url_part(url, CURLUPART_USER);
	t->password = t->config->password ? strdup(t->config->password) : url_part(url, CURLUPART_PASSWORD);
	char *bare = NULL;
	if (curl_url_set(url, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
	    curl_url_set(url, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
	    curl_url_get(url, CURLUPART_URL, &bare, 0) == CURLUE_OK)
		t->url = strdup(t->config->type == TARGET_AMQP ? t->config->url : bare);
	curl_free(bare);
	return t->url ? ST_OK : error_oom(err);
}

static bool add_secret(struct target *t, size_t *count, const char *secret)
{
	if (!secret || !*secret)
		return true;
	t->secrets[*count] = strdup(secret);
	return t->secrets[(*count)++];
}

static bool collect_secrets(struct target *t)
{
	const struct config_target *c = t->config;
	size_t count = 0;
	t->secrets = calloc(c->headers.count + 4, sizeof(*t->secrets));
	if (!t->secrets)
		return false;
	bool good = add_secret(t, &count, t->password) && add_secret(t, &count, c->bearer_token);
	for (size_t i = 0; good && i < c->headers.count; i++)
		good = add_secret(t, &count, c->headers.list[i].value);
	if (!good || !t->password)
		return good;
	/* as it goes over the wire */
	CLEANUP(buffer_finish) struct buffer plain = { 0 }, basic = { 0 };
	buffer_printf(&plain, "%s:%s", t->user ? t->user : "", t->password);
	base64_add(&basic, plain.data, plain.len);
	return !basic.failed && add_secret(t, &count, buffer_text(&basic));
}

enum status target_init(struct target *t, const struct config_target *config, struct error *err)
{
	*t = (struct target){ .config = config };
	enum status st = take_url_apart(t, err);
	if (st == ST_OK && !collect_secrets(t))
		st = error_oom(err);
	return st;
}

void target_amqp_params(const struct target *t, const char *name, struct amqp_params *ret)
{
	const struct config_target *config = t->config;
	*ret = (struct amqp_params){
		.url = t->url,
		.password = config->password,
		.heartbeat_s = HEARTBEAT_S,
		.tls_ca_file = config->tls_ca_file,
		.tls_cert_file = config->tls_cert_file,
		.tls_key_file = config->tls_key_file,
		.tls_verify = config->tls_verify,
		.connection_name = name,
	};
}

static void wipe(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void target_finish(struct target *t)
{
	free(t->url);
	free(t->user);
	wipe(t->password);
	for (char **secret = t->secrets; secret && *secret; secret++)
		wipe(*secret);
	free(t->secrets);
	*t = (struct target){ 0 };
}

static size_t secret_at(const struct target *t, const char *text)
{
	size_t longest = 0;
	for (char **secret = t->secrets; *secret; secret++) {
		const size_t len = strlen(*secret);
		if (len > longest && strncmp(text, *secret, len) == 0)
			longest = len;
	}
	return longest;
}

char *target_mask(const struct target *t, const char *text)
{
	CLEANUP(buffer_finish) struct buffer masked = { 0 };
	while (*text) {
		const size_t secret = secret_at(t, text);
		buffer_add(&masked, secret ? "***" : text, secret ? 3 : 1);
		text += secret ? secret : 1;
	}
	const size_t size = 4 * masked.len + 1;
	char *line = masked.failed ? NULL : malloc(size);
	if (line)
		text_escape(line, size, buffer_text(&masked), masked.len);
	return line;
}

void base64_add(struct buffer *out, const void *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;
	for (size_t i = 0; i < len; i += 3) {
		const size_t n = len - i < 3 ? len - i : 3;
		const uint32_t bits =
			(uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
		const char four[] = { digits[bits >> 18], digits[bits >> 12 & 63], n > 1 ? digits[bits >> 6 & 63] : '=',
				      n > 2 ? digits[bits & 63] : '=' };
		buffer_add(out, four, sizeof(four));
	}
}

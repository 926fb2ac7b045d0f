/* One request after another over one connection. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "client/client.h"
#include "management/private.h"
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum {
	ANSWER_TIMEOUT_MS = 10000,     /* a node that is busy with statistics takes its time */
	ANSWER_MAX = 16 * 1024 * 1024, /* a queue's answer lists its consumers */
	PATIENCE_MS = 6000, /* a queue tells of itself every 5 s, and only then the interface knows its policies */
	UNAUTHORIZED = 401,
	FORBIDDEN = 403,
	NOT_FOUND = 404,
};

struct management {
	CURL *easy;
	char *base; /* without user, password and the last slash */
	char *user; /* NULL: none */
	bool plain, too_long;
	struct buffer answer;
	int64_t patient_until_ms;
	char version[32];
	char error[CURL_ERROR_SIZE];
};

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct management *m = arg;
	m->too_long = m->answer.len + size * n > ANSWER_MAX;
	if (m->too_long)
		return 0; /* ends the transfer */
	buffer_add(&m->answer, data, size * n);
	return m->answer.failed ? 0 : size * n;
}

static void free_curl(char **text)
{
	curl_free(*text);
}

static void free_url(CURLU **url)
{
	curl_url_cleanup(*url);
}

static enum status take_url_apart(struct management *m, const struct management_params *p, struct error *err)
{
	CLEANUP(free_url) CURLU *url = curl_url();
	CLEANUP(free_curl) char *user = NULL;
	CLEANUP(free_curl) char *password = NULL;
	CLEANUP(free_curl) char *bare = NULL;
	if (!url)
		return error_oom(err);
	const CURLUcode code = curl_url_set(url, CURLUPART_URL, p->url, 0);
	if (code != CURLUE_OK)
		return error_set(err, ST_INVALID, "%s", curl_url_strerror(code));
	(void)curl_url_get(url, CURLUPART_USER, &user, CURLU_URLDECODE);
	(void)curl_url_get(url, CURLUPART_PASSWORD, &password, CURLU_URLDECODE);
	static const CURLUPart drop[] = { CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT };
	for (size_t i = 0; i < ARRAY_LEN(drop); i++)
		(void)curl_url_set(url, drop[i], NULL, 0);
	if (curl_url_get(url, CURLUPART_URL, &bare, 0) != CURLUE_OK || !(m->base = strdup(bare)))
		return error_oom(err);
	for (size_t len = strlen(m->base); len > 0 && m->base[len - 1] == '/'; len--)
		m->base[len - 1] = '\0';
	m->plain = strncmp(m->base, "http:", 5) == 0;
	/* The broker's password belongs to the broker's user. */
	const char *who = user ? user : p->user, *secret = user ? password : p->password;
	if (who && !(m->user = strdup(who)))
		return error_oom(err);
	if ((who && curl_easy_setopt(m->easy, CURLOPT_USERNAME, who) != CURLE_OK) ||
	    (secret && curl_easy_setopt(m->easy, CURLOPT_PASSWORD, secret) != CURLE_OK))
		return error_oom(err);
	return ST_OK;
}

static bool set_up(struct management *m, const struct management_params *p)
{
	const struct client_tls tls = { p->tls_ca_file, p->tls_cert_file, p->tls_key_file, p->tls_verify };
	bool good = client_set_up(m->easy, m->error, &tls);
#define SET(option, value) good = good && curl_easy_setopt(m->easy, option, value) == CURLE_OK
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_PATH_AS_IS, 1L); /* a queue may be named .. */
	SET(CURLOPT_TIMEOUT_MS, (long)ANSWER_TIMEOUT_MS);
	SET(CURLOPT_USERAGENT, "effectd/" EFFECTD_VERSION);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, m);
#undef SET
	return good;
}

static bool build_url(struct management *m, const char *const *parts, struct buffer *url)
{
	buffer_printf(url, "%s/api", m->base);
	for (; *parts; parts++) {
		char *escaped = curl_easy_escape(m->easy, *parts, (int)strlen(*parts));
		buffer_printf(url, "/%s", escaped ? escaped : "");
		url->failed |= !escaped;
		curl_free(escaped);
	}
	return !url->failed;
}

static enum status judge_transfer(const struct management *m, CURLcode code, struct error *err)
{
	const char *text = m->error[0] ? m->error : curl_easy_strerror(code);
	switch (code) {
	case CURLE_OK:
		return ST_OK;
	case CURLE_OUT_OF_MEMORY:
		return error_oom(err);
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_URL_MALFORMAT:
		return error_set(err, ST_INVALID, "%s: %s", m->base, text);
	default:
		if (m->answer.failed)
			return error_oom(err);
		return error_set(err, ST_UNAVAILABLE, "%s: %s", m->base,
				 m->too_long ? "the answer is larger than anybody wants" : text);
	}
}

static enum status judge_status(const struct management *m, long status, struct error *err)
{
	if (status == 200)
		return ST_OK;
	if (status == UNAUTHORIZED || status == FORBIDDEN)
		error_set(err, ST_REFUSED,
			  "%s: HTTP %ld: %s%s is not let in: is the password right, and has the user the tag "
			  "management (rabbitmqctl set_user_tags)?",
			  m->base, status, m->user ? "user " : "nobody", m->user ? m->user : "");
	else if (status == NOT_FOUND)
		error_set(err, ST_REFUSED, "%s: HTTP 404: there is no such thing", m->base);
	else if (status >= 300 && status < 400)
		return error_set(err, ST_INVALID, "%s: HTTP %ld: it sends us elsewhere; name that place", m->base,
				 status);
	else
		return error_set(err, ST_UNAVAILABLE, "%s: HTTP %ld", m->base, status);
	err->code = (int)status;
	return ST_REFUSED;
}

enum status management_get(struct management *m, const char *const *parts, json_t **ret, struct error *err)
{
	CLEANUP(buffer_finish) struct buffer url = { 0 };
	long status = 0;
	buffer_clear(&m->answer);
	m->too_long = false;
	m->error[0] = '\0';
	if (!build_url(m, parts, &url) || curl_easy_setopt(m->easy, CURLOPT_URL, buffer_text(&url)) != CURLE_OK)
		return error_oom(err);
	enum status st = judge_transfer(m, curl_easy_perform(m->easy), err);
	if (st != ST_OK)
		return st;
	curl_easy_getinfo(m->easy, CURLINFO_RESPONSE_CODE, &status);
	if ((st = judge_status(m, status, err)) != ST_OK)
		return st;
	*ret = json_loadb(buffer_text(&m->answer), m->answer.len, JSON_REJECT_DUPLICATES, NULL);
	return *ret ? ST_OK
		    : error_set(err, ST_INVALID, "%s: what answers there is no management interface of RabbitMQ",
				m->base);
}

static enum status ask_version(struct management *m, struct error *err)
{
	json_t *overview = NULL;
	enum status st = management_get(m, (const char *const[]){ "overview", NULL }, &overview, err);
	if (st == ST_REFUSED && err->code == NOT_FOUND)
		return error_set(err, ST_INVALID,
				 "%s: HTTP 404: what answers there is no management interface of RabbitMQ", m->base);
	if (st != ST_OK)
		return st;
	const char *version = json_string_value(json_object_get(overview, "rabbitmq_version"));
	if (version)
		text_escape(m->version, sizeof(m->version), version, strlen(version));
	else
		st = error_set(err, ST_INVALID, "%s: what answers there is no management interface of RabbitMQ",
			       m->base);
	json_decref(overview);
	return st;
}

enum status management_open(struct management **ret, const struct management_params *params, struct error *err)
{
	struct management *m = calloc(1, sizeof(*m));
	if (!m)
		return error_oom(err);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(m);
		return error_set(err, ST_INTERNAL, "libcurl cannot be initialized");
	}
	m->easy = curl_easy_init();
	m->patient_until_ms = clock_mono_ms() + PATIENCE_MS;
	enum status st = m->easy ? take_url_apart(m, params, err) : error_oom(err);
	if (st == ST_OK && !set_up(m, params))
		st = error_set(err, ST_INTERNAL, "libcurl refuses an option: is it built without TLS?");
	if (st == ST_OK)
		st = ask_version(m, err);
	if (st == ST_OK)
		*ret = m;
	else
		management_close(m);
	return st;
}

void management_close(struct management *m)
{
	if (!m)
		return;
	curl_easy_cleanup(m->easy);
	buffer_finish(&m->answer);
	free(m->base);
	free(m->user);
	free(m);
	curl_global_cleanup();
}

const char *management_version(const struct management *m)
{
	return m->version;
}

bool management_is_plain(const struct management *m)
{
	return m->plain;
}

int64_t management_patient_until_ms(const struct management *m)
{
	return m->patient_until_ms;
}

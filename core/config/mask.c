/* Secrets in what is shown. Where it is not sure what is secret, more is hidden than needed, never less. */
#include "config/private.h"
#include <string.h>

#define MASK "********"

/* Names whose values nobody should read over a shoulder. */
static bool is_secret_name(const char *name, size_t len)
{
	static const char *const words[] = { "password", "passwd",      "passphrase",   "secret",
					     "token",    "credential",  "api_key",      "api-key",
					     "apikey",   "private_key", "authorization" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		const size_t word_len = strlen(words[i]);
		for (size_t at = 0; at + word_len <= len; at++)
			if (strncasecmp(name + at, words[i], word_len) == 0)
				return true;
	}
	return false;
}

/* NAME=VALUE&... behind the ? of a URL. */
static bool mask_query(const char *query, struct buffer *out)
{
	bool masked = false;
	for (const char *at = query; *at;) {
		const size_t len = strcspn(at, "&"), name_len = strcspn(at, "=&");
		const bool secret = name_len < len && is_secret_name(at, name_len);
		buffer_add(out, at, secret ? name_len : len);
		if (secret)
			buffer_puts(out, "=" MASK);
		masked |= secret;
		at += len;
		if (*at)
			buffer_add(out, at++, 1);
	}
	return masked;
}

static bool mask_url(const char *url, struct buffer *out)
{
	const char *scheme = strstr(url, "://"), *begin = scheme ? scheme + 3 : url;
	/* The last @, wherever it is: a password may have / ? or @ that somebody forgot to encode. */
	const char *at = strrchr(begin, '@'), *colon = at ? memchr(begin, ':', (size_t)(at - begin)) : NULL;
	const char *rest = url;
	if (colon) {
		buffer_add(out, url, (size_t)(colon + 1 - url));
		buffer_puts(out, MASK);
		rest = at;
	}
	const size_t len = strcspn(rest, "?");
	buffer_add(out, rest, len);
	const bool masked = rest[len] && mask_query(rest + len, out);
	return masked || colon;
}

/* The end of a conninfo's value: quoted or up to a space, with backslashes. NULL: not closed. */
static const char *skip_value(const char *at)
{
	const bool quoted = *at == '\'';
	for (at += quoted; *at; at++) {
		if (quoted ? *at == '\'' : strchr(" \t\r\n\f\v", *at) != NULL)
			return at + quoted;
		if (*at == '\\' && at[1])
			at++;
	}
	return quoted ? NULL : at;
}

static bool mask_conninfo(const char *conninfo, struct buffer *out)
{
	static const char space[] = " \t\r\n\f\v";
	bool masked = false;
	for (const char *at = conninfo; *at;) {
		const char *name = at + strspn(at, space), *name_end = name + strcspn(name, "= \t\r\n\f\v");
		const char *equals = name_end + strspn(name_end, space);
		if (!*name) {
			buffer_puts(out, at);
			break;
		}
		const char *value = *equals == '=' ? equals + 1 + strspn(equals + 1, space) : NULL;
		const char *end = value ? skip_value(value) : NULL;
		if (!end) { /* libpq would not take it either; what it was meant to be cannot be known */
			buffer_puts(out, MASK);
			return true;
		}
		const bool secret = is_secret_name(name, (size_t)(name_end - name));
		buffer_add(out, at, (size_t)((secret ? value : end) - at));
		if (secret)
			buffer_puts(out, MASK);
		masked |= secret;
		at = end;
	}
	return masked;
}

/* As libpq tells the two forms apart. */
static bool is_url(const char *conninfo)
{
	return strncmp(conninfo, "postgresql://", 13) == 0 || strncmp(conninfo, "postgres://", 11) == 0;
}

bool mask_value(const struct config_key *key, const char *name, const char *value, struct buffer *out)
{
	switch (key->mask) {
	case MASK_URL:
		return mask_url(value, out);
	case MASK_CONNINFO:
		return is_url(value) ? mask_url(value, out) : mask_conninfo(value, out);
	case MASK_SETTINGS:
		if (!is_secret_name(name, strlen(name)))
			break;
		/* fall through */
	case MASK_ALL:
		buffer_puts(out, MASK);
		return true;
	case MASK_NONE:
		break;
	}
	buffer_puts(out, value);
	return false;
}

/* ${VAR} and ${VAR:-default} in values. A variable that is not set is an error, so that a forgotten one is never an
 * empty password or host; a variable whose value could not have been written in the file is one too. */
#include "base/text.h"
#include "config/private.h"
#include <stdio.h>
#include <string.h>

static const char name_first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char name_rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

enum { VARIABLE_BYTES_MAX = 128 }; /* of a name */

static bool fits_a_line(const char *value)
{
	const size_t len = strlen(value);
	if (!text_is_utf8(value, len))
		return false;
	for (size_t i = 0, n; i < len; i += n) {
		n = text_utf8_len(value + i, len - i);
		if (value[i] != '\t' && text_is_control(value + i, n))
			return false;
	}
	return true;
}

/* One ${...} at *at, moved behind it; its value is [*ret, *ret + *ret_len). */
static bool expand_variable(const char **at, const char **ret, size_t *ret_len, char *text, size_t size)
{
	const char *name = *at + 2, *end = strchr(name, '}');
	const size_t name_len = strspn(name, name_rest);
	if (!end) {
		snprintf(text, size, "${ without }: write $${ if that is what is meant");
		return false;
	}
	const char *fallback = strncmp(name + name_len, ":-", 2) == 0 ? name + name_len + 2 : NULL;
	if (name_len == 0 || name_len > VARIABLE_BYTES_MAX || !strchr(name_first, *name) ||
	    (!fallback && name + name_len != end)) {
		snprintf(text, size, "%s} is neither ${VAR} nor ${VAR:-default}; $${ is a literal ${",
			 loader_quote(*at, (size_t)(end - *at)).text);
		return false;
	}
	char variable[VARIABLE_BYTES_MAX + 1];
	memcpy(variable, name, name_len);
	variable[name_len] = '\0';
	const char *value = getenv(variable);
	*at = end + 1;
	if (fallback && (!value || !*value)) {
		*ret = fallback;
		*ret_len = (size_t)(end - fallback);
		return true;
	}
	if (!value) {
		snprintf(text, size, "the environment variable %s is not set", variable);
		return false;
	}
	if (!fits_a_line(value)) {
		snprintf(text, size, "the environment variable %s is not UTF-8, or has control characters", variable);
		return false;
	}
	*ret = value;
	*ret_len = strlen(value);
	return true;
}

bool expand_value(struct loader *l, const char *value, const char **ret, char *text, size_t size)
{
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	for (const char *at = value; *at;) {
		const char *dollar = strstr(at, "${");
		if (!dollar) {
			buffer_puts(&out, at);
			break;
		}
		if (dollar > at && dollar[-1] == '$') { /* $${ */
			buffer_add(&out, at, (size_t)(dollar - at) - 1);
			buffer_puts(&out, "${");
			at = dollar + 2;
			continue;
		}
		const char *piece;
		size_t piece_len;
		buffer_add(&out, at, (size_t)(dollar - at));
		if (!expand_variable(&dollar, &piece, &piece_len, text, size))
			return false;
		buffer_add(&out, piece, piece_len);
		at = dollar;
	}
	if (out.failed)
		l->out_of_memory = true;
	*ret = out.failed ? NULL : loader_copy(l, buffer_text(&out), out.len);
	return true;
}

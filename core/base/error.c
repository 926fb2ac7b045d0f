/* The error record: filled once where the cause is known, wrapped on the way up.
 *
 * Whatever goes in, the text that comes out is one line of valid UTF-8: server messages carry newlines and now and
 * then bytes of another encoding, and the text ends in logs and in a PostgreSQL column that refuses them. */
#include "base/error.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Long enough that nothing of a text that fits is lost before it is cleaned. */
#define RAW_BYTES 2048

/* Takes white space at the ends away and makes a run of it one blank inside, so that a text of several lines reads as
 * a sentence. Returns the new length. */
static size_t join_lines(char *text)
{
	size_t len = 0;

	for (const char *at = text; *at; at++) {
		const bool blank = *at == '\n' || *at == '\r' || *at == '\t' || *at == ' ';

		if (!blank)
			text[len++] = *at;
		else if (len > 0 && text[len - 1] != ' ')
			text[len++] = ' ';
	}
	if (len > 0 && text[len - 1] == ' ')
		len--;
	return len;
}

static void error_put_text(struct error *err, char *raw)
{
	text_escape(err->text, sizeof(err->text), raw, join_lines(raw));
}

enum status error_set(struct error *err, enum status status, const char *fmt, ...)
{
	char raw[RAW_BYTES];
	va_list args;

	if (!err)
		return status;

	va_start(args, fmt); /* the arguments may be err's own text: format before anything is written */
	vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);

	*err = (struct error){ .status = status };
	error_put_text(err, raw);
	return status;
}

enum status error_errno(struct error *err, enum status status, int errnum, const char *fmt, ...)
{
	char what[RAW_BYTES / 2], reason[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);

	error_set(err, status, "%s: %s", what, strerror_r(errnum, reason, sizeof(reason)));
	if (err)
		err->code = errnum;
	return status;
}

enum status error_wrap(struct error *err, const char *fmt, ...)
{
	char raw[RAW_BYTES];
	va_list args;

	if (!err)
		return ST_INTERNAL;

	va_start(args, fmt);
	vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);

	const size_t used = strlen(raw);
	snprintf(raw + used, sizeof(raw) - used, ": %s", err->text);
	error_put_text(err, raw);
	return err->status;
}

enum status error_oom(struct error *err)
{
	return error_set(err, ST_INTERNAL, "out of memory");
}

void error_clear(struct error *err)
{
	*err = (struct error){ .status = ST_OK };
}

/* What PostgreSQL and libpq say, as struct error: SQLSTATE, whether the session is over, and one bounded line of text.
 * Never a failing row: its values are the message's. */
#include "pg/private.h"

#include "base/text.h"
#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 900 };

struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
	bool full;
};

/* Adds words with every run of white space as one blank. */
static void line_add(struct line *line, const char *words)
{
	for (const char *p = words; *p && !line->full; p++) {
		bool blank = strchr(" \t\r\n", *p);
		if (blank && (!line->len || line->text[line->len - 1] == ' '))
			continue;
		if (line->len == sizeof(line->text))
			line->full = true;
		else
			line->text[line->len++] = blank ? ' ' : *p;
	}
	while (line->len && line->text[line->len - 1] == ' ')
		line->len--;
}

static void line_add_field(struct line *line, const PGresult *res, int field, const char *before, const char *behind)
{
	const char *words = PQresultErrorField(res, field);
	if (!words)
		return;
	if (line->len + strlen(before) < sizeof(line->text)) {
		memcpy(line->text + line->len, before, strlen(before));
		line->len += strlen(before);
	}
	line_add(line, words);
	line_add(line, behind);
}

static enum status line_report(const struct line *line, enum status status, const char *what, struct error *err)
{
	char clean[sizeof(line->text) * 4 + 1]; /* an escaped byte takes four */
	size_t len = line->full ? text_utf8_cut(line->text, line->len, line->len - 1) : line->len;
	text_escape(clean, sizeof(clean), line->text, len);
	return error_set(err, status, "%s%s", what, clean);
}

/* "Failing row contains (...)" would carry the message's values into logs. */
static bool detail_shows_row(const char *sqlstate)
{
	static const char *const codes[] = { "23502", "23514", "44000" };
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (!strcmp(sqlstate, codes[i]))
			return true;
	return false;
}

/* What only a pooler that swaps servers under a session can bring about. */
static bool is_pooler_fault(const char *sqlstate)
{
	return !strcmp(sqlstate, "26000") || !strcmp(sqlstate, "42P05");
}

enum status pg_report_result(const PGresult *res, enum status status, struct error *err)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	if (!sqlstate)
		return pg_report_connection(PQresultErrorMessage(res), status, "", err);

	struct line line = { .len = 0 };
	line_add_field(&line, res, PG_DIAG_MESSAGE_PRIMARY, "", "");
	if (!detail_shows_row(sqlstate))
		line_add_field(&line, res, PG_DIAG_MESSAGE_DETAIL, " (", ")");
	line_add_field(&line, res, PG_DIAG_MESSAGE_HINT, "; ", "");
	if (is_pooler_fault(sqlstate))
		line_add(&line, "; a transaction pooler cannot be used: connect directly or through session pooling");
	line_report(&line, status, "", err);
	if (err) {
		const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
		snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", sqlstate);
		err->fatal = severity && (!strcmp(severity, "FATAL") || !strcmp(severity, "PANIC"));
	}
	return status;
}

enum status pg_report_connection(const char *words, enum status status, const char *what, struct error *err)
{
	struct line line = { .len = 0 };
	line_add(&line, words && *words ? words : "no reason given");
	return line_report(&line, status, what, err);
}

/* One line of the log, logfmt or JSON.
 *
 * A line never exceeds its bound, never holds a raw control byte or broken UTF-8, and is whole: what does not fit is
 * cut between characters, quotes and braces are closed, and truncated=true says so. Nothing here allocates. */
#include "base/log_line.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Kept free for the end of a line: a closing quote, `,"truncated":true}` and the newline. */
#define TAIL_BYTES 32
#define BODY_BYTES (LOG_LINE_MAX - TAIL_BYTES)

/* All of it or nothing. */
static bool put(struct log_line *line, const char *piece, size_t len)
{
	if (line->cut || line->len + len > BODY_BYTES) { /* a closing quote may already stand in the tail */
		line->cut = true;
		return false;
	}
	memcpy(line->data + line->len, piece, len);
	line->len += len;
	return true;
}

static bool put_text(struct log_line *line, const char *s)
{
	return put(line, s, strlen(s));
}

/* For the end of a line, where room was kept. */
static void put_tail(struct log_line *line, const char *s)
{
	const size_t len = strlen(s);

	memcpy(line->data + line->len, s, len);
	line->len += len;
}

/* --- what a byte or character becomes --- */

static bool is_quoting(char c)
{
	return c == '"' || c == '\\';
}

static bool put_json_control(struct log_line *line, unsigned int code_point)
{
	static const char letters[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r' };
	char piece[8];

	if (code_point < sizeof(letters) && letters[code_point])
		snprintf(piece, sizeof(piece), "\\%c", letters[code_point]);
	else
		snprintf(piece, sizeof(piece), "\\u%04x", code_point);
	return put_text(line, piece);
}

/* Bytes as \xHH. JSON knows no such escape: there the backslash itself is escaped, so that a reader gets this text. */
static bool put_hex(struct log_line *line, const char *data, size_t len)
{
	char piece[10];
	size_t piece_len = 0;

	for (size_t i = 0; i < len; i++) {
		if (line->format == LOG_JSON)
			piece[piece_len++] = '\\';
		piece_len += text_hex_escape(piece + piece_len, (unsigned char)data[i]);
	}
	return put(line, piece, piece_len);
}

/* One character, or one byte that belongs to none. Returns how much of data was used, 0 when the line is full. */
static size_t put_char(struct log_line *line, const char *data, size_t len)
{
	const size_t n = text_utf8_len(data, len);
	bool done;

	if (n == 0)
		return put_hex(line, data, 1) ? 1 : 0;
	if (is_quoting(*data))
		done = put(line, (const char[]){ '\\', *data }, 2);
	else if (!text_is_control(data, n))
		done = put(line, data, n);
	else if (line->format == LOG_JSON && *data != '\0')                /* many readers refuse \u0000 */
		done = put_json_control(line, (unsigned char)data[n - 1]); /* of two-byte ones, C2 XX is U+00XX */
	else
		done = put_hex(line, data, n);
	return done ? n : 0;
}

/* logfmt values go bare unless a reader could take them for something else. */
static bool needs_quotes(const char *data, size_t len)
{
	for (size_t i = 0; i < len;) {
		const size_t n = text_utf8_len(data + i, len - i);

		if (n == 0 || text_is_control(data + i, n) || is_quoting(data[i]) || data[i] == ' ' || data[i] == '=')
			return true;
		i += n;
	}
	return len == 0;
}

static void put_string(struct log_line *line, const char *data, size_t len)
{
	/* More than the line holds is not worth looking at, and put() will notice that it does not fit. */
	if (len > LOG_LINE_MAX)
		len = LOG_LINE_MAX;

	const bool quoted = line->format == LOG_JSON || needs_quotes(data, len);

	if (quoted && !put_text(line, "\""))
		return;
	for (size_t i = 0, n; i < len; i += n) {
		n = put_char(line, data + i, len - i);
		if (n == 0)
			break;
	}
	if (quoted)
		put_tail(line, "\"");
}

/* --- fields --- */

static void put_number(struct log_line *line, const struct log_field *field)
{
	char number[40];

	if (field->kind == LOG_FIELD_INT)
		snprintf(number, sizeof(number), "%lld", (long long)field->number);
	else if (isfinite(field->real))
		snprintf(number, sizeof(number), "%.15g", field->real);
	else
		snprintf(number, sizeof(number), "null"); /* JSON has no NaN */
	put_text(line, number);
}

static void put_value(struct log_line *line, const struct log_field *field)
{
	switch (field->kind) {
	case LOG_FIELD_STR:
		put_string(line, field->text, strlen(field->text));
		break;
	case LOG_FIELD_BYTES:
		put_string(line, field->text, (size_t)field->number);
		break;
	case LOG_FIELD_INT:
	case LOG_FIELD_REAL:
		put_number(line, field);
		break;
	}
}

/* Field names are ours and need no escapes. */
static bool put_name(struct log_line *line, const char *name)
{
	if (line->format == LOG_JSON)
		return put_text(line, line->len == 1 ? "\"" : ",\"") && put_text(line, name) && put_text(line, "\":");
	return put_text(line, line->len == 0 ? "" : " ") && put_text(line, name) && put_text(line, "=");
}

void log_line_begin(struct log_line *line, enum log_format format)
{
	line->format = format;
	line->cut = false;
	line->len = 0;
	if (format == LOG_JSON)
		put_text(line, "{");
}

void log_line_add(struct log_line *line, const struct log_field *field)
{
	const bool absent = !field->text && (field->kind == LOG_FIELD_STR || field->kind == LOG_FIELD_BYTES);
	const size_t start = line->len;

	if (line->cut || absent)
		return;

	const bool named = put_name(line, field->name);
	const size_t value = line->len;
	if (named)
		put_value(line, field);
	if (line->len == value) /* a name without a value is no field */
		line->len = start;
}

void log_line_end(struct log_line *line)
{
	const bool json = line->format == LOG_JSON;

	if (line->cut)
		put_tail(line, json ? ",\"truncated\":true" : " truncated=true");
	put_tail(line, json ? "}\n" : "\n");
}

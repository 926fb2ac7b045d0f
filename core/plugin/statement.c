/* What can be said of a statement before PostgreSQL sees it: that it is one statement, and of a kind that leaves the
 * transaction alone. Prepare would take a comment followed by COMMIT; the scan below reads comments, strings and names
 * as PostgreSQL's lexer does, so that nothing hides in them. */
#include "base/text.h"
#include "plugin/load.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const first_words[] = { "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES" };

/* Behind a comment, which may be nested; where it never ends, the end of the text. */
static const char *skip_block_comment(const char *p)
{
	unsigned depth = 0;
	do {
		if (p[0] == '/' && p[1] == '*') {
			depth++;
			p += 2;
		} else if (p[0] == '*' && p[1] == '/') {
			depth--;
			p += 2;
		} else if (*p) {
			p++;
		}
	} while (depth > 0 && *p);
	return p;
}

static const char *skip_space(const char *p)
{
	for (;;) {
		if (*p && strchr(" \t\n\r\f\v", *p))
			p++;
		else if (p[0] == '-' && p[1] == '-')
			p += strcspn(p, "\n\r");
		else if (p[0] == '/' && p[1] == '*')
			p = skip_block_comment(p);
		else
			return p;
	}
}

/* Behind a quoted string or name; a doubled quote is one of its characters, and behind E'...' a backslash escapes. */
static const char *skip_quoted(const char *p, bool backslash)
{
	const char quote = *p++;
	while (*p) {
		if (backslash && p[0] == '\\' && p[1])
			p += 2;
		else if (p[0] == quote && p[1] == quote)
			p += 2;
		else if (*p++ == quote)
			break;
	}
	return p;
}

static bool begins_name(char c)
{
	return isalpha((unsigned char)c) || c == '_' || (c & 0x80);
}

static const char *skip_name(const char *p)
{
	while (begins_name(*p) || isdigit((unsigned char)*p) || *p == '$')
		p++;
	return p;
}

/* Behind $tag$ ... $tag$, or behind the dollar where it begins no such string ($1). */
static const char *skip_dollar(const char *p)
{
	const char *tag_end = p + 1;
	if (begins_name(*tag_end))
		while (begins_name(*tag_end) || isdigit((unsigned char)*tag_end))
			tag_end++;
	if (*tag_end != '$')
		return p + 1;
	const size_t tag_len = (size_t)(tag_end + 1 - p);
	for (const char *end = tag_end + 1; (end = strchr(end, '$')); end++)
		if (strncmp(end, p, tag_len) == 0)
			return end + tag_len;
	return p + strlen(p);
}

/* Behind the first token. */
static const char *skip_token(const char *p)
{
	if (*p == '\'' || *p == '"')
		return skip_quoted(p, false);
	if (*p == '$')
		return skip_dollar(p);
	if (!begins_name(*p))
		return p + 1;
	const char *end = skip_name(p);
	const bool escapes = end == p + 1 && (*p == 'E' || *p == 'e') && *end == '\'';
	return escapes ? skip_quoted(end, true) : end;
}

static bool has_second_statement(const char *sql)
{
	bool over = false;
	for (const char *p = skip_space(sql); *p; p = skip_space(p)) {
		if (*p == ';')
			over = true;
		else if (over)
			return true;
		p = skip_token(p);
	}
	return false;
}

enum status plugin_check_statement(const struct effectd_statement *statement, struct error *err)
{
	const char *name = statement->name;
	if (!name || !text_is_name(name))
		return error_set(
			err, ST_INVALID,
			"a statement has no proper name: small letters, digits, _ and -, at most 63, a letter first");
	if (statement->rows > EFFECTD_NEWER)
		return error_set(err, ST_INVALID, "statement %s expects rows of kind %u, which does not exist", name,
				 statement->rows);
	if (statement->otherwise > EFFECTD_OTHERWISE_RETRY)
		return error_set(err, ST_INVALID, "statement %s has an otherwise of kind %u, which does not exist",
				 name, statement->otherwise);
	if (!statement->sql)
		return error_set(err, ST_INVALID, "statement %s has no SQL", name);

	const char *word = skip_space(statement->sql);
	while (*word == '(')
		word = skip_space(word + 1);
	const size_t len = (size_t)(skip_name(word) - word);
	bool allowed = false;
	for (size_t i = 0; i < ARRAY_LEN(first_words); i++)
		allowed |= strlen(first_words[i]) == len && strncasecmp(first_words[i], word, len) == 0;
	if (!allowed)
		return error_set(
			err, ST_INVALID,
			"statement %s begins with \"%.*s\": the transaction is effectd's, only SELECT, INSERT, UPDATE, "
			"DELETE, MERGE, WITH and VALUES are allowed",
			name, (int)(len < 40 ? len : 40), word);
	if (has_second_statement(statement->sql))
		return error_set(err, ST_INVALID,
				 "statement %s holds more than one SQL statement: declare each of them by itself",
				 name);
	return ST_OK;
}

/* A line reader in front of inih.
 *
 * inih as distributions build it cuts lines at 200 bytes and section names at 49, takes ` ;` inside a value for a
 * comment, appends indented lines to the value before, and says no line number. So it is never given what a person
 * wrote: lines are counted, checked and taken apart here, and inih gets each setting with a dash for its value and each
 * section with a dash for its name. Nothing is ever cut, whatever limits an inih was compiled with. */
#include "base/text.h"
#include "config/private.h"
#include <ini.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES_MAX = 128 }; /* with "=-" behind it well below inih's 200 */

struct reader {
	struct loader *loader;
	char *next, *end; /* of the text */
	struct config_place place;
	struct section *section; /* NULL: before the first, or in one that does not exist */
	bool in_section;         /* a header was read, good or bad */
	const char *value;       /* of the line that inih has */
	struct include *include;
};

static void problem(struct reader *r, const char *text)
{
	loader_problem(r->loader, r->place, r->section ? r->section->title : NULL, NULL, "%s", text);
}

static char *trim_end(char *begin, char *end)
{
	while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return end;
}

/* UTF-8, and no control characters but tabs: they would be invisible in an editor, and in the message about them. */
static bool check_bytes(struct reader *r, const char *line, size_t len)
{
	for (size_t i = 0; i < len;) {
		const size_t n = text_utf8_len(line + i, len - i);
		if (n > 0 && (line[i] == '\t' || !text_is_control(line + i, n))) {
			i += n;
			continue;
		}
		const char *what = n == 0            ? "is not UTF-8"
				   : line[i] == '\0' ? "is a NUL byte"
						     : "is a control character";
		loader_problem(r->loader, r->place, r->section ? r->section->title : NULL, NULL,
			       "byte %zu of the line, 0x%02x, %s", i + 1, (unsigned)(unsigned char)line[i], what);
		return false;
	}
	return true;
}

static bool check_key(struct reader *r, const char *key, size_t len)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@-{}";
	if (len == 0)
		problem(r, "there is no key before =");
	else if (len > KEY_BYTES_MAX)
		loader_problem(r->loader, r->place, r->section ? r->section->title : NULL, NULL,
			       "the key %s is %zu bytes long: at most %d", loader_quote(key, len).text, len,
			       KEY_BYTES_MAX);
	else if (strspn(key, allowed) != len)
		loader_problem(r->loader, r->place, r->section ? r->section->title : NULL, NULL,
			       "the key %s has other characters than letters, digits and _ . @ - { }",
			       loader_quote(key, len).text);
	else
		return true;
	return false;
}

/* [TITLE]; leaves what inih gets in out. */
static void read_header(struct reader *r, char *line, char *end)
{
	r->section = NULL;
	r->in_section = true;
	if (end - line < 2 || end[-1] != ']') {
		problem(r, strchr(line, ']') ? "there is something behind ]: a comment needs a line of its own"
					     : "the section's ] is missing");
		return;
	}
	r->section = section_begin(r->loader, r->place, line + 1, (size_t)(end - line) - 2);
}

/* KEY = VALUE; false: reported. */
static bool read_setting(struct reader *r, char *line, char *end, char *out, size_t size)
{
	char *equals = memchr(line, '=', (size_t)(end - line));
	if (!equals) {
		loader_problem(
			r->loader, r->place, r->section ? r->section->title : NULL, NULL,
			"%s is neither KEY = VALUE nor [SECTION] nor a comment (# or ; at the start of the line)",
			loader_quote(line, (size_t)(end - line)).text);
		return false;
	}
	const char *key_end = trim_end(line, equals);
	if (!check_key(r, line, (size_t)(key_end - line)))
		return false;
	r->value = equals + 1 + strspn(equals + 1, " \t");
	snprintf(out, size, "%s=-", line);
	return true;
}

/* One line, without its end, NUL behind it. What inih gets is left in out: empty for what it need not see. */
static void read_line(struct reader *r, char *line, char *end, char *out, size_t size)
{
	*out = '\0';
	if (!check_bytes(r, line, (size_t)(end - line)) || *line == '#' || *line == ';')
		return;
	end = trim_end(line, end);
	if (line == end)
		return;
	if (*line == ' ' || *line == '\t') {
		problem(r, "the line begins with a space: a value stands on one line (KEY_file takes a long one)");
		return;
	}
	if (*line == '[') {
		read_header(r, line, end);
		snprintf(out, size, "[-]");
	} else {
		read_setting(r, line, end, out, size);
	}
}

/* What ini_parse_stream() reads with, in place of fgets(). */
static char *next_line(char *out, int size, void *arg)
{
	struct reader *r = arg;
	if (r->next >= r->end || r->loader->out_of_memory)
		return NULL;
	char *line = r->next, *newline = memchr(line, '\n', (size_t)(r->end - line));
	char *end = newline ? newline : r->end;
	r->next = newline ? newline + 1 : r->end;
	r->place.line++;
	if (end > line && end[-1] == '\r')
		end--;
	*end = '\0';
	read_line(r, line, end, out, (size_t)size);
	return out;
}

/* What inih found in the line that the reader gave it last. */
static int take_setting(void *arg, const char *section, const char *key, const char *dash)
{
	(void)section;
	(void)dash;
	struct reader *r = arg;
	if (!r->in_section) {
		loader_problem(r->loader, r->place, NULL, key, "stands before the first [section]");
	} else if (r->section) {
		section_set(r->loader, r->section, r->place, key, r->value);
		struct setting *include = section_find(r->section, "include");
		if (include && include->key->type == KEY_INCLUDE && include->place.file == r->place.file)
			*r->include = (struct include){ include->value, include->place };
	}
	return 1;
}

void reader_read(struct loader *l, const char *file, char *text, size_t size, struct include *ret_include)
{
	*ret_include = (struct include){ 0 };
	struct reader r = {
		.loader = l,
		.next = text,
		.end = text + size,
		.place = { file, 0 },
		.include = ret_include,
	};
	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark, as some editors leave it */
		r.next += 3;
	/* An answer but 0 would mean that inih did not understand what we made for it. */
	if (ini_parse_stream(next_line, &r, take_setting, &r) != 0 && !l->out_of_memory)
		loader_problem(l, (struct config_place){ file, 0 }, NULL, NULL,
			       "the INI library did not accept the file");
}

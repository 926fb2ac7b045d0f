/* Questions about text. None of them allocates, none depends on the locale, none reads a byte past its length. */
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- UTF-8 --- */

/* Second bytes are where overlong forms, surrogates and values past U+10FFFF show; the others are always 80..BF. */
static const struct utf8_form {
	unsigned char lead_min, lead_max, second_min, second_max, len;
} utf8_forms[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

size_t text_utf8_len(const char *data, size_t len)
{
	const unsigned char *at = (const unsigned char *)data;

	if (len == 0)
		return 0;
	if (at[0] < 0x80)
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(utf8_forms); i++) {
		const struct utf8_form *form = &utf8_forms[i];

		if (at[0] < form->lead_min || at[0] > form->lead_max)
			continue;
		if (len < form->len || at[1] < form->second_min || at[1] > form->second_max)
			return 0;
		for (size_t j = 2; j < form->len; j++) {
			if (!is_continuation(at[j]))
				return 0;
		}
		return form->len;
	}
	return 0;
}

bool text_is_utf8(const char *data, size_t len)
{
	size_t i = 0;

	while (i < len) {
		uint64_t word;

		/* Most keys and bodies are ASCII: eight bytes at a time while no high bit is set. */
		while (len - i >= sizeof(word)) {
			memcpy(&word, data + i, sizeof(word));
			if (word & UINT64_C(0x8080808080808080))
				break;
			i += sizeof(word);
		}
		if (i == len)
			return true;

		const size_t n = text_utf8_len(data + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t text_utf8_cut(const char *data, size_t len, size_t max)
{
	const size_t end = len < max ? len : max;

	/* Only the last character can be in pieces, and its first byte is among the last three. */
	for (size_t back = 1; back <= 3 && back <= end; back++) {
		const unsigned char lead = (unsigned char)data[end - back];

		if (is_continuation(lead))
			continue;
		const size_t whole = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
		return whole > back ? end - back : end;
	}
	return end;
}

bool text_is_control(const char *data, size_t char_len)
{
	const unsigned char c = (unsigned char)data[0];

	/* C1 controls too (two bytes): a terminal obeys them like ESC sequences. */
	return char_len == 1 ? c < 0x20 || c == 0x7f : char_len == 2 && c == 0xc2 && (unsigned char)data[1] < 0xa0;
}

size_t text_hex_escape(char dst[4], unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	dst[0] = '\\';
	dst[1] = 'x';
	dst[2] = digits[c >> 4];
	dst[3] = digits[c & 0xf];
	return 4;
}

size_t text_escape(char *dst, size_t dst_size, const char *data, size_t len)
{
	size_t used = 0;

	if (dst_size == 0)
		return 0;
	for (size_t i = 0; i < len;) {
		const size_t n = text_utf8_len(data + i, len - i);
		char piece[8];
		size_t piece_len = 0;

		if (n > 0 && !text_is_control(data + i, n)) {
			memcpy(piece, data + i, n);
			piece_len = n;
		} else {
			for (size_t j = 0; j < (n ? n : 1); j++)
				piece_len += text_hex_escape(piece + piece_len, (unsigned char)data[i + j]);
		}
		if (piece_len >= dst_size - used)
			break;
		memcpy(dst + used, piece, piece_len);
		used += piece_len;
		i += n ? n : 1;
	}
	dst[used] = '\0';
	return used;
}

/* --- numbers --- */

/* Digits at *s, moved past them; false when there are none or they do not fit. */
static bool parse_digits(const char **s, uint64_t max, uint64_t *ret)
{
	const char *at = *s;
	uint64_t n = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		const uint64_t digit = (uint64_t)(*at - '0');

		if (n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*s = at;
	*ret = n;
	return true;
}

bool text_parse_int(const char *s, int64_t *ret)
{
	const bool negative = *s == '-';
	uint64_t n;

	s += negative;
	if (!parse_digits(&s, (uint64_t)INT64_MAX + negative, &n) || *s)
		return false;
	*ret = negative ? (int64_t)(0 - n) : (int64_t)n;
	return true;
}

bool text_parse_bool(const char *s, bool *ret)
{
	const bool yes = strcmp(s, "yes") == 0;

	if (!yes && strcmp(s, "no") != 0)
		return false;
	*ret = yes;
	return true;
}

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit duration_units[] = {
	{ "ms", 1 }, { "s", 1000 }, { "min", 60 * 1000 }, { "h", 60 * 60 * 1000 }, { "d", 24 * 60 * 60 * 1000 },
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "KiB", INT64_C(1) << 10 },
	{ "MiB", INT64_C(1) << 20 },
	{ "GiB", INT64_C(1) << 30 },
};

static bool parse_quantity(const char *s, const struct unit *units, size_t count, int64_t *ret)
{
	uint64_t n;

	if (!parse_digits(&s, INT64_MAX, &n))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(s, units[i].name) == 0)
			return !__builtin_mul_overflow((int64_t)n, units[i].factor, ret);
	}
	return false;
}

bool text_parse_duration(const char *s, int64_t *ret_ms)
{
	if (strcmp(s, "0") == 0) { /* nothing needs no unit */
		*ret_ms = 0;
		return true;
	}
	return parse_quantity(s, duration_units, ARRAY_LEN(duration_units), ret_ms);
}

bool text_parse_size(const char *s, int64_t *ret_bytes)
{
	return parse_quantity(s, size_units, ARRAY_LEN(size_units), ret_bytes);
}

static void format_quantity(int64_t number, const struct unit *units, size_t count, char *text, size_t size)
{
	size_t i = count - 1;
	while (i > 0 && (number == 0 || number % units[i].factor != 0))
		i--;
	snprintf(text, size, "%" PRId64 "%s", number / units[i].factor, units[i].name);
}

void text_format_duration(int64_t ms, char *text, size_t size)
{
	if (ms == 0)
		snprintf(text, size, "0");
	else
		format_quantity(ms, duration_units, ARRAY_LEN(duration_units), text, size);
}

void text_format_size(int64_t bytes, char *text, size_t size)
{
	format_quantity(bytes, size_units, ARRAY_LEN(size_units), text, size);
}

/* --- names --- */

bool text_is_name(const char *s)
{
	const size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return s[len] == '\0' && len >= 1 && len <= 63 && s[0] >= 'a' && s[0] <= 'z';
}

#define NEAREST_MAX 64 /* bytes; longer words are no key or option of ours */

static char ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Insertions, deletions, replacements and swaps of neighbours, each at cost 1 and no place touched twice (optimal
 * string alignment): what fingers do wrong. Case is no difference. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NEAREST_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			const char x = ascii_lower(a[i - 1]), y = ascii_lower(b[j - 1]);
			size_t best = above[j - 1] + (x != y);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && x == ascii_lower(b[j - 2]) && ascii_lower(a[i - 2]) == y &&
			    above2[j - 2] + 1 < best)
				best = above2[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[a_len % 3][b_len];
}

const char *text_nearest(const char *s, const char *const *words)
{
	const size_t len = strnlen(s, NEAREST_MAX + 1);
	const char *nearest = NULL;
	size_t nearest_distance = SIZE_MAX;

	if (len > NEAREST_MAX)
		return NULL;
	for (; *words; words++) {
		const size_t word_len = strnlen(*words, NEAREST_MAX + 1);

		if (word_len > NEAREST_MAX)
			continue;

		/* One slip in three letters, three at most: beyond that a suggestion misleads more than it helps. */
		const size_t longer = len > word_len ? len : word_len;
		const size_t allowed = longer / 3 < 3 ? longer / 3 : 3;
		const size_t distance = edit_distance(s, len, *words, word_len);

		if (distance <= allowed && distance < nearest_distance) {
			nearest = *words;
			nearest_distance = distance;
		}
	}
	return nearest;
}

void text_enumerate(const char *const *words, char *text, size_t size)
{
	size_t used = 0;
	*text = '\0';
	for (size_t i = 0; words[i] && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 i == 0         ? ""
					 : words[i + 1] ? ", "
							: " or ",
					 words[i]);
}

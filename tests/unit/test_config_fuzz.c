/* Whatever bytes a file has, reading it ends with a configuration or with problems that have a place; the sanitizer
 * build sees the rest. The seed is fixed: what fails once fails again. */
#include "config_fixture.h"

enum { ROUNDS = 3000, CHANGES_MAX = 8, GROWTH = 512 };

static uint64_t random_state = 20240607;

static size_t pick(size_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (size_t)(random_state >> 33) % n;
}

static const char *const pieces[] = {
	"\n",
	"\r\n",
	"[",
	"]",
	"=",
	" = ",
	"${",
	"}",
	":-",
	"$${",
	"\xff",
	"\xc3",
	"\xef\xbb\xbf",
	";",
	"#",
	"\t",
	" ",
	"[consumer:",
	"[effectd]\n",
	"plugin.",
	"_file",
	"include = ",
	"*",
	"effectd.ini",
	"-1",
	"9999999999999999999",
	"ms",
	"GiB",
	"never",
	"%s%n",
	"[broker:main]\nurl = amqp://a:b@c/\n",
	"password_file = /dev/null\n",
	"workers = 64\n",
};

/* One change of text; returns its new length. */
static size_t change(char *text, size_t len, size_t room)
{
	const size_t at = pick(len + 1);
	const char *piece = pieces[pick(ARRAY_LEN(pieces))];
	size_t n;
	switch (pick(5)) {
	case 0: /* another byte */
		if (at < len)
			text[at] = (char)pick(256);
		return len;
	case 1: /* cut out */
		n = pick(len - at + 1);
		n = n > 40 ? 40 : n;
		memmove(text + at, text + at + n, len - at - n);
		return len - n;
	case 2: /* cut off */
		return pick(8) == 0 ? at : len;
	case 3: /* twice */
		n = pick(len - at + 1);
		n = n > 60 ? 60 : n;
		if (len + n > room)
			return len;
		memmove(text + at + n, text + at, len - at);
		return len + n;
	default: /* something that means something */
		n = strlen(piece);
		if (len + n > room)
			return len;
		memmove(text + at + n, text + at, len - at);
		memcpy(text + at, piece, n);
		return len + n;
	}
}

static void a_damaged_file_is_read_or_refused(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer sample = { 0 };
	config_default(&sample);
	buffer_puts(&sample,
		    "[consumer:second]\nplugin = x.so\nqueue = y\nplugin.sql = SELECT ${HOME:-x}\nworkers = 2\n");
	const size_t room = sample.len + GROWTH;
	AUTOFREE char *text = malloc(room);
	assert_non_null(text);
	size_t good = 0, bad = 0;
	for (int round = 0; round < ROUNDS; round++) {
		/* A part of the sample, so that what changes is not mostly comments. */
		const size_t begin = round % 2 ? pick(sample.len) : 0;
		size_t len = sample.len - begin;
		memcpy(text, sample.data + begin, len);
		for (size_t n = pick(CHANGES_MAX) + 1; n > 0; n--)
			len = change(text, len, room);
		write_bytes("effectd.ini", text, len);
		if (load("effectd.ini") == ST_OK) {
			CLEANUP(buffer_finish) struct buffer shown = { 0 };
			config_show(loaded, &shown);
			config_show_json(loaded, &shown);
			good++;
		} else {
			bad++;
			for (const char *at = buffer_text(&problems); *at; at = strchr(at, '\n') + 1)
				assert_memory_equal(at, "effectd.ini:", strlen("effectd.ini:"));
		}
	}
	/* Both ways were taken often: else the changes are too wild or too tame to show anything. */
	assert_true(good > ROUNDS / 100 && bad > ROUNDS / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(a_damaged_file_is_read_or_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

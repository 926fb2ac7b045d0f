/* effectd plugin new: a small project that builds, passes its test and runs as it is. Nothing that exists is touched.
 */
#include "cli/cmd_plugin.h"
#include "cli/embedded.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES_MAX = 40 };

static const char example[] = "example"; /* what the project is called in the skeleton */

enum { C, CXX, RUST, SQL };
const char *const plugin_languages[] = { [C] = "c", [CXX] = "c++", [RUST] = "rust", [SQL] = "sql", NULL };

static const struct language {
	const char *parts[3];
	const char *next; /* what to do then, in the project */
} languages[] = {
	[C] = { { "all", "built", "c" }, "meson setup build && meson test -C build" },
	[CXX] = { { "all", "built", "cxx" }, "meson setup build && meson test -C build" },
	[RUST] = { { "all", "built", "rust" }, "./build.sh" },
	[SQL] = { { "all", "sql" }, "./test.py" },
};

/* name was checked: it is one of plugin_languages. NULL: C. */
static const struct language *find_language(const char *name)
{
	size_t i = C;
	while (name && strcmp(plugin_languages[i], name) != 0)
		i++;
	return &languages[i];
}

static bool has_part(const struct language *language, const char *part)
{
	for (size_t i = 0; i < ARRAY_LEN(language->parts); i++)
		if (language->parts[i] && strcmp(language->parts[i], part) == 0)
			return true;
	return false;
}

/* A consumer's name that is also one in C, in Rust and of a table. */
static bool is_plain_name(const char *s)
{
	const size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return s[0] >= 'a' && s[0] <= 'z' && !s[len] && len <= NAME_BYTES_MAX;
}

/* text with the project's name in it. */
static void add_named(struct buffer *out, const char *text, const char *name)
{
	for (const char *at; (at = strstr(text, example)); text = at + strlen(example)) {
		buffer_add(out, text, (size_t)(at - text));
		buffer_puts(out, name);
	}
	buffer_puts(out, text);
}

static bool write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		const ssize_t n = write(fd, data, len);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return true;
}

/* Makes the folder that path lies in, one level below the project at most. */
static bool make_folder(const char *path)
{
	AUTOFREE char *folder = strdup(path);
	if (!folder)
		return false;
	*strrchr(folder, '/') = '\0';
	return mkdir(folder, 0777) == 0 || errno == EEXIST;
}

static bool write_file(const char *path, const struct embedded_file *file, const char *name)
{
	CLEANUP(buffer_finish) struct buffer text = { 0 };
	add_named(&text, file->text, name);
	const int fd =
		text.failed ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->executable ? 0777 : 0666);
	if (fd < 0)
		return false;
	const bool written = write_all(fd, buffer_text(&text), text.len);
	return close(fd) == 0 && written;
}

static int write_project(struct cli *cli, const struct language *language, const char *name)
{
	struct buffer out = { 0 };
	if (mkdir(name, 0777) < 0) {
		cli_message(cli, "%s: %m", name);
		return EXIT_FAILED;
	}
	for (const struct embedded_file *file = skeleton_files; file->part; file++) {
		CLEANUP(buffer_finish) struct buffer path = { 0 };
		if (!has_part(language, file->part))
			continue;
		buffer_printf(&path, "%s/", name);
		add_named(&path, file->path, name);
		if (path.failed || !make_folder(buffer_text(&path)) || !write_file(buffer_text(&path), file, name)) {
			cli_message(cli, "%s: %m", buffer_text(&path));
			buffer_finish(&out);
			return EXIT_FAILED;
		}
		buffer_printf(&out, "%s\n", buffer_text(&path));
	}
	const int rc = cli_print(cli, &out);
	cli_message(cli, "next: cd %s && %s", name, language->next);
	cli_message(cli, "with EFFECTD_TEST_DATABASE='dbname=SCRATCH' its test applies the samples to that database; "
			 "without, it only looks at the section");
	return rc;
}

int plugin_new(struct cli *cli, int argc, char **argv)
{
	const struct language *language = find_language(cli_option_value(cli, "lang", 0));
	if (argc != 1)
		return cli_usage_error(cli, "new takes one name: the plugin's, which becomes a folder here");
	if (!is_plain_name(argv[0]))
		return cli_usage_error(cli,
				       "the name %s cannot be a consumer, a table and a C function alike: small "
				       "letters, digits and _, a letter first, at most %d",
				       argv[0], NAME_BYTES_MAX);
	return write_project(cli, language, argv[0]);
}

/* Files, and the order in which they are read: a file first, then what it includes, so that a drop-in always wins over
 * the file that names it. No file is read twice, which also ends every circle of includes. */
#include "config/private.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static enum status check_kind(const struct stat *st, size_t max, enum file_rule rule, struct error *err)
{
	if (S_ISDIR(st->st_mode))
		return error_set(err, ST_INVALID, "is a directory");
	if (!S_ISREG(st->st_mode))
		return error_set(err, ST_INVALID, "is not a regular file");
	if (rule == FILE_SECRET && (st->st_mode & 077))
		return error_set(err, ST_INVALID, "has mode %04o: others could read it, chmod 0600 it",
				 (unsigned)(st->st_mode & 07777));
	if (st->st_size > (off_t)max)
		return error_set(err, ST_INVALID, "has more than %zu bytes", max);
	return ST_OK;
}

enum status file_read(const char *path, size_t max, enum file_rule rule, struct file_content *ret, struct error *err)
{
	/* not blocking: a pipe of that name would wait for a writer */
	CLEANUP(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, ST_INVALID, errno, "cannot be read");
	enum status status = check_kind(&st, max, rule, err);
	if (status != ST_OK)
		return status;
	/* One byte more than it should have: a file that grows meanwhile is not cut. */
	const size_t size = (size_t)st.st_size + 1;
	AUTOFREE char *data = malloc(size + 1);
	if (!data)
		return error_oom(err);
	size_t used = 0;
	while (used < size) {
		const ssize_t n = read(fd, data + used, size - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, ST_INVALID, errno, "cannot be read");
		if (n == 0)
			break;
		used += (size_t)n;
	}
	if (used == size)
		return error_set(err, ST_INVALID, "grew while it was read");
	data[used] = '\0';
	*ret = (struct file_content){ data, used, st.st_dev, st.st_ino };
	data = NULL;
	return ST_OK;
}

const char *file_resolve(struct loader *l, const char *file, const char *path)
{
	const char *slash = file ? strrchr(file, '/') : NULL;
	if (*path == '/' || !slash)
		return path;
	const size_t folder = (size_t)(slash - file) + 1, len = strlen(path);
	char *full = loader_alloc(l, folder + len + 1);
	if (full) {
		memcpy(full, file, folder);
		memcpy(full + folder, path, len + 1);
	}
	return full;
}

static void read_file(struct loader *l, const char *path, struct config_place place, int depth);

static bool is_pattern(const char *path)
{
	return strpbrk(path, "*?[") != NULL;
}

/* Only `pattern` may have wildcards, not the folder of the file that it stands in. */
static char *quote_folder(const char *file, const char *pattern)
{
	const char *slash = strrchr(file, '/');
	const size_t folder = *pattern == '/' || !slash ? 0 : (size_t)(slash - file) + 1;
	char *quoted = malloc(2 * folder + strlen(pattern) + 1), *at = quoted;
	if (!quoted)
		return NULL;
	for (size_t i = 0; i < folder; i++) {
		if (strchr("*?[\\", file[i]))
			*at++ = '\\';
		*at++ = file[i];
	}
	strcpy(at, pattern);
	return quoted;
}

static int glob_failed(const char *path, int errnum)
{
	(void)path;
	/* A folder that is not there matches nothing; one that cannot be read may hide files. */
	return errnum != ENOENT && errnum != ENOTDIR;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_pattern(struct loader *l, const struct include *include, int depth)
{
	AUTOFREE char *pattern = quote_folder(include->place.file, include->pattern);
	if (!pattern) {
		l->out_of_memory = true;
		return;
	}
	CLEANUP(globfree) glob_t found = { 0 };
	const int rc = glob(pattern, GLOB_NOSORT, glob_failed, &found);
	if (rc == GLOB_NOSPACE)
		l->out_of_memory = true;
	else if (rc == GLOB_ABORTED)
		loader_problem(l, include->place, "effectd", "include", "the folder of %s cannot be read: %s",
			       include->pattern, strerror(errno));
	if (rc != 0)
		return;
	qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), compare_paths); /* glob sorts by locale */
	for (size_t i = 0; i < found.gl_pathc && !l->out_of_memory; i++)
		read_file(l, found.gl_pathv[i], include->place, depth);
}

static void read_include(struct loader *l, const struct include *include, int depth)
{
	if (!include->pattern)
		return;
	if (depth > DEPTH_MAX) {
		loader_problem(l, include->place, "effectd", "include", "includes are nested more than %d deep",
			       DEPTH_MAX);
	} else if (is_pattern(include->pattern)) {
		read_pattern(l, include, depth);
	} else {
		const char *path = file_resolve(l, include->place.file, include->pattern);
		if (path)
			read_file(l, path, include->place, depth);
	}
}

/* False: it must not be read (again), and that was said. */
static bool remember_file(struct loader *l, const char *path, const struct file_content *content,
			  struct config_place place)
{
	struct config_private *p = l->private;
	for (size_t i = 0; i < p->file_count; i++) {
		if (l->identities[i].device == content->device && l->identities[i].inode == content->inode) {
			loader_problem(l, place, "effectd", "include", "%s was read before", path);
			return false;
		}
	}
	if (p->file_count == FILES_MAX) {
		loader_problem(l, place, "effectd", "include", "more than %d files", FILES_MAX);
		return false;
	}
	l->identities[p->file_count].device = content->device;
	l->identities[p->file_count].inode = content->inode;
	p->files[p->file_count++] = path;
	return true;
}

/* place: of the include; file NULL: the main file. */
static void read_file(struct loader *l, const char *path, struct config_place place, int depth)
{
	struct error err = { 0 };
	struct file_content content = { 0 };
	path = loader_copy(l, path, strlen(path));
	if (!path)
		return;
	if (file_read(path, FILE_BYTES_MAX, FILE_ANY, &content, &err) != ST_OK) {
		if (place.file)
			loader_problem(l, place, "effectd", "include", "%s %s", path, err.text);
		else
			loader_problem(l, (struct config_place){ path, 0 }, NULL, NULL,
				       "%s: -c FILE names another, `effectd config default` prints a complete sample",
				       err.text);
		return;
	}
	AUTOFREE char *data = content.data;
	struct include include = { 0 };
	if (!remember_file(l, path, &content, place))
		return;
	reader_read(l, path, data, content.size, &include);
	read_include(l, &include, depth + 1);
}

void files_load(struct loader *l, const char *path)
{
	read_file(l, path, (struct config_place){ 0 }, 0);
}

/* From a file to a loaded plugin. Everything is asked of the one open descriptor, so what was judged is what runs. A
 * file that went through dlopen is remembered for good, admitted or refused: its code stays mapped, and its descriptor
 * number, which is the name it was loaded by, must not be used for another file. */
#include "plugin/load.h"
#include "plugin/gate.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct loaded {
	struct plugin plugin;
	dev_t device;
	ino_t inode;
	struct error refused; /* ST_OK: admitted */
	struct loaded *next;
};

static struct loaded *all_loaded;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* Only root and we ourselves may be able to put other code there. A sticky directory (/tmp) lets nobody replace what
 * is another's. */
static enum status check_trust(const char *path, const struct stat *st, struct error *err)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return error_set(err, ST_INVALID, "%s belongs to user %u: it must belong to root or to effectd's user",
				 path, (unsigned)st->st_uid);
	const bool sticky_directory = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) && !sticky_directory)
		return error_set(err, ST_INVALID, "%s is writable by %s: chmod go-w it", path,
				 st->st_mode & S_IWOTH ? "others" : "its group");
	return ST_OK;
}

/* The directories on the way to the file that is open, by its real path. */
static enum status check_parents(const char *proc_path, struct error *err)
{
	char path[PATH_MAX];
	const ssize_t len = readlink(proc_path, path, sizeof(path) - 1);
	if (len < 0)
		return error_errno(err, ST_INVALID, errno, "reading %s", proc_path);
	path[len] = '\0';
	for (char *slash; (slash = strrchr(path, '/'));) {
		slash[slash == path] = '\0'; /* the root keeps its slash */
		struct stat st;
		if (stat(path, &st) < 0)
			return error_errno(err, ST_INVALID, errno, "its directory %s", path);
		enum status trust = check_trust(path, &st, err);
		if (trust != ST_OK || slash == path)
			return trust;
	}
	return ST_OK;
}

static enum status check_file(const char *path, const char *proc_path, const struct stat *st, struct error *err)
{
	if (!S_ISREG(st->st_mode))
		return error_set(err, ST_INVALID, "%s is not a regular file", path);
	enum status trust = check_trust(path, st, err);
	return trust == ST_OK ? check_parents(proc_path, err) : trust;
}

/* dlopen's own words, without the name that only we know the file by. */
static const char *dl_error(const char *proc_path)
{
	const char *text = dlerror();
	if (!text)
		return "no reason was given";
	const size_t len = strlen(proc_path);
	if (strncmp(text, proc_path, len) == 0 && text[len] == ':')
		text += len + 1 + (text[len + 1] == ' ');
	return text;
}

/* The entry's answer goes through the gate. */
static enum status admit(struct plugin *p, struct error *err)
{
	effectd_entry_function *entry;
	*(void **)&entry = dlsym(p->handle, EFFECTD_ENTRY_SYMBOL);
	if (!entry)
		return error_set(err, ST_INVALID,
				 "it is no effectd plugin: it exports no function %s (EFFECTD_PLUGIN makes it)",
				 EFFECTD_ENTRY_SYMBOL);
	const struct effectd_plugin *given = entry();
	if (!given)
		return error_set(err, ST_INVALID, "its function %s returned NULL", EFFECTD_ENTRY_SYMBOL);
	return gate_admit(p, given, err);
}

static struct loaded *find_loaded(const struct stat *st)
{
	for (struct loaded *l = all_loaded; l; l = l->next)
		if (l->device == st->st_dev && l->inode == st->st_ino)
			return l;
	return NULL;
}

/* Loads the file open as *fd; owns the descriptor when it is loaded. */
static enum status load_open_file(struct loaded **ret, int *fd, const char *path, struct error *err)
{
	char proc_path[32];
	snprintf(proc_path, sizeof(proc_path), "/proc/self/fd/%d", *fd);
	struct stat st;
	if (fstat(*fd, &st) < 0)
		return error_errno(err, ST_INVALID, errno, "%s", path);
	enum status status = check_file(path, proc_path, &st, err);
	if (status != ST_OK)
		return status;
	if ((*ret = find_loaded(&st)))
		return ST_OK;

	AUTOFREE struct loaded *l = calloc(1, sizeof(*l));
	AUTOFREE char *path_copy = strdup(path);
	if (!l || !path_copy)
		return error_oom(err);
	void *handle = dlopen(proc_path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return error_set(err, ST_INVALID, "%s cannot be loaded: %s", path, dl_error(proc_path));
	l->plugin = (struct plugin){ .path = path_copy, .handle = handle, .fd = *fd };
	l->device = st.st_dev;
	l->inode = st.st_ino;
	if (admit(&l->plugin, &l->refused) != ST_OK)
		error_wrap(&l->refused, "%s", path);
	l->next = all_loaded;
	all_loaded = *ret = l;
	*fd = -1;
	l = NULL;
	path_copy = NULL;
	return ST_OK;
}

enum status plugin_load(const struct plugin **ret, const char *plugin_dir, const char *path, struct error *err)
{
	AUTOFREE char *full = NULL;
	if (asprintf(&full, "%s%s%s", *path == '/' ? "" : plugin_dir, *path == '/' ? "" : "/", path) < 0) {
		full = NULL;
		return error_oom(err);
	}
	/* not blocking: a pipe of that name would wait for a writer */
	CLEANUP(close_fd) int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, ST_INVALID, errno, "%s", full);
	struct loaded *l = NULL;
	enum status st = load_open_file(&l, &fd, full, err);
	if (st != ST_OK)
		return st;
	if (l->refused.status != ST_OK) {
		*err = l->refused;
		return l->refused.status;
	}
	*ret = &l->plugin;
	return ST_OK;
}

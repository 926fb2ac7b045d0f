#include "run/control.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	PATIENCE_S = 1, /* the client is a command on the same machine */
	BACKLOG = 16,
	ANSWER_MOST = 16 << 20,
};

struct control {
	int pid_fd, fd;
	char pid_file[256];
	struct sockaddr_un address;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static enum status address_of(const char *runtime_dir, struct sockaddr_un *ret, struct error *err)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	const int len = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/effectd.sock", runtime_dir);
	if ((size_t)len >= sizeof(ret->sun_path))
		return error_set(err, ST_INVALID, "runtime_dir %s is too long for a unix socket: %zu bytes at most",
				 runtime_dir, sizeof(ret->sun_path) - strlen("/effectd.sock") - 1);
	return ST_OK;
}

static enum status refuse_second(int fd, const char *runtime_dir, struct error *err)
{
	char pid[24] = "";
	const ssize_t len = pread(fd, pid, sizeof(pid) - 1, 0);
	pid[len > 0 ? strcspn(pid, "\n") : 0] = '\0';
	return error_set(err, ST_UNAVAILABLE,
			 "another effectd (pid %s) runs in %s: end it, or give this one another runtime_dir in "
			 "[effectd]",
			 pid, runtime_dir);
}

/* The lock tells whether the writer of the file lives, whatever happened to it. */
static enum status lock_pid_file(struct control *c, const char *runtime_dir, struct error *err)
{
	snprintf(c->pid_file, sizeof(c->pid_file), "%s/effectd.pid", runtime_dir);
	for (;;) {
		CLEANUP(close_fd) int fd = open(c->pid_file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd < 0)
			return error_errno(err, ST_INVALID, errno, "%s", c->pid_file);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK ? refuse_second(fd, runtime_dir, err)
						    : error_errno(err, ST_INVALID, errno, "%s", c->pid_file);
		struct stat mine, there;
		if (fstat(fd, &mine) < 0 || stat(c->pid_file, &there) < 0 || mine.st_ino != there.st_ino)
			continue; /* its owner removed it meanwhile */
		if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
			return error_errno(err, ST_INVALID, errno, "%s", c->pid_file);
		c->pid_fd = fd;
		fd = -1;
		return ST_OK;
	}
}

static enum status listen_there(struct control *c, struct error *err)
{
	const char *path = c->address.sun_path;
	unlink(path); /* a dead one's: the lock is ours */
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || bind(c->fd, (const struct sockaddr *)&c->address, sizeof(c->address)) < 0 ||
	    chmod(path, 0660) < 0 || listen(c->fd, BACKLOG) < 0)
		return error_errno(err, ST_INVALID, errno, "%s", path);
	return ST_OK;
}

enum status control_open(struct control **ret, const char *runtime_dir, struct error *err)
{
	struct control *c = calloc(1, sizeof(*c));
	if (!c)
		return error_oom(err);
	c->pid_fd = c->fd = -1;
	enum status st = address_of(runtime_dir, &c->address, err);
	if (st == ST_OK && mkdir(runtime_dir, 0700) < 0 && errno != EEXIST)
		st = error_errno(err, ST_INVALID, errno, "cannot make %s", runtime_dir);
	if (st == ST_OK)
		st = lock_pid_file(c, runtime_dir, err);
	if (st == ST_OK)
		st = listen_there(c, err);
	if (st != ST_OK) {
		control_close(c);
		return st;
	}
	*ret = c;
	return ST_OK;
}

void control_close(struct control *c)
{
	if (!c)
		return;
	if (c->fd >= 0) {
		unlink(c->address.sun_path);
		close(c->fd);
	}
	if (c->pid_fd >= 0) {
		unlink(c->pid_file);
		close(c->pid_fd);
	}
	free(c);
}

int control_fd(const struct control *c)
{
	return c->fd;
}

static void set_patience(int fd)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		log_debug("control_patience", LOG_INT("errno", errno));
}

bool control_accept(struct control *c, struct control_request *ret)
{
	CLEANUP(close_fd) int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return false;
	set_patience(fd);
	/* A command sends its line at once and whole. */
	const ssize_t len = recv(fd, ret->line, sizeof(ret->line), 0);
	if (len <= 0 || ret->line[len - 1] != '\n')
		return false;
	ret->line[len - 1] = '\0';
	ret->fd = fd;
	fd = -1;
	return true;
}

static bool send_all(int fd, const char *text)
{
	for (size_t left = strlen(text); left > 0;) {
		const ssize_t sent = send(fd, text, left, MSG_NOSIGNAL);
		if (sent < 0)
			return false;
		text += sent;
		left -= (size_t)sent;
	}
	return true;
}

void control_answer(struct control_request *r, const char *text)
{
	if (!send_all(r->fd, text))
		log_debug("control_not_answered", LOG_STR("request", r->line), LOG_INT("errno", errno));
	close(r->fd);
	r->fd = -1;
}

static enum status nobody(const char *path, struct error *err)
{
	if (errno == ENOENT || errno == ECONNREFUSED)
		return error_set(err, ST_UNAVAILABLE, "no effectd runs there: nothing answers on %s", path);
	return error_errno(err, ST_UNAVAILABLE, errno, "%s", path);
}

enum status control_ask(const char *runtime_dir, const char *line, struct buffer *answer, struct error *err)
{
	struct sockaddr_un address;
	char text[sizeof(((struct control_request *)0)->line) + 2];
	const enum status st = address_of(runtime_dir, &address, err);
	if (st != ST_OK)
		return st;
	CLEANUP(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return nobody(address.sun_path, err);
	snprintf(text, sizeof(text), "%s\n", line);
	if (!send_all(fd, text))
		return nobody(address.sun_path, err);
	char piece[4096];
	ssize_t len;
	while ((len = recv(fd, piece, sizeof(piece), 0)) > 0 && answer->len < ANSWER_MOST)
		buffer_add(answer, piece, (size_t)len);
	if (answer->failed)
		return error_oom(err);
	if (len != 0 || answer->len == 0)
		return error_set(err, ST_UNAVAILABLE, "effectd ended before it answered on %s", address.sun_path);
	return ST_OK;
}

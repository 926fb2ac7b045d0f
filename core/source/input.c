#include "source/input.h"
#include "base/clock.h"
#include "base/wait.h"
#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CHUNK_BYTES = 256 << 10,
	AHEAD_BYTES = 16 << 20, /* read and not taken: several batches for each worker */
};

struct input {
	int fd, stop_fd;
	size_t line_max;
	int64_t bytes_total;
	struct archive *archive;
	char raw[CHUNK_BYTES]; /* as it lies in the file */
	ssize_t looked_at;     /* bytes in raw that nobody got yet */

	/* the reader's alone */
	struct line *part; /* a line whose end has not come yet */
	size_t part_room;
	bool dropping; /* the rest of a line that is too long */
	int64_t number;

	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t filled, taken;
	struct line *first, **last;
	size_t ahead_bytes;
	bool ended, stopped;
	struct error error;
	_Atomic int64_t lines, bytes;
};

/* --- reading --- */

/* What comes next of the file, in in->raw; 0: its end, or a stop. */
static ssize_t read_chunk(struct input *in)
{
	struct pollfd fds[] = { { .fd = in->fd, .events = POLLIN }, { .fd = in->stop_fd, .events = POLLIN } };
	while (poll(fds, ARRAY_LEN(fds), -1) < 0)
		if (errno != EINTR)
			return -1;
	if (fds[1].revents)
		return 0;
	const ssize_t n = read(in->fd, in->raw, sizeof(in->raw));
	if (n > 0)
		atomic_fetch_add(&in->bytes, n);
	return n;
}

static la_ssize_t read_packed(struct archive *a, void *arg, const void **ret)
{
	struct input *in = arg;
	const ssize_t n = in->looked_at > 0 ? in->looked_at : read_chunk(in);
	in->looked_at = 0;
	*ret = in->raw;
	if (n < 0)
		archive_set_error(a, errno, "%s", strerror(errno));
	return n;
}

static enum status open_archive(struct input *in, struct error *err)
{
	in->archive = archive_read_new();
	if (!in->archive)
		return error_oom(err);
	archive_read_support_filter_gzip(in->archive);
	archive_read_support_filter_zstd(in->archive);
	archive_read_support_filter_xz(in->archive);
	archive_read_support_filter_bzip2(in->archive);
	archive_read_support_format_raw(in->archive);
	return ST_OK;
}

/* --- cutting --- */

struct cut {
	struct line *first, **last;
	size_t bytes;
};

static bool is_blank(const struct line *line)
{
	for (size_t i = 0; i < line->len; i++)
		if (!memchr(" \t\r", line->text[i], 3))
			return false;
	return !line->too_long;
}

static void end_line(struct input *in, struct cut *cut)
{
	struct line *line = in->part;
	in->part = NULL;
	in->dropping = false;
	in->number++;
	if (line->len > 0 && line->text[line->len - 1] == '\r')
		line->len--;
	if (is_blank(line)) {
		free(line);
		return;
	}
	line->number = in->number;
	line->next = NULL;
	*cut->last = line;
	cut->last = &line->next;
	cut->bytes += sizeof(*line) + line->len;
}

static bool add_to_line(struct input *in, const char *data, size_t len)
{
	const size_t before = in->part ? in->part->len : 0;
	if (in->dropping)
		return true;
	const bool too_long = before + len > in->line_max;
	if (!in->part || before + len > in->part_room) {
		const size_t room = too_long ? 0 : 2 * before + len;
		struct line *more = realloc(in->part, sizeof(*more) + room);
		if (!more)
			return false;
		more->len = before;
		in->part = more;
		in->part_room = room;
	}
	in->dropping = in->part->too_long = too_long;
	if (too_long)
		in->part->len = 0;
	else if (len > 0)
		memcpy(in->part->text + before, data, len);
	in->part->len += too_long ? 0 : len;
	return true;
}

static bool cut_chunk(struct input *in, const char *data, size_t len, struct cut *cut)
{
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		const size_t part = end ? (size_t)(end - data) : len;
		if (!add_to_line(in, data, part))
			return false;
		if (!end)
			return true;
		end_line(in, cut);
		data += part + 1;
		len -= part + 1;
	}
	return true;
}

/* --- handing over --- */

/* False: stopped. */
static bool hand_over(struct input *in, struct cut *cut)
{
	if (!cut->first)
		return true;
	atomic_store(&in->lines, in->number);
	pthread_mutex_lock(&in->lock);
	while (in->ahead_bytes > AHEAD_BYTES && !in->stopped)
		pthread_cond_wait(&in->taken, &in->lock);
	*in->last = cut->first;
	in->last = cut->last;
	in->ahead_bytes += cut->bytes;
	const bool stopped = in->stopped;
	pthread_cond_broadcast(&in->filled);
	pthread_mutex_unlock(&in->lock);
	return !stopped;
}

/* Cuts and hands over what was read; at the end also the last line, which may have no end. False: that is all. */
static bool take_in(struct input *in, const char *data, size_t len, bool end, struct error *err)
{
	struct cut cut = { .last = &cut.first };
	const bool good = cut_chunk(in, data, len, &cut);
	if (!good)
		error_oom(err);
	if (end && in->part)
		end_line(in, &cut);
	return hand_over(in, &cut) && good && !end;
}

static enum status read_plain(struct input *in, struct error *err)
{
	for (ssize_t n = in->looked_at;; n = read_chunk(in)) {
		if (n < 0)
			return error_errno(err, ST_INVALID, errno, "cannot read behind line %" PRId64, in->number);
		if (!take_in(in, in->raw, (size_t)n, n == 0, err))
			return err->status;
	}
}

static enum status unpack(struct input *in, struct error *err)
{
	struct archive_entry *entry;
	if (archive_read_open(in->archive, in, NULL, read_packed, NULL) != ARCHIVE_OK ||
	    archive_read_next_header(in->archive, &entry) < ARCHIVE_WARN)
		return error_set(err, ST_INVALID, "cannot read: %s", archive_error_string(in->archive));
	for (;;) {
		const void *data = NULL;
		size_t n = 0;
		la_int64_t offset;
		const int got = archive_read_data_block(in->archive, &data, &n, &offset);
		if (got < ARCHIVE_WARN)
			return error_set(err, ST_INVALID, "cannot read behind line %" PRId64 ": %s", in->number,
					 archive_error_string(in->archive));
		if (!take_in(in, data, n, got == ARCHIVE_EOF, err))
			return err->status;
	}
}

/* What is compressed begins with a byte that no JSON text begins with. Only then is libarchive asked, which waits for
 * more bytes than a short line from a pipe may have. */
static enum status read_all(struct input *in, struct error *err)
{
	static const char magic[] = { '\x1f', '\x28', '\xfd', 'B' }; /* gzip, zstd, xz, bzip2 */
	in->looked_at = read_chunk(in);
	const bool packed = in->looked_at > 0 && memchr(magic, in->raw[0], sizeof(magic));
	return packed ? unpack(in, err) : read_plain(in, err);
}

static void *reader_main(void *arg)
{
	struct input *in = arg;
	struct error err = { 0 };
	(void)!read_all(in, &err);
	pthread_mutex_lock(&in->lock);
	in->error = err;
	in->ended = true;
	pthread_cond_broadcast(&in->filled);
	pthread_mutex_unlock(&in->lock);
	return NULL;
}

/* --- from the outside --- */

static enum status start_reader(struct input *in, struct error *err)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&in->filled, &attr);
	pthread_cond_init(&in->taken, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&in->lock, NULL);
	const int failed = pthread_create(&in->thread, NULL, reader_main, in);
	in->started = !failed;
	return failed ? error_errno(err, ST_INTERNAL, failed, "cannot start a thread") : ST_OK;
}

enum status input_open(struct input **ret, const char *path, size_t line_max, struct error *err)
{
	struct input *in = calloc(1, sizeof(*in));
	if (!in)
		return error_oom(err);
	in->line_max = line_max;
	in->last = &in->first;
	in->fd = path ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	in->stop_fd = eventfd(0, EFD_CLOEXEC);
	struct stat about = { 0 };
	enum status st = ST_OK;
	if (in->fd < 0 || in->stop_fd < 0 || fstat(in->fd, &about) != 0)
		st = error_errno(err, ST_INVALID, errno, "cannot open %s", path ? path : "stdin");
	else if (S_ISDIR(about.st_mode))
		st = error_set(err, ST_INVALID, "%s is a folder", path);
	if (S_ISREG(about.st_mode))
		in->bytes_total = about.st_size;
	if (st == ST_OK)
		st = open_archive(in, err);
	if (st == ST_OK)
		st = start_reader(in, err);
	if (st == ST_OK)
		*ret = in;
	else
		input_close(in);
	return st;
}

void input_close(struct input *in)
{
	if (!in)
		return;
	if (in->started) {
		input_stop(in);
		pthread_join(in->thread, NULL);
		pthread_mutex_destroy(&in->lock);
		pthread_cond_destroy(&in->filled);
		pthread_cond_destroy(&in->taken);
	}
	for (struct line *line = in->first, *next; line; line = next) {
		next = line->next;
		free(line);
	}
	free(in->part);
	archive_read_free(in->archive);
	if (in->fd >= 0)
		close(in->fd);
	if (in->stop_fd >= 0)
		close(in->stop_fd);
	free(in);
}

struct line *input_take(struct input *in, size_t most)
{
	pthread_mutex_lock(&in->lock);
	struct line *first = in->stopped ? NULL : in->first, **end = &first;
	for (size_t n = 0; *end && n < most; n++) {
		in->ahead_bytes -= sizeof(**end) + (*end)->len;
		end = &(*end)->next;
	}
	if (first) {
		in->first = *end;
		if (!in->first)
			in->last = &in->first;
		*end = NULL;
		pthread_cond_signal(&in->taken);
	}
	pthread_mutex_unlock(&in->lock);
	return first;
}

bool input_wait(struct input *in, int64_t deadline_ms)
{
	const struct timespec until = { deadline_ms / 1000, deadline_ms % 1000 * 1000000 };
	pthread_mutex_lock(&in->lock);
	bool waits = true;
	while (waits && !in->first && !in->ended && !in->stopped) {
		if (deadline_ms == WAIT_FOREVER)
			pthread_cond_wait(&in->filled, &in->lock);
		else
			waits = pthread_cond_timedwait(&in->filled, &in->lock, &until) == 0;
	}
	const bool there = in->first && !in->stopped;
	pthread_mutex_unlock(&in->lock);
	return there;
}

void input_stop(struct input *in)
{
	const uint64_t one = 1;
	pthread_mutex_lock(&in->lock);
	in->stopped = true;
	pthread_cond_broadcast(&in->filled);
	pthread_cond_broadcast(&in->taken);
	pthread_mutex_unlock(&in->lock);
	(void)!write(in->stop_fd, &one, sizeof(one)); /* full: it was written before */
}

enum status input_status(struct input *in, struct error *err)
{
	pthread_mutex_lock(&in->lock);
	*err = in->error;
	pthread_mutex_unlock(&in->lock);
	return err->status;
}

void input_progress(struct input *in, struct input_progress *ret)
{
	*ret = (struct input_progress){ atomic_load(&in->lines), atomic_load(&in->bytes), in->bytes_total };
}

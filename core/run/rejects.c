#include "run/rejects.h"
#include "run/json_text.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct rejects {
	char *path;
	FILE *file;
	pthread_mutex_t lock;
};

enum status rejects_open(struct rejects **ret, const char *path, struct error *err)
{
	struct rejects *r = calloc(1, sizeof(*r));
	if (!r)
		return error_oom(err);
	pthread_mutex_init(&r->lock, NULL);
	r->path = strdup(path);
	r->file = fopen(path, "we");
	if (r->path && r->file) {
		*ret = r;
		return ST_OK;
	}
	const int failed = errno;
	struct error ignored;
	(void)!rejects_close(r, &ignored);
	return error_errno(err, ST_INVALID, failed, "cannot write rejected lines to %s", path);
}

enum status rejects_add(struct rejects *r, const struct rejected_line *line, struct error *err)
{
	const bool escaped = line->text.data && !text_is_utf8(line->text.data, line->text.len);
	json_t *all = json_pack("{sI ss sb ss* so so so}", "line", (json_int_t)line->number, "reason",
				park_reason_names[line->reason], "retry", (int)line->retry, "sqlstate",
				line->sqlstate[0] ? line->sqlstate : NULL, "detail",
				json_text((struct str){ line->detail, strlen(line->detail) }), "key",
				json_text(line->key), escaped ? "text_escaped" : "text", json_text(line->text));
	AUTOFREE char *dump = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	if (!dump)
		return error_oom(err);
	pthread_mutex_lock(&r->lock);
	const bool good = fprintf(r->file, "%s\n", dump) > 0;
	const int failed = errno;
	pthread_mutex_unlock(&r->lock);
	return good ? ST_OK : error_errno(err, ST_INVALID, failed, "writing rejected lines to %s", r->path);
}

enum status rejects_close(struct rejects *r, struct error *err)
{
	if (!r)
		return ST_OK;
	enum status st = ST_OK;
	if (r->file) {
		const bool good = fflush(r->file) == 0 && (fsync(fileno(r->file)) == 0 || errno == EINVAL);
		if (!good)
			st = error_errno(err, ST_INVALID, errno, "writing rejected lines to %s", r->path);
		fclose(r->file);
	}
	pthread_mutex_destroy(&r->lock);
	free(r->path);
	free(r);
	return st;
}

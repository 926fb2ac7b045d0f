/* Problems are collected and said at the end, sorted by file and line: they are found in passes, but read by somebody
 * who has the file open. */
#include "base/text.h"
#include "config/private.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t file_order(const struct loader *l, const char *file)
{
	for (size_t i = 0; file && i < l->private->file_count; i++)
		if (l->private->files[i] == file)
			return i;
	return FILES_MAX;
}

void loader_problem(struct loader *l, struct config_place place, const char *section, const char *key, const char *fmt,
		    ...)
{
	if (++l->problem_count > PROBLEMS_MAX)
		return;
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	const int len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	const size_t used = text_utf8_cut(text, strlen(text), len < 0 ? 0 : (size_t)len);
	struct found *found = loader_alloc(l, sizeof(*found));
	const char *copy = loader_copy(l, text, used), *key_copy = key ? loader_copy(l, key, strlen(key)) : NULL;
	if (!found || !copy || (key && !key_copy))
		return;
	*found = (struct found){
		{ place, section, key_copy, copy }, file_order(l, place.file), l->problem_count, l->found
	};
	l->found = found;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = *(struct found *const *)a, *y = *(struct found *const *)b;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->problem.place.line != y->problem.place.line)
		return x->problem.place.line < y->problem.place.line ? -1 : 1;
	return x->sequence < y->sequence ? -1 : 1;
}

void loader_report(struct loader *l, config_report *report, void *arg)
{
	size_t n = 0;
	for (const struct found *f = l->found; f; f = f->next)
		n++;
	AUTOFREE struct found **sorted = calloc(n + 1, sizeof(*sorted));
	if (!sorted) {
		l->out_of_memory = true;
		return;
	}
	n = 0;
	for (struct found *f = l->found; f; f = f->next)
		sorted[n++] = f;
	qsort(sorted, n, sizeof(struct found *), compare_found);
	for (size_t i = 0; i < n; i++)
		report(arg, &sorted[i]->problem);
	if (l->problem_count > PROBLEMS_MAX) {
		char text[64];
		snprintf(text, sizeof(text), "and %zu more", l->problem_count - PROBLEMS_MAX);
		report(arg, &(struct config_problem){ .text = text });
	}
}

struct quoted loader_quote(const char *data, size_t len)
{
	struct quoted q;
	const size_t kept = text_utf8_cut(data, len, 60);
	const size_t used = text_escape(q.text, sizeof(q.text) - 4, data, kept);
	strcpy(q.text + used, kept < len ? "..." : "");
	return q;
}

void config_report_stderr(void *arg, const struct config_problem *p)
{
	(void)arg;
	char line[24] = "";
	if (p->place.line > 0)
		snprintf(line, sizeof(line), ":%d", p->place.line);
	fprintf(stderr, "%s%s%s%s%s%s%s%s%s\n", p->place.file ? p->place.file : "", p->place.file ? line : "",
		p->place.file ? ": " : "", p->section ? "[" : "", p->section ? p->section : "", p->section ? "] " : "",
		p->key ? p->key : "", p->key ? ": " : "", p->text);
}

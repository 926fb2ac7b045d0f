/* Lines of an input as a source. Nothing is parked: a line that cannot be applied is told to whoever feeds, who keeps
 * it; a line that was neither applied nor told is simply there when the same input is fed again. */
#ifndef SOURCE_LINES_H
#define SOURCE_LINES_H

#include "exact/source.h"
#include "source/input.h"

struct lines_source;

struct rejected_line {
	int64_t number;
	struct str text; /* absent: it was too long to be kept */
	struct str key;  /* absent: it has none */
	enum park_reason reason;
	bool retry; /* the plugin said that a later attempt may go well */
	const char *sqlstate, *detail;
};

struct lines_params {
	struct input *input;
	bool envelope;
	size_t max_body;  /* in bytes */
	size_t batch_max; /* lines taken at once */
	struct consumer_counters *counters;
	void (*rejected)(void *arg,
			 const struct rejected_line *line); /* called by the worker; what it points to dies */
	void *arg;
};

/* How long a line may be. */
size_t lines_longest(bool envelope, size_t max_body);

enum status lines_source_create(struct lines_source **ret, const struct lines_params *params,
				struct error *err) MUST_USE;
struct source *lines_source_base(struct lines_source *s);
void lines_source_destroy(struct lines_source *s); /* NULL is fine */

#endif

/* Metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0 for those who ask for it.
 *
 * The caller names families and gives samples; the writer knows the rules of both formats: which suffix a family or a
 * sample has, what is escaped, what ends the text. A family without samples leaves nothing behind. Samples of one
 * family follow each other, and no two have the same labels: that is the caller's to keep. */
#ifndef HTTP_EXPOSITION_H
#define HTTP_EXPOSITION_H

#include "base/buffer.h"
#include "base/histogram.h"
#include <stdint.h>

enum exposition_format { EXPOSITION_TEXT, EXPOSITION_OPENMETRICS };

extern const char *const exposition_content_types[];

/* What is in the words of an Accept header the client's wish; NULL: it has none. */
enum exposition_format exposition_negotiate(const char *accept);

enum metric_type {
	METRIC_COUNTER, /* its name ends with _total */
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
	METRIC_INFO, /* its name ends with _info, its value is 1, its labels are what it tells */
};

struct label {
	const char *name, *value; /* value: any text */
};

struct exposition {
	enum exposition_format format;
	struct buffer *out;
	const char *name, *help; /* of the family */
	enum metric_type type;
	bool begun; /* the family has a sample */
};

void exposition_init(struct exposition *e, enum exposition_format format, struct buffer *out);
void exposition_family(struct exposition *e, const char *name, enum metric_type type, const char *help);
void exposition_sample(struct exposition *e, const struct label *labels, size_t n, uint64_t value);
void exposition_histogram(struct exposition *e, const struct label *labels, size_t n, const struct histogram *h,
			  const struct histogram_scale *scale);
void exposition_finish(struct exposition *e);

#endif

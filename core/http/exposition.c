/* The two formats side by side. They differ in three things only: OpenMetrics names a family without the suffix of its
 * samples, escapes quotes in HELP, and ends with # EOF, by which a cut answer is noticed. Numbers are written the same
 * in both ("1.0", not "1", where a bound is meant), so that a series does not change its name with the format. */
#include "http/exposition.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const exposition_content_types[] = {
	[EXPOSITION_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[EXPOSITION_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/* How each type is called and what OpenMetrics cuts off its family's name. */
static const struct {
	const char *text, *openmetrics, *suffix;
} types[] = {
	[METRIC_COUNTER] = { "counter", "counter", "_total" },
	[METRIC_GAUGE] = { "gauge", "gauge", "" },
	[METRIC_HISTOGRAM] = { "histogram", "histogram", "" },
	[METRIC_INFO] = { "gauge", "info", "_info" },
};

void exposition_init(struct exposition *e, enum exposition_format format, struct buffer *out)
{
	*e = (struct exposition){ .format = format, .out = out };
}

void exposition_family(struct exposition *e, const char *name, enum metric_type type, const char *help)
{
	e->name = name;
	e->type = type;
	e->help = help;
	e->begun = false;
}

static void put_escaped(struct buffer *out, const char *text, bool quotes)
{
	for (const char *c = text; *c; c++) {
		if (*c == '\\')
			buffer_puts(out, "\\\\");
		else if (*c == '\n')
			buffer_puts(out, "\\n");
		else if (*c == '"' && quotes)
			buffer_puts(out, "\\\"");
		else
			buffer_add(out, c, 1);
	}
}

static void begin(struct exposition *e)
{
	if (e->begun)
		return;
	e->begun = true;
	const bool open = e->format == EXPOSITION_OPENMETRICS;
	size_t len = strlen(e->name);
	if (open)
		len -= strlen(types[e->type].suffix);
	buffer_printf(e->out, "# HELP %.*s ", (int)len, e->name);
	put_escaped(e->out, e->help, open);
	buffer_printf(e->out, "\n# TYPE %.*s %s\n", (int)len, e->name,
		      open ? types[e->type].openmetrics : types[e->type].text);
}

/* NAME{labels}: extra, if any, is the last label, its value needs no escaping. */
static void put_series(struct exposition *e, const char *suffix, const struct label *labels, size_t n,
		       const char *extra_name, const char *extra_value)
{
	begin(e);
	buffer_printf(e->out, "%s%s", e->name, suffix);
	const char *before = "{";
	for (size_t i = 0; i < n; i++) {
		buffer_printf(e->out, "%s%s=\"", before, labels[i].name);
		put_escaped(e->out, labels[i].value, true);
		buffer_puts(e->out, "\"");
		before = ",";
	}
	if (extra_name) {
		buffer_printf(e->out, "%s%s=\"%s\"", before, extra_name, extra_value);
		before = ",";
	}
	buffer_puts(e->out, *before == ',' ? "} " : " ");
}

void exposition_sample(struct exposition *e, const struct label *labels, size_t n, uint64_t value)
{
	put_series(e, "", labels, n, NULL, NULL);
	buffer_printf(e->out, "%" PRIu64 "\n", value);
}

/* n / per_unit without a rounding error: 2500 of a million is 0.0025, a million is 1.0. */
static const char *decimal(char *dst, size_t size, uint64_t n, uint64_t per_unit)
{
	int len = snprintf(dst, size, "%" PRIu64 ".", n / per_unit);
	uint64_t rest = n % per_unit;
	do {
		rest *= 10;
		len += snprintf(dst + len, size - (size_t)len, "%" PRIu64, rest / per_unit);
		rest %= per_unit;
	} while (rest > 0);
	return dst;
}

void exposition_histogram(struct exposition *e, const struct label *labels, size_t n, const struct histogram *h,
			  const struct histogram_scale *scale)
{
	char text[48];
	uint64_t count = 0;
	for (size_t i = 0; i <= scale->count; i++) {
		count += atomic_load_explicit((_Atomic uint64_t *)&h->buckets[i], memory_order_relaxed);
		put_series(e, "_bucket", labels, n, "le",
			   i < scale->count ? decimal(text, sizeof(text), scale->bounds[i], scale->per_unit) : "+Inf");
		buffer_printf(e->out, "%" PRIu64 "\n", count);
	}
	put_series(e, "_sum", labels, n, NULL, NULL);
	const uint64_t sum = atomic_load_explicit((_Atomic uint64_t *)&h->sum, memory_order_relaxed);
	buffer_printf(e->out, "%s\n", decimal(text, sizeof(text), sum, scale->per_unit));
	put_series(e, "_count", labels, n, NULL, NULL);
	buffer_printf(e->out, "%" PRIu64 "\n", count);
}

void exposition_finish(struct exposition *e)
{
	if (e->format == EXPOSITION_OPENMETRICS)
		buffer_puts(e->out, "# EOF\n");
}

/* Which of the two formats an Accept header prefers. OpenMetrics must be named, since a client that takes anything may
 * not know it; at the same weight it wins, since only those name it who can read it. */
#include "http/exposition.h"
#include <ctype.h>
#include <string.h>

/* The weight of one media range's parameters, in thousandths; 1000 without one, 0 where it is no number. */
static int weight_of(const char *params, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		if (params[i] != ';')
			continue;
		size_t j = i + 1;
		while (j < len && (params[j] == ' ' || params[j] == '\t'))
			j++;
		if (j + 1 >= len || tolower((unsigned char)params[j]) != 'q' || params[j + 1] != '=')
			continue;
		j += 2;
		int weight = 0, digit = 1000;
		for (; j < len && (isdigit((unsigned char)params[j]) || params[j] == '.'); j++) {
			if (params[j] == '.')
				continue;
			weight += (params[j] - '0') * digit;
			digit /= 10;
		}
		return weight > 1000 ? 1000 : weight;
	}
	return 1000;
}

enum exposition_format exposition_negotiate(const char *accept)
{
	static const struct {
		const char *range;
		enum exposition_format format;
	} ranges[] = {
		{ "application/openmetrics-text", EXPOSITION_OPENMETRICS },
		{ "text/plain", EXPOSITION_TEXT },
	};
	int weights[] = { [EXPOSITION_TEXT] = 0, [EXPOSITION_OPENMETRICS] = 0 };
	for (const char *p = accept; p && *p;) {
		p += strspn(p, " \t,");
		const size_t len = strcspn(p, ",");
		for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
			const size_t n = strlen(ranges[i].range);
			if (len < n || strncasecmp(p, ranges[i].range, n) != 0 || !strchr("; \t,", p[n]))
				continue;
			const int weight = weight_of(p + n, len - n);
			if (weight > weights[ranges[i].format])
				weights[ranges[i].format] = weight;
		}
		p += len;
	}
	const bool open =
		weights[EXPOSITION_OPENMETRICS] > 0 && weights[EXPOSITION_OPENMETRICS] >= weights[EXPOSITION_TEXT];
	return open ? EXPOSITION_OPENMETRICS : EXPOSITION_TEXT;
}

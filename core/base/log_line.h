/* One line of the log, put together in the caller's memory. Only log.c includes this. */
#ifndef BASE_LOG_LINE_H
#define BASE_LOG_LINE_H

#include "base/log.h"
#include <stdbool.h>

#define LOG_LINE_MAX 8192 /* bytes, with the newline */

struct log_line {
	enum log_format format;
	bool cut; /* something did not fit; nothing more is added */
	size_t len;
	char data[LOG_LINE_MAX];
};

void log_line_begin(struct log_line *line, enum log_format format);
void log_line_add(struct log_line *line, const struct log_field *field);

/* Closes the line, with truncated=true where something is missing, and puts the newline behind it. */
void log_line_end(struct log_line *line);

#endif

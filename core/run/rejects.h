/* The file of rejected lines: JSON lines {line, reason, retry, sqlstate, detail, key, text}. `text` is the line as it
 * was, so that `jq -r .text` gives the input back. */
#ifndef RUN_REJECTS_H
#define RUN_REJECTS_H

#include "source/lines.h"

struct rejects;

/* Makes the file, or empties it: what is rejected again will be in it again. */
enum status rejects_open(struct rejects **ret, const char *path, struct error *err) MUST_USE;

/* From any thread. */
enum status rejects_add(struct rejects *r, const struct rejected_line *line, struct error *err) MUST_USE;

/* What was written is on its disk. NULL is fine. */
enum status rejects_close(struct rejects *r, struct error *err) MUST_USE;

#endif

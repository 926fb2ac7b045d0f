/* Lines of a file or of stdin, plain or compressed: one thread reads and cuts, any number of workers take. What is read
 * and not taken yet is bounded, so a fast file waits for slow workers. */
#ifndef SOURCE_INPUT_H
#define SOURCE_INPUT_H

#include "base/error.h"
#include "base/text.h"
#include <stdbool.h>
#include <stdint.h>

struct line {
	struct line *next;
	int64_t number; /* in the input, from 1 */
	bool too_long;  /* it was, and its text is not here */
	size_t len;
	char text[]; /* without its end of line */
};

struct input;

/* path NULL: stdin. gzip, zstd, xz and bzip2 are known by their first bytes. Lines without anything but blanks are left
 * out. line_max: bytes of one line. */
enum status input_open(struct input **ret, const char *path, size_t line_max, struct error *err) MUST_USE;
void input_close(struct input *in); /* nobody takes or waits any more; NULL is fine */

/* Up to most lines, in order, the caller's to free(); NULL: none are here now. Never waits. */
struct line *input_take(struct input *in, size_t most);

/* Waits until there is something to take; false: there will be nothing more, or not until deadline_ms. */
bool input_wait(struct input *in, int64_t deadline_ms);

/* Nobody gets anything more, as at the end. */
void input_stop(struct input *in);

/* How reading ended, once input_wait() said false for good; ST_OK also after a stop. */
enum status input_status(struct input *in, struct error *err) MUST_USE;

struct input_progress {
	int64_t lines;              /* cut so far */
	int64_t bytes, bytes_total; /* of the file as it lies there; total 0: not known */
};
void input_progress(struct input *in, struct input_progress *ret);

#endif

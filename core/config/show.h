/* The configuration, written back for people: effective values with where each came from, or all defaults. */
#ifndef CONFIG_SHOW_H
#define CONFIG_SHOW_H

#include "base/buffer.h"
#include "config/config.h"

/* INI that reads back as the same configuration but for its secrets, which are masked. Above each setting a comment
 * says where it was written: `# file:line` or `# default`. */
void config_show(const struct config *c, struct buffer *out);

/* The same as {"consumer:loyalty": {"workers": {"value": "2", "file": ..., "line": ...}}}; a default has no file. */
void config_show_json(const struct config *c, struct buffer *out);

void config_default(struct buffer *out); /* a complete commented INI file of the key table: what conf.d/ samples are */
void config_reference(struct buffer *out); /* the key table as Markdown: the second half of docs/configuration.md */

#endif

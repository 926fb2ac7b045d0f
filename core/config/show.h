/* The configuration, written back for people: effective values with where each came from, or all defaults. */
#ifndef CONFIG_SHOW_H
#define CONFIG_SHOW_H

#include "base/buffer.h"
#include "config/config.h"

void config_show(const struct config *c,
		 struct buffer *out); /* INI, `# file:line` or `# default` behind; secrets masked */
void config_show_json(const struct config *c, struct buffer *out);
void config_default(struct buffer *out); /* a complete commented INI file of the key table: what conf.d/ samples are */

#endif

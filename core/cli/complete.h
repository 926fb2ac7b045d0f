/* What fits at the end of a command line that is being typed. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "base/buffer.h"

/* words: what stands behind `effectd`; the last one is being typed, and may be empty. Adds a line for each word that it
 * may become, with a tab and what it does; or COMPLETE_FILES where the shell knows better. Reads the configuration for
 * names, and nothing else. */
#define COMPLETE_FILES "@files"
void complete(struct buffer *out, size_t count, char *const *words);

#endif

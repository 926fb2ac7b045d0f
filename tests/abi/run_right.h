/* What right.c does, whichever header it was built with and whatever it was written in. */
#ifndef ABI_RUN_RIGHT_H
#define ABI_RUN_RIGHT_H

#include "place.h"
#include "plugin/instance.h"

/* The plugin of that name in the folder, which must load. */
const struct plugin *place_load(const struct place *p, const char *name);

/* Takes a message through its key and apply, and looks at what it queued. */
void run_right(const struct place *p, const char *name);

/* The same with the plugins that were built with the headers of recorded versions. */
void run_recorded(const struct place *p);

#endif

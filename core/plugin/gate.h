/* Between a plugin's descriptor and the host's copy of it. Nothing outside core/plugin includes this. */
#ifndef PLUGIN_GATE_H
#define PLUGIN_GATE_H

#include "plugin/load.h"

/* Checks what the plugin gave and fills p's descriptor, statements and options with as much of it as both sides know.
 * ST_INVALID: err says what the plugin has and what is needed; p may be half filled. */
enum status gate_admit(struct plugin *p, const struct effectd_plugin *given, struct error *err) MUST_USE;

#endif

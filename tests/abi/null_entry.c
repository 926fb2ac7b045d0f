/* A plugin that has nothing to say. */
#include <effectd/plugin.h>

EFFECTD_EXPORT const struct effectd_plugin *effectd_plugin_entry(void);

const struct effectd_plugin *effectd_plugin_entry(void)
{
	return NULL;
}

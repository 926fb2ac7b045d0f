/* A plugin that was linked against something that is not here. */
#include <effectd/plugin.h>

const struct effectd_plugin *nobody_has_this_function(void);
EFFECTD_EXPORT const struct effectd_plugin *effectd_plugin_entry(void);

const struct effectd_plugin *effectd_plugin_entry(void)
{
	return nobody_has_this_function();
}

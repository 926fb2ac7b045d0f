/* The loyalty plugin without its apply_batch: what the bench calls "rows". The plugin's own source, one member less. */
#define effectd_plugin_entry loyalty_points_entry
#include "../../../plugins/loyalty_points/loyalty_points.c"
#undef effectd_plugin_entry

EFFECTD_EXPORT const struct effectd_plugin *effectd_plugin_entry(void);

const struct effectd_plugin *effectd_plugin_entry(void)
{
	static struct effectd_plugin rows;
	rows = *loyalty_points_entry();
	rows.apply_batch = NULL;
	return &rows;
}

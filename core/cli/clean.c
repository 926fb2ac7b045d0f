/* Text of others on a terminal. */
#include "base/text.h"
#include "cli/cli.h"

void cli_add_clean(struct buffer *out, const char *text, size_t len)
{
	char clean[512];
	while (len > 0) {
		const size_t whole =
			text_utf8_cut(text, len, sizeof(clean) / 4 - 1); /* one byte becomes four at most */
		const size_t part = whole > 0 ? whole : 1;
		text_escape(clean, sizeof(clean), text, part);
		buffer_puts(out, clean);
		text += part;
		len -= part;
	}
}

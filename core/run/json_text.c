#include "run/json_text.h"
#include <stdlib.h>

json_t *json_text(struct str s)
{
	if (!s.data)
		return json_null();
	if (text_is_utf8(s.data, s.len))
		return json_stringn(s.data, s.len);
	AUTOFREE char *escaped = malloc(4 * s.len + 1);
	return escaped ? json_stringn(escaped, text_escape(escaped, 4 * s.len + 1, s.data, s.len)) : NULL;
}

#include "amqp/session.h"
#include <amqp.h>
#include <ctype.h>
#include <string.h>

/* rabbitmq-c takes such bytes as they are, and refuses them as %XX. */
static void decode_beyond_ascii(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		unsigned value = 0;
		if (from[0] == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]))
			value = (unsigned)strtoul((const char[]){ from[1], from[2], '\0' }, NULL, 16);
		*to = value >= 0x80 ? (char)value : *from;
		from += value >= 0x80 ? 3 : 1;
	}
	*to = '\0';
}

enum status amqp_address_parse(struct amqp_address *ret, const char *url, struct error *err)
{
	struct amqp_connection_info info;
	char *text = strdup(url);
	if (!text)
		return error_oom(err);
	decode_beyond_ascii(text);
	if (amqp_parse_url(text, &info) != AMQP_STATUS_OK) {
		free(text);
		return error_set(err, ST_INVALID, "the broker's url must look like amqp://user@host:5672/%%2f");
	}
	*ret = (struct amqp_address){ .host = info.host,
				      .port = info.port,
				      .tls = info.ssl,
				      .user = info.user,
				      .password = info.password,
				      .vhost = info.vhost,
				      .text = text };
	return ST_OK;
}

void amqp_address_finish(struct amqp_address *a)
{
	free(a->text);
	*a = (struct amqp_address){ 0 };
}

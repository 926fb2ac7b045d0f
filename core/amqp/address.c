#include "amqp/session.h"
#include <amqp.h>
#include <string.h>

enum status amqp_address_parse(struct amqp_address *ret, const char *url, struct error *err)
{
	struct amqp_connection_info info;
	char *text = strdup(url);
	if (!text)
		return error_oom(err);
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

/* A target as the drivers want it: what the configuration says, taken apart, and the secrets that no text may show. */
#ifndef RELAY_TARGET_H
#define RELAY_TARGET_H

#include "amqp/session.h"
#include "base/buffer.h"
#include "base/error.h"
#include "config/config.h"

struct target {
	const struct config_target *config;
	char *url;             /* without user and password */
	char *user, *password; /* NULL: none */
	char **secrets;        /* ends with NULL */
};

enum status target_init(struct target *t, const struct config_target *config, struct error *err) MUST_USE;
void target_finish(struct target *t); /* zeroed before init: fine */

/* Of a target with type = amqp; name: what the broker shows. The strings stay their owners'. */
void target_amqp_params(const struct target *t, const char *name, struct amqp_params *ret);

/* text, one line of printable characters, every secret of the target replaced; free() it. NULL: no memory. */
char *target_mask(const struct target *t, const char *text) MUST_USE;

/* Standard base64 with padding, no line breaks, behind what out has. */
void base64_add(struct buffer *out, const void *data, size_t len);

#endif

#include "base/log.h"
#include "relay/lane.h"
#include <stdarg.h>
#include <stdio.h>

enum { WAIT_MAX_MS = 24 * 3600 * 1000 /* a Retry-After of years is a mistake of its sender */ };

void verdict_set(struct verdict *v, int kind, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	v->kind = kind;
	v->wait_ms = 0;
}

static int64_t delay_of(const struct verdict *v, const struct config_relay *config, int64_t attempts)
{
	struct backoff b;
	backoff_init(&b, config->retry_min_ms, config->retry_max_ms);
	b.failures = attempts > 1 ? (unsigned)(attempts - 1) : 0;
	const int64_t ours = backoff_next_ms(&b), theirs = v->wait_ms < WAIT_MAX_MS ? v->wait_ms : WAIT_MAX_MS;
	return ours > theirs ? ours : theirs;
}

void verdict_apply(const struct verdict *v, const struct config_relay *config, const struct target *target,
		   struct row *row)
{
	switch (v->kind) {
	case VERDICT_SENT:
		row->fate = FATE_SENT;
		return;
	case VERDICT_RETRY:
		row->fate = row->attempts < config->max_attempts ? FATE_RETRY : FATE_DEAD;
		row->delay_ms = delay_of(v, config, row->attempts);
		break;
	case VERDICT_DEAD:
		row->fate = FATE_DEAD;
		break;
	}
	row->error = target_mask(target, v->text);
}

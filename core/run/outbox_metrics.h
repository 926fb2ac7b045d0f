/* What relays show: samples of their metrics, and lines about them for readiness. */
#ifndef RUN_OUTBOX_METRICS_H
#define RUN_OUTBOX_METRICS_H

#include "http/exposition.h"
#include "run/vitals.h"

enum outbox_gauge { OUTBOX_PENDING, OUTBOX_DEAD, OUTBOX_OLDEST, OUTBOX_FENCED };

void outbox_gauges(struct exposition *e, const struct view *view, int which);
void outbox_calls(struct exposition *e, const struct view *view, int unused);
void outbox_seconds(struct exposition *e, const struct view *view, int unused);
void outbox_under_way(struct exposition *e, const struct view *view, int unused);

void outbox_stuck(const struct view *view, struct buffer *out);   /* lanes whose loop does not turn */
void outbox_reasons(const struct view *view, struct buffer *out); /* why a relay does not do its work */
void outbox_notes(const struct view *view, struct buffer *out);   /* what a person should look at */

#endif

/* The process seen from outside: HTTP (metrics, health), the service manager, the watchdog. Called by the main thread
 * only; the HTTP server has threads of its own. */
#ifndef RUN_MONITOR_H
#define RUN_MONITOR_H

#include "base/error.h"
#include "run/vitals.h"

struct monitor;

/* Listens on http_listen, if that is not empty. The view must be there already and outlive the monitor. */
enum status monitor_create(struct monitor **ret, struct view *view, struct error *err) MUST_USE;
void monitor_destroy(struct monitor *m); /* NULL is fine */

void monitor_started(struct monitor *m);                /* all workers run: tells the service manager READY=1 */
void monitor_reloading(struct monitor *m, bool begins); /* or it is over */
void monitor_stopping(struct monitor *m);               /* draining begins */

int64_t monitor_wake_ms(const struct monitor *m); /* on clock_mono_ms(): call monitor_look() by then */

/* Looks after the workers and pings the service manager while all is well. A plugin that hangs ends the process here,
 * by _exit(70), unless it is draining, which has an end of its own. */
void monitor_look(struct monitor *m);

void monitor_tell_status(struct monitor *m); /* a line for `systemctl status` */

#endif

/* Inside the process: what the files of its main thread share. Nothing outside core/run includes this.
 *
 * The main thread alone starts, stops and frees consumers, relays and keepers. It waits in one place (events.c), where
 * signals and requests arrive; a reload waits there too, so that neither the watchdog nor a signal waits for it. */
#ifndef RUN_HOSTING_H
#define RUN_HOSTING_H

#include "run/control.h"
#include "run/crew.h"
#include "run/keeper.h"
#include "run/monitor.h"
#include "run/process.h"

struct process {
	const struct process_options *options;
	struct config *config; /* the one in force */
	struct view view;
	struct stop_order stop; /* of the whole process */
	struct worker_context context;
	struct monitor *monitor;
	struct control *control; /* NULL: runtime_dir could not be used */
	struct keeper **retired; /* told to end; their consumers may still write to them */
	size_t retired_count;
	int64_t started_s;

	/* What arrived at events.c. */
	int signal_fd;
	unsigned ends; /* how often it was told to end */
	const char *end_signal;
	bool reload_wanted;
	bool applying;                  /* a plan */
	struct control_request request; /* a reload; fd -1: none */
};

/* events.c */
enum status events_open(struct process *p, struct error *err) MUST_USE;
void events_close(struct process *p);
/* Waits until deadline_ms or until something arrived, and looks after the workers. */
void events_wait(struct process *p, int64_t deadline_ms);

/* When draining that begins now ends: fetching, and all waiting. */
struct drain {
	int64_t fetch_until_ms, deadline_ms;
};
struct drain process_drain(const struct process *p);
int64_t process_end_margin_ms(const struct process *p);

/* reload.c: reads the configuration again. request: who wants to know; NULL: a signal came. */
void reload(struct process *p, bool dry_run, struct control_request *request);

/* status.c */
void status_sample(struct process *p); /* now and then: rates are worked out from it */
void status_answer(const struct process *p, struct control_request *request);

#endif

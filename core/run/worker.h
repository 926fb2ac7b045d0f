/* One worker: one thread, one AMQP connection, one PostgreSQL connection, one plugin instance. It shares nothing
 * mutable with its siblings but counters and the consumer's word that it is closed. */
#ifndef RUN_WORKER_H
#define RUN_WORKER_H

#include "run/consumer.h"
#include "run/relays.h"
#include <pthread.h>

/* The process starts in probation: maybe the one before it died of a message, which is among those that come back now.
 * One delivery at a time is inside plugin code, counted before it goes in. It ends for all consumers together. */
struct probation {
	pthread_mutex_t inside; /* held while a turn is taken */
	_Atomic int left;       /* consumers that have not met what ends it; 0: over */
	_Atomic int suspects;   /* those of them that stand before a message that was inside when a process died */
	_Atomic int turns;      /* that are being taken, after probation */
	_Atomic bool alone;     /* a parked suspect wants to be applied, or is: nobody begins a turn */
};

struct worker;

/* What all workers of the process share; it must outlive them. */
struct worker_context {
	struct probation probation;
	struct relays relays;
};

enum { WORKER_RETRY = 0 }; /* the number of the worker that applies parked rows when they are due; it has no broker */

/* Starts the thread. */
enum status worker_start(struct worker **ret, struct consumer *consumer, int number, struct worker_context *context,
			 struct error *err) MUST_USE;

void worker_wake(struct worker *w);

/* Waits for the thread until deadline_ms, then frees everything. False: it did not end, and owns its memory still. */
bool worker_join(struct worker *w, int64_t deadline_ms) MUST_USE;

#endif

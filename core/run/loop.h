/* Inside a worker: what its files share. Nothing outside core/run includes this. */
#ifndef RUN_LOOP_H
#define RUN_LOOP_H

#include "amqp/session.h"
#include "base/clock.h"
#include "base/wait.h"
#include "exact/trial.h"
#include "run/tell.h"
#include "run/worker.h"
#include "source/parked.h"
#include "source/queue.h"

struct worker {
	struct waiter waiter; /* must be first */
	struct consumer *consumer;
	const struct config_process *process;
	const struct stop_order *stop;
	struct probation *probation;
	int number;
	pthread_t thread;
	int wake_fd;
	char name[128]; /* effectd/CONSUMER/NUMBER: what the servers show */

	struct plugin_instance *instance;
	struct exact *exact;
	struct queue_source *queue;   /* or */
	struct parked_source *parked; /* the retry worker's */
	struct pg_session *pg;
	struct amqp_session *amqp;
	bool broker_lost; /* the session failed while something else was waited for */
	struct error broker_error;
	bool draining;            /* it knows that it shall end */
	bool consumes;            /* counted in consumer->consuming */
	bool cancelled;           /* the broker was asked to send nothing more */
	bool careful;             /* it consumes one delivery at a time */
	bool parked_suspect;      /* the parked message in hand must be applied alone */
	bool stopped_on_dead;     /* a message is parked that came before all that it would get */
	int64_t suspect_since_ms; /* probation: a suspect is in hand; 0: none */
	int64_t consuming_ms;     /* when it began to consume */
	int64_t heard_ms;         /* probation: when something came the last time, or consuming_ms */
	bool must_test; /* it gave everything back since PostgreSQL failed: a write must succeed before it consumes */
	struct trial *trial;     /* and this as well; NULL: nothing was in hand */
	bool trial_fails;        /* the last time that there was a session for it */
	bool schema_wrong;       /* as the last session found it */
	bool had[PEER_COUNT];    /* a session with this peer before */
	int64_t count_parked_ms; /* when parked messages are counted again */
	int64_t tick_ms;         /* no wait is longer: whoever watches wants to see the loop turn */

	struct {
		int64_t ask_ms;    /* when to ask how many messages are ready */
		bool fed;          /* something was delivered since it consumes */
		bool suspicious;   /* some were, the last time */
		bool stalled;      /* it reconnected for that, and got nothing since */
		unsigned in_a_row; /* reconnected so often for that */
	} stall;

	struct backoff pg_backoff, amqp_backoff, contention;
	struct relays *relays;
	struct tell tell; /* other processes */

	int64_t held_since_ms; /* PostgreSQL is away while it consumes: what came is held since; 0: it is not */
};

/* With a single active consumer the broker lets the next one begin when this one cancels, while messages before are
 * still in hand here. The end of the channel gives them back and lets the next one begin in one step. */
static inline bool worker_keeps_order(const struct worker *w)
{
	return w->consumer->config->order == ORDER_QUEUE;
}

/* wait.c: the one place where the thread waits. */
enum stop worker_ordered(const struct worker *w);
bool worker_must_end(const struct worker *w); /* nothing is waited for any longer */
void worker_serve_broker(struct worker *w);
/* Waits for fd (or -1), for time, or with for_work for anything that the loop must look at. As a waiter's wait(). */
int worker_poll(struct worker *w, int fd, short events, int64_t deadline_ms, bool for_work);
int worker_wait(struct waiter *self, int fd, short events, int64_t deadline_ms);
void worker_pause(struct worker *w, int64_t ms); /* time passes, the broker is served; draining ends it */

/* peers.c: the two connections. False: not now; it has waited already. */
bool worker_have_database(struct worker *w);
bool worker_have_broker(struct worker *w);
void worker_lose_database(struct worker *w);
void worker_leave_broker(struct worker *w);
bool worker_is_program_fault(enum status st, const struct error *err);

/* giveback.c: what goes back to the queue, goes back once. */
void worker_give_back(struct worker *w);
bool worker_should_leave(const struct worker *w); /* the consumer cannot apply anything now, and nothing is in hand */
bool worker_stands_back(struct worker *w);        /* true: it must not consume now; it has waited */
void worker_try_again(struct worker *w);          /* w->trial is set, w->pg is open; afterwards it is not */
void worker_end_trial(struct worker *w);
void worker_consumes(struct worker *w, bool consumes);

/* closure.c: a consumer that must not go on. */
void worker_close_consumer(struct worker *w, bool for_good, const struct error *err);
bool worker_consumer_is_closed(const struct worker *w);
void worker_stop_on_dead(struct worker *w, const struct error *err);
/* Waits until nothing is parked, if it must; before it consumes. True: not yet. */
bool worker_waits_for_parked(struct worker *w);

/* probation.c: who may take a turn with the heart. */
bool worker_in_probation(const struct worker *w);
void worker_meet(struct worker *w);              /* this consumer needs probation no longer */
bool worker_must_wait(struct worker *w);         /* another worker meets the first messages; it has waited a moment */
int64_t worker_quiet_ms(const struct worker *w); /* when to call worker_meet_quiet(), if nothing comes until then */
void worker_meet_quiet(struct worker *w);        /* nothing came for a while: is the queue empty? */
/* False: not now, it has waited a moment. */
bool worker_take_turn(struct worker *w, enum exact_result *ret, struct error *err) MUST_USE;
void worker_drop_suspect(struct worker *w); /* it goes back to its queue, if there is one in hand */
void worker_sweep_journal(struct worker *w);

/* gauge.c: what metrics show of the database. */
void worker_count_parked(struct worker *w); /* if it is time, and its turn */

/* stall.c: does a consumer that gets nothing have nothing to get? */
void worker_stall_begin(struct worker *w);            /* it consumes now */
void worker_stall_fed(struct worker *w);              /* something was delivered */
int64_t worker_stall_wake_ms(const struct worker *w); /* when to call worker_stall_look() */
void worker_stall_look(struct worker *w);

/* show.c: what metrics, health and the watchdog see. */
void worker_show(struct worker *w);
void worker_show_end(struct worker *w); /* the thread ends */

#endif

/* The promise as a model: claim, commit, ack, crash, redelivery, retention, over two keys and three copies.
 *
 * Whatever dies and whenever: an effect commits at most once, and a copy that is acknowledged is applied or parked. The
 * broken variants (-D NAME, see run) each violate that; they show that the model can tell.
 *
 * PostgreSQL: a claim is free, held by a worker's open transaction, or kept by a commit; an INSERT waits while another
 * holds it. RabbitMQ: a copy is ready, out to a worker in an epoch, or gone; everything that is out comes back when the
 * channel ends. The budgets bound how often things go wrong; they are shared, so every mixture is explored. */

#define WORKERS 2
#define KEYS    2
#define COPIES  3
#define NOBODY  255

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef LOST
#define LOST 1
#endif

mtype = { ready, out, gone };      /* a copy in its queue */
mtype = { free, held, kept };      /* a claim */

mtype copy[COPIES] = ready;
byte key_of[COPIES];
byte owner[COPIES] = NOBODY;
bool redelivered[COPIES];          /* only a broken variant looks at it */
byte epoch[WORKERS];               /* of the worker's channel */

mtype claim[KEYS] = free;
byte holder[KEYS] = NOBODY;
byte effects[KEYS];                /* committed */
bool parked[KEYS];                 /* committed */
bool bad[KEYS];                    /* the plugin rejects it */
byte in_hand[KEYS];                /* workers that hold a copy, maybe one that the broker gave to another since */

byte crashes = CRASHES, cuts = CUTS, lost = LOST;

/* The broker takes back what a worker's channel had; the next channel is a new epoch. */
inline end_channel(w)
{
	d_step {
		epoch[w]++;
		i = 0;
		do
		:: i < COPIES ->
			if
			:: copy[i] == out && owner[i] == w ->
				copy[i] = ready; owner[i] = NOBODY;
#ifdef SKIP_CLAIM_UNLESS_REDELIVERED
				redelivered[i] = true
#endif
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* PostgreSQL rolls back what a worker's session had open. */
inline end_session(w)
{
	d_step {
		i = 0;
		do
		:: i < KEYS ->
			if
			:: claim[i] == held && holder[i] == w -> claim[i] = free; holder[i] = NOBODY
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline promise(c)
{
	assert(effects[key_of[c]] == 1 || parked[key_of[c]])
}

/* Everything that the transaction wrote is there at once: the effect with its claim, or the parked row without one. */
inline commit_transaction()
{
	if
	:: staged -> effects[k]++
	:: staged_park -> parked[k] = true
	:: else
	fi;
	assert(effects[k] <= 1);
	if
	:: won && staged -> claim[k] = kept; holder[k] = NOBODY
	:: won && !staged && claim[k] == held && holder[k] == w -> claim[k] = free; holder[k] = NOBODY
	:: else
	fi
}

/* The broker believes an ack. */
inline acknowledge(c)
{
	copy[c] = gone;
	owner[c] = NOBODY;
	promise(c)
}

proctype worker(byte w)
{
	byte i, c, k, mine;
	bool staged, staged_park, won;

consume:
	atomic {
		staged = false; staged_park = false; won = false; c = 0; k = 0; mine = 0;
		if
		:: copy[0] == out && owner[0] == w -> c = 0
		:: copy[1] == out && owner[1] == w -> c = 1
		:: copy[2] == out && owner[2] == w -> c = 2
		:: copy[0] == gone && copy[1] == gone && copy[2] == gone -> goto end
		fi;
		mine = epoch[w]; k = key_of[c]; in_hand[k]++
	}

work:   /* BEGIN and the claim; waits while another transaction holds it */
	atomic {
		staged = false; staged_park = false; won = false;
#ifdef SKIP_CLAIM_UNLESS_REDELIVERED
		if
		:: !redelivered[c] -> won = true; goto apply
		:: else
		fi;
#endif
		if
		:: claim[k] == free -> claim[k] = held; holder[k] = w; won = true
		:: claim[k] == kept
		:: crashes > 0 -> crashes--; goto die /* while it waits */
		fi
	}
	if
	:: !won -> goto commit
	:: else
	fi;
#ifdef CLAIM_IN_ITS_OWN_TRANSACTION
	atomic { claim[k] = kept; holder[k] = NOBODY }
	if
	:: atomic { crashes > 0 -> crashes-- }; goto die
	:: true
	fi;
#endif
#ifdef ACK_BEFORE_COMMIT
	goto settle_early;
#endif
apply:
	atomic {
		if
		:: bad[k] -> staged_park = true
		:: !bad[k] -> staged = true
		fi
	}
	if
	:: atomic { crashes > 0 -> crashes-- }; goto die
	:: true
	fi;
#ifdef ACK_BEFORE_PARKING
	if
	:: staged_park -> atomic {
			if
			:: epoch[w] == mine && copy[c] == out && owner[c] == w -> acknowledge(c)
			:: else
			fi
		}
	:: else
	fi;
#endif
commit:
	atomic {
		if
		:: true ->      /* committed, answered */
			commit_transaction()
		:: lost > 0 ->  /* committed, the answer is lost */
			lost--;
			commit_transaction();
#ifndef ACK_IN_DOUBT
			goto work
#endif
		:: lost > 0 ->  /* not committed, and no answer either */
			lost--;
			end_session(w);
#ifndef ACK_IN_DOUBT
			goto work
#endif
		fi
	}
	if
	:: atomic { crashes > 0 -> crashes-- }; goto die
	:: true
	fi;
settle:
	atomic {
		if
		:: epoch[w] == mine && copy[c] == out && owner[c] == w -> acknowledge(c)
#ifdef STALE_ACK
		/* the tag is good on the new channel as well, where it is another delivery's */
		:: epoch[w] != mine && copy[0] == out && owner[0] == w -> acknowledge(0)
		:: epoch[w] != mine && copy[1] == out && owner[1] == w -> acknowledge(1)
		:: epoch[w] != mine && copy[2] == out && owner[2] == w -> acknowledge(2)
#endif
		:: else
		fi;
		in_hand[k]--;
		goto consume
	}
settle_early:
	atomic {
		if
		:: epoch[w] == mine && copy[c] == out && owner[c] == w -> copy[c] = gone; owner[c] = NOBODY
		:: else
		fi
	}
	goto apply;
die:
	atomic {
		end_session(w);
		end_channel(w);
		in_hand[k]--;
		goto consume
	}
end:
	skip
}

/* The broker and the network: what is ready goes out to some worker, as many as it likes; a channel ends. */
proctype broker()
{
	byte i, w, c;
	do
	:: atomic {
		if
		:: copy[0] == ready -> c = 0
		:: copy[1] == ready -> c = 1
		:: copy[2] == ready -> c = 2
		fi;
		if
		:: w = 0
		:: w = 1
		fi;
		copy[c] = out; owner[c] = w; c = 0; w = 0 }
	:: atomic { cuts > 0 -> cuts--;
		if
		:: w = 0
		:: w = 1
		fi;
		end_channel(w); w = 0 }
	:: copy[0] == gone && copy[1] == gone && copy[2] == gone -> break
	od
}

/* Claims go when no copy can come any more, from the broker or from a worker that slept over one: that is what a window
 * longer than any redelivery means. */
proctype retention()
{
	do
#ifdef WINDOW_TOO_SHORT
	:: atomic { claim[0] == kept -> claim[0] = free; break }
#else
	:: atomic { claim[0] == kept && copy[0] == gone && copy[1] == gone && in_hand[0] == 0 -> claim[0] = free; break }
#endif
	:: copy[0] == gone && copy[1] == gone && copy[2] == gone -> break
	od
}

init {
	atomic {
		key_of[0] = 0; key_of[1] = 0; key_of[2] = 1;
		if
		:: bad[0] = false
		:: bad[0] = true
		fi;
		run worker(0);
		run worker(1);
		run broker();
		run retention()
	}
}

/* At rest nothing is lost: every copy is gone, and every key applied once or parked. */
active proctype rest()
{
	timeout -> atomic {
		assert(copy[0] == gone && copy[1] == gone && copy[2] == gone);
		assert(effects[0] + effects[1] <= 2);
		assert(effects[0] == 1 || parked[0]);
		assert(effects[1] == 1)
	}
}

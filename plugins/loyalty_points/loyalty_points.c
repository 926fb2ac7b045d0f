/* loyalty_points - credits the points of a completed order to its customer, once.
 *
 * An order is worth one point for every full cents_per_point of its total. The points are written twice: as a row of
 * the ledger, and onto the customer's balance. Both are there when the transaction commits, or neither is.
 *
 * The claim that effectd makes keeps a second delivery out for as long as claims are kept. Points are money, so the
 * ledger's own unique key (one_credit_per_order) keeps it out for good: it stands in the table, with no window. */
#include <effectd/plugin.h>
#include <stdlib.h>

enum { ENTRY, BALANCE, BATCH_ENTRIES, BATCH_BALANCES };

static const struct effectd_statement statements[] = {
	/* Decides: no row inserted means that this order was credited before, whatever the claim said. */
	[ENTRY] = { "entry",
		    "INSERT INTO point_ledger (order_id, customer_id, points) VALUES ($1, $2, $3) "
		    "ON CONFLICT (order_id) DO NOTHING",
		    EFFECTD_NEW },

	/* Exactly one row: for a customer that does not exist UPDATE would touch none, report no error, and the points
	 * would be in the ledger but on no balance. So the message is parked instead, and its entry rolled back. */
	[BALANCE] = { "balance", "UPDATE balances SET points = points + $2 WHERE customer_id = $1", EFFECTD_ONE },

	/* The same for a whole batch: a row of the ledger for each message, and one update of each customer.
	 *
	 * Batches of other workers update the same balances. Whoever locks two rows in the other order than somebody
	 * else deadlocks with him and stands still for deadlock_timeout, so the rows are locked first, in order. (The
	 * UPDATE alone would lock in whichever order its join meets them; measured, the locking costs a fifth of these
	 * two statements, a few percent of a delivery.)
	 *
	 * If a customer does not exist, fewer rows are locked than were asked for, and nothing is inserted. So the
	 * number of inserted rows is the number of messages only if each order is new and each customer exists: then
	 * the batch means what apply() would have done one by one. In any other case effectd finds the odd message by
	 * halving the batch.
	 *
	 * Nothing joins two unknown numbers of rows: whether statistics are fresh, missing or years old, the locks and
	 * the update look each customer up, or read balances once. */
	[BATCH_ENTRIES] = { "batch_entries",
			    "INSERT INTO point_ledger (order_id, customer_id, points) "
			    "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) "
			    "WHERE (SELECT count(*) FROM (SELECT FROM balances WHERE customer_id = ANY ($2) "
			    "                             ORDER BY customer_id FOR NO KEY UPDATE) AS locked) "
			    "    = (SELECT count(DISTINCT id) FROM unnest($2) AS id) "
			    "ON CONFLICT (order_id) DO NOTHING",
			    EFFECTD_EACH },
	[BATCH_BALANCES] = { "batch_balances",
			     "UPDATE balances SET points = balances.points + earned.points "
			     "FROM (SELECT customer_id, sum(points)::bigint AS points "
			     "      FROM unnest($1::bigint[], $2::bigint[]) AS credit (customer_id, points) "
			     "      GROUP BY customer_id) AS earned "
			     "WHERE balances.customer_id = earned.customer_id",
			     EFFECTD_SOME },
};

static const struct effectd_option options[] = {
	{ .name = "cents_per_point",
	  .type = EFFECTD_OPTION_INT,
	  .fallback = "100",
	  .min = 1,
	  .max = INT64_MAX,
	  .help = "how much of an order's total earns one point" },
};

/* One instance a worker, so its arrays need no lock. They are kept from batch to batch. */
struct loyalty {
	int64_t cents_per_point;
	int64_t *order_ids, *customer_ids, *points; /* one piece of memory, which order_ids owns */
	size_t room;                                /* elements of each */
};

static bool loyalty_configure(struct effectd_setup *setup, void **ret_instance)
{
	struct loyalty *self = calloc(1, sizeof(*self));
	if (!self) {
		effectd_setup_fail(setup, "out of memory");
		return false;
	}
	self->cents_per_point = effectd_option_int64(setup, "cents_per_point");
	*ret_instance = self;
	return true;
}

static void loyalty_destroy(void *instance)
{
	struct loyalty *self = instance;
	free(self->order_ids);
	free(self);
}

static bool make_room(struct loyalty *self, size_t count)
{
	if (count <= self->room)
		return true;
	int64_t *memory = calloc(count, 3 * sizeof(*memory));
	if (!memory)
		return false;
	free(self->order_ids);
	self->order_ids = memory;
	self->customer_ids = memory + count;
	self->points = memory + 2 * count;
	self->room = count;
	return true;
}

static effectd_verdict loyalty_key(struct effectd_call *call, const struct effectd_message *msg,
				   struct effectd_key *key)
{
	struct effectd_str event;
	int64_t order_id, customer_id;

	/* A body that is not JSON has no members; effectd parks it and says what is wrong with it. */
	if (!effectd_json_text(msg, "event", &event))
		return effectd_reject(call, "event must be a text");
	if (!effectd_str_equals(event, "OrderCompleted"))
		return effectd_ignore(call, "not an OrderCompleted event");
	if (!effectd_json_int64(msg, "order_id", &order_id) || !effectd_json_int64(msg, "customer_id", &customer_id))
		return effectd_reject(call, "order_id and customer_id must be whole numbers");

	key->lock_order = customer_id; /* the row that orders of one customer share */
	key->has_event_time = effectd_json_time(msg, "completed_at", &key->event_time_us);
	return effectd_key_format(key, "order-completed:%" PRId64, order_id);
}

struct credit {
	int64_t order_id, customer_id, points;
};

/* Cents are whole numbers from the body to the table. A total of 12.5 or "1250" is refused, not rounded or guessed. */
static effectd_verdict read_credit(struct effectd_call *call, const struct effectd_message *msg, struct credit *ret)
{
	const struct loyalty *self = call->instance;
	int64_t total_cents;

	if (!effectd_json_int64(msg, "order_id", &ret->order_id) ||
	    !effectd_json_int64(msg, "customer_id", &ret->customer_id))
		return effectd_reject(call, "order_id and customer_id must be whole numbers");
	if (!effectd_json_int64(msg, "total_cents", &total_cents) || total_cents < 0)
		return effectd_reject(call, "total_cents must be a whole number, zero or more");
	ret->points = total_cents / self->cents_per_point;
	return EFFECTD_OK;
}

static effectd_verdict loyalty_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	struct credit credit;
	effectd_verdict verdict = read_credit(call, msg, &credit);
	if (verdict != EFFECTD_OK)
		return verdict;
	effectd_exec(call, ENTRY, effectd_int8(credit.order_id), effectd_int8(credit.customer_id),
		     effectd_int8(credit.points));
	effectd_exec(call, BALANCE, effectd_int8(credit.customer_id), effectd_int8(credit.points));
	return EFFECTD_OK;
}

static effectd_verdict loyalty_apply_batch(struct effectd_call *call, const struct effectd_message *const *msgs,
					   size_t count)
{
	struct loyalty *self = call->instance;

	if (!make_room(self, count))
		return effectd_retry(call, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct credit credit;
		effectd_verdict verdict = read_credit(call, msgs[i], &credit);
		if (verdict != EFFECTD_OK)
			return verdict;
		self->order_ids[i] = credit.order_id;
		self->customer_ids[i] = credit.customer_id;
		self->points[i] = credit.points;
	}
	effectd_exec(call, BATCH_ENTRIES, effectd_int8_array(self->order_ids, count),
		     effectd_int8_array(self->customer_ids, count), effectd_int8_array(self->points, count));
	effectd_exec(call, BATCH_BALANCES, effectd_int8_array(self->customer_ids, count),
		     effectd_int8_array(self->points, count));
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.consumer = "loyalty", .version = "1.0", .description = "credits the points of completed orders",
	       EFFECTD_STATEMENTS(statements), EFFECTD_OPTIONS(options), .configure = loyalty_configure,
	       .destroy = loyalty_destroy, .key = loyalty_key, .apply = loyalty_apply,
	       .apply_batch = loyalty_apply_batch);

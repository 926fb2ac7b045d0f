/* analytics - adds up what was sold: orders and total of each day and currency.
 *
 * Every order of a day updates the same row, so workers would stand in line behind each other's transactions. A batch
 * is therefore added up here first and touches each row once.
 *
 * Money stays exact: whole cents are added as integers and handed over as decimal text, which PostgreSQL's numeric
 * takes digit by digit. No double ever holds an amount. */
#include <effectd/plugin.h>
#include <stdlib.h>

#define US_PER_DAY INT64_C(86400000000)

enum { ADD_ONE, ADD_MANY };

/* Several messages add to one row, so a batch has fewer rows than messages: SOME, and no decides statement here. That a
 * message is counted once is the claim's doing. */
static const struct effectd_statement statements[] = {
	[ADD_ONE] = { "add_one",
		      "INSERT INTO daily_sales (day, currency, orders, total) VALUES ($1, $2, 1, $3) "
		      "ON CONFLICT (day, currency) DO UPDATE "
		      "SET orders = daily_sales.orders + excluded.orders, total = daily_sales.total + excluded.total",
		      EFFECTD_ONE },
	/* Rows are inserted, and thereby locked, in the order of the arrays. */
	[ADD_MANY] = { "add_many",
		       "INSERT INTO daily_sales (day, currency, orders, total) "
		       "SELECT * FROM unnest($1::date[], $2::text[], $3::bigint[], $4::numeric[]) "
		       "ON CONFLICT (day, currency) DO UPDATE "
		       "SET orders = daily_sales.orders + excluded.orders, total = daily_sales.total + excluded.total",
		       EFFECTD_SOME },
};

/* What one message, or several of one day and currency, add. */
struct sale {
	int64_t row; /* day and currency as one number, in the order in which rows are locked */
	int64_t orders, cents;
	int32_t day;
	char currency[3];
};

/* Enough for any int64: 17 digits, a point, 2 digits. */
struct amount {
	char text[32];
};

/* One instance a worker; its arrays are kept from batch to batch. */
struct analytics {
	size_t room;
	struct sale *sales;
	int32_t *days;
	struct effectd_str *currencies, *totals;
	int64_t *orders;
	struct amount *amounts; /* what totals point to */
};

static void free_arrays(struct analytics *self)
{
	free(self->sales);
	free(self->days);
	free(self->currencies);
	free(self->totals);
	free(self->orders);
	free(self->amounts);
	memset(self, 0, sizeof(*self));
}

static bool make_room(struct analytics *self, size_t count)
{
	if (count <= self->room)
		return true;
	free_arrays(self);
	self->sales = calloc(count, sizeof(*self->sales));
	self->days = calloc(count, sizeof(*self->days));
	self->currencies = calloc(count, sizeof(*self->currencies));
	self->totals = calloc(count, sizeof(*self->totals));
	self->orders = calloc(count, sizeof(*self->orders));
	self->amounts = calloc(count, sizeof(*self->amounts));
	if (!self->sales || !self->days || !self->currencies || !self->totals || !self->orders || !self->amounts) {
		free_arrays(self);
		return false;
	}
	self->room = count;
	return true;
}

static bool analytics_configure(struct effectd_setup *setup, void **ret_instance)
{
	*ret_instance = calloc(1, sizeof(struct analytics));
	if (!*ret_instance)
		effectd_setup_fail(setup, "out of memory");
	return *ret_instance != NULL;
}

static void analytics_destroy(void *instance)
{
	free_arrays(instance);
	free(instance);
}

/* "12.34" of 1234 cents. */
static struct effectd_str amount_text(struct amount *amount, int64_t cents)
{
	int len = snprintf(amount->text, sizeof(amount->text), "%" PRId64 ".%02" PRId64, cents / 100, cents % 100);
	return (struct effectd_str){ amount->text, (size_t)len };
}

static bool read_currency(const struct effectd_message *msg, char ret[3])
{
	struct effectd_str s;
	if (!effectd_json_text(msg, "currency", &s) || s.len != 3)
		return false;
	for (size_t i = 0; i < 3; i++)
		if (s.data[i] < 'A' || s.data[i] > 'Z')
			return false;
	memcpy(ret, s.data, 3);
	return true;
}

static effectd_verdict read_sale(struct effectd_call *call, const struct effectd_message *msg, struct sale *ret)
{
	int64_t completed_us;

	if (!effectd_json_int64(msg, "total_cents", &ret->cents) || ret->cents < 0)
		return effectd_reject(call, "total_cents must be a whole number, zero or more");
	if (!read_currency(msg, ret->currency))
		return effectd_reject(call, "currency must be three capital letters");
	if (!effectd_json_time(msg, "completed_at", &completed_us))
		return effectd_reject(call, "completed_at must be an RFC 3339 time such as 2026-11-30T12:00:00Z");

	ret->orders = 1;
	/* Division rounds towards zero; before 1970 that would be up, into the next day. */
	ret->day = (int32_t)(completed_us / US_PER_DAY - (completed_us % US_PER_DAY < 0));
	int64_t code = 0;
	for (size_t i = 0; i < 3; i++)
		code = code * 26 + (ret->currency[i] - 'A');
	ret->row = (int64_t)ret->day * (26 * 26 * 26) + code;
	return EFFECTD_OK;
}

/* A message that cannot be counted is rejected here already, because its place in the order of locks depends on the
 * same fields; so apply_batch() never meets a bad one and batches stay whole. */
static effectd_verdict analytics_key(struct effectd_call *call, const struct effectd_message *msg,
				     struct effectd_key *key)
{
	struct effectd_str event;
	struct sale sale;
	int64_t order_id;

	if (!effectd_json_text(msg, "event", &event))
		return effectd_reject(call, "event must be a text");
	if (!effectd_str_equals(event, "OrderCompleted"))
		return effectd_ignore(call, "not an OrderCompleted event");
	if (!effectd_json_int64(msg, "order_id", &order_id))
		return effectd_reject(call, "order_id must be a whole number");
	effectd_verdict verdict = read_sale(call, msg, &sale);
	if (verdict != EFFECTD_OK)
		return verdict;

	key->lock_order = sale.row;
	key->has_event_time = effectd_json_time(msg, "completed_at", &key->event_time_us);
	return effectd_key_format(key, "order-completed:%" PRId64, order_id);
}

static effectd_verdict analytics_apply(struct effectd_call *call, const struct effectd_message *msg)
{
	struct sale sale;
	struct amount amount;
	effectd_verdict verdict = read_sale(call, msg, &sale);
	if (verdict != EFFECTD_OK)
		return verdict;
	effectd_exec(call, ADD_ONE, effectd_date(sale.day),
		     effectd_text((struct effectd_str){ sale.currency, sizeof(sale.currency) }),
		     effectd_numeric(amount_text(&amount, sale.cents)));
	return EFFECTD_OK;
}

static int compare_rows(const void *left, const void *right)
{
	const struct sale *a = left, *b = right;
	return a->row < b->row ? -1 : a->row > b->row;
}

/* Adds up the sales of each row: sorts them, folds neighbours into one, returns how many are left; 0 if a sum does not
 * fit (a batch is never empty). */
static size_t fold(struct sale *sales, size_t count)
{
	size_t last = 0;

	qsort(sales, count, sizeof(*sales), compare_rows);
	for (size_t i = 1; i < count; i++) {
		if (sales[i].row != sales[last].row) {
			sales[++last] = sales[i];
			continue;
		}
		sales[last].orders++;
		if (__builtin_add_overflow(sales[last].cents, sales[i].cents, &sales[last].cents))
			return 0;
	}
	return last + 1;
}

static effectd_verdict analytics_apply_batch(struct effectd_call *call, const struct effectd_message *const *msgs,
					     size_t count)
{
	struct analytics *self = call->instance;

	if (!make_room(self, count))
		return effectd_retry(call, "out of memory");
	for (size_t i = 0; i < count; i++) {
		effectd_verdict verdict = read_sale(call, msgs[i], &self->sales[i]);
		if (verdict != EFFECTD_OK)
			return verdict;
	}
	size_t rows = fold(self->sales, count);
	if (rows == 0)
		return effectd_retry(call, "a sum of this batch does not fit into 64 bits");
	for (size_t i = 0; i < rows; i++) {
		const struct sale *sale = &self->sales[i];
		self->days[i] = sale->day;
		self->currencies[i] = (struct effectd_str){ sale->currency, sizeof(sale->currency) };
		self->orders[i] = sale->orders;
		self->totals[i] = amount_text(&self->amounts[i], sale->cents);
	}
	effectd_exec(call, ADD_MANY, effectd_date_array(self->days, rows), effectd_text_array(self->currencies, rows),
		     effectd_int8_array(self->orders, rows), effectd_numeric_array(self->totals, rows));
	return EFFECTD_OK;
}

EFFECTD_PLUGIN(.consumer = "analytics", .version = "1.0", .description = "daily sales totals of each currency",
	       EFFECTD_STATEMENTS(statements), .configure = analytics_configure, .destroy = analytics_destroy,
	       .key = analytics_key, .apply = analytics_apply, .apply_batch = analytics_apply_batch);

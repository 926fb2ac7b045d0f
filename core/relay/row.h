/* One outbox row in a relay's hands, and lists of them. A row belongs to the list, or to the driver, that holds it. */
#ifndef RELAY_ROW_H
#define RELAY_ROW_H

#include "base/text.h"
#include "relay/relay.h"

/* What is to be written into the row. */
enum fate {
	FATE_SENT,
	FATE_RETRY, /* the next attempt in delay_ms */
	FATE_DEAD,  /* waits for a person */
	FATE_BACK,  /* it was not called: as if it had never been leased */
};

struct row {
	struct row *next;
	struct relay_kind *kind;
	int64_t id;
	int64_t lease;     /* outbox.leased_until as PostgreSQL has it: the fence of the mark */
	int64_t until_ms;  /* our lease, on clock_mono_ms(): not later than PostgreSQL's */
	int64_t attempts;  /* this one counted */
	struct str key;    /* idempotency key */
	struct str digest; /* SHA-256 of it, hexadecimal, where the target cannot take the key */
	struct str body, headers /* a JSON object */, ordering_key;
	size_t bytes; /* of memory */

	enum fate fate;
	int64_t delay_ms;
	char *error; /* why it was not sent: row_free() frees it; NULL: nothing to say */

	int64_t begun_us; /* the call, on clock_mono_us() */
	size_t slot;      /* among the calls of its lane */
	uint64_t number;  /* the driver's */
};

struct rows {
	struct row *first, **end;
	size_t count, bytes;
};

static inline void rows_init(struct rows *list)
{
	*list = (struct rows){ .end = &list->first };
}

static inline void rows_add(struct rows *list, struct row *row)
{
	row->next = NULL;
	*list->end = row;
	list->end = &row->next;
	list->count++;
	list->bytes += row->bytes;
}

static inline struct row *rows_take(struct rows *list)
{
	struct row *row = list->first;
	if (!row)
		return NULL;
	list->first = row->next;
	if (!list->first)
		list->end = &list->first;
	list->count--;
	list->bytes -= row->bytes;
	return row;
}

/* All of `from` behind what `to` has. */
static inline void rows_move(struct rows *to, struct rows *from)
{
	for (struct row *row; (row = rows_take(from));)
		rows_add(to, row);
}

static inline void row_free(struct row *row)
{
	free(row->error);
	free(row);
}

static inline void rows_free(struct rows *list)
{
	for (struct row *row; (row = rows_take(list));)
		row_free(row);
}

#endif

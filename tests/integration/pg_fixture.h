/* What the drivers of core/pg share: sessions with the private server that CONNINFO names, and faults done to their own
 * backends. Whatever does not work fails the test. */
#ifndef PG_FIXTURE_H
#define PG_FIXTURE_H

#include "pg/session.h"
#include "pg/transaction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

extern const struct pg_params usual;

const char *conninfo(void);
struct pg_session *open_with(struct pg_params params);
struct pg_session *open_usual(void);
enum status try_open(struct pg_params params, struct error *err);

void must(enum status st, const struct error *err);
struct pg_result run(struct pg_session *s, const char *sql);
int64_t number_of(struct pg_session *s, const char *sql);
void prepare(struct pg_session *s, const char *name, const char *sql);
void send_named(struct pg_session *s, const char *name);
void expect_kind(struct pg_session *s, enum pg_kind kind);

void begin(struct pg_session *s);
uint64_t begin_and_write(struct pg_session *s); /* its transaction id */
enum pg_fate fate_of(uint64_t xid);

int stopping_wait(struct waiter *self, int fd, short events, int64_t deadline_ms);
void terminate(struct pg_session *victim);
void stop_backend(const struct pg_session *s);
int continue_backend(void **state); /* a teardown: a backend left stopped would keep its server from ending */

int make_tables(void **state); /* a group's setup */

#endif

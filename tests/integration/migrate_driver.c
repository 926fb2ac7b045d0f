/* The migration runner with migrations of its own, for what sql/ does not have: one outside a transaction, one that
 * fails, schemas newer than the program. test_migrate.py gives an empty database in CONNINFO. */
#include "pg/migrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* In place of those that are compiled into core/pg. */
const struct migration migrations[] = {
	{ .version = 1,
	  .name = "001_first",
	  .checksum = "one",
	  .oldest_runnable = 1,
	  .sql = "CREATE SCHEMA effectd;\n"
		 "CREATE TABLE effectd.schema_version (version int PRIMARY KEY, name text, checksum text,\n"
		 " applied_at timestamptz DEFAULT now(), oldest_runnable int);\n"
		 "CREATE TABLE effectd.things (id int)" },
	{ .version = 2,
	  .name = "002_index",
	  .checksum = "two",
	  .oldest_runnable = 1,
	  .outside_transaction = true,
	  .sql = "-- one statement\nCREATE INDEX CONCURRENTLY things_id ON effectd.things (id);\n" },
	{ .version = 3,
	  .name = "003_wrong",
	  .checksum = "three",
	  .oldest_runnable = 3,
	  .sql = "CREATE TABLE effectd.left_behind (id int);\n"
		 "-- \u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\n"
		 "SELECT nothing_there FROM effectd.things;\n" },
};
const size_t migration_count = ARRAY_LEN(migrations);

static struct pg_session *session(void)
{
	const struct pg_params params = { .conninfo = getenv("CONNINFO"), .application_name = "effectd/test" };
	struct pg_session *s = NULL;
	struct error err = { 0 };
	if (pg_session_open(&s, &params, &wait_alone, &err) != ST_OK)
		fail_msg("no session: %s", err.text);
	return s;
}

static int64_t count_of(const char *sql)
{
	struct pg_session *s = session();
	struct pg_result r = { 0 };
	struct error err = { 0 };
	if (pg_query(s, sql, NULL, 0, &r, &err) != ST_OK)
		fail_msg("%s: %s", sql, err.text);
	int64_t count = r.kind == PG_ROWS ? pg_value_int8(&r, 0, 0) : 0;
	pg_session_destroy(s);
	return count;
}

static enum status require(struct error *err)
{
	struct pg_session *s = session();
	*err = (struct error){ 0 };
	enum status st = migrate_require(s, err);
	pg_session_destroy(s);
	return st;
}

static void count_applied(void *arg, const struct migration *m, int64_t took_ms)
{
	(void)m, (void)took_ms;
	++*(int *)arg;
}

static void an_empty_database_must_be_migrated_first(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(require(&err), ST_INVALID);
	assert_string_equal(err.text, "the schema is at version 0, this effectd needs 3: run `effectd migrate up`");
}

static void what_comes_before_a_failure_stays_and_the_failure_leaves_nothing(void **state)
{
	(void)state;
	struct pg_session *s = session();
	struct error err = { 0 };
	int applied = 0;
	assert_int_equal(migrate_up(s, count_applied, &applied, &err), ST_REFUSED);
	pg_session_destroy(s);
	assert_int_equal(applied, 2);
	assert_string_equal(err.sqlstate, "42703");
	assert_non_null(strstr(err.text, "003_wrong.sql: line 3: column \"nothing_there\" does not exist"));
	assert_int_equal(count_of("SELECT count(*) FROM effectd.schema_version"), 2);
	assert_int_equal(count_of("SELECT count(*) FROM pg_indexes WHERE indexname = 'things_id'"), 1);
	assert_int_equal(count_of("SELECT count(*) FROM pg_tables WHERE tablename = 'left_behind'"), 0);
}

static void an_older_schema_is_refused_with_what_to_do(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(require(&err), ST_INVALID);
	assert_string_equal(err.text, "the schema is at version 2, this effectd needs 3: run `effectd migrate up`");
}

static void a_newer_schema_is_fine_while_it_lets_this_version_run(void **state)
{
	(void)state;
	struct error err;
	count_of("INSERT INTO effectd.schema_version VALUES (3, '003_wrong', 'three', now(), 3)");
	assert_int_equal(require(&err), ST_OK);
	count_of("INSERT INTO effectd.schema_version VALUES (4, '004_later', 'four', now(), 3)");
	assert_int_equal(require(&err), ST_OK);
	count_of("INSERT INTO effectd.schema_version VALUES (5, '005_breaks', 'five', now(), 5)");
	count_of("INSERT INTO effectd.schema_version VALUES (6, '006_later', 'six', now(), 5)");
	assert_int_equal(require(&err), ST_INVALID);
	assert_string_equal(err.text, "the schema is at version 6, this effectd knows 3: use a newer effectd");
}

int main(void)
{
	if (!getenv("CONNINFO")) {
		fprintf(stderr, "CONNINFO must name an empty database on a private PostgreSQL\n");
		return 2;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_database_must_be_migrated_first),
		cmocka_unit_test(what_comes_before_a_failure_stays_and_the_failure_leaves_nothing),
		cmocka_unit_test(an_older_schema_is_refused_with_what_to_do),
		cmocka_unit_test(a_newer_schema_is_fine_while_it_lets_this_version_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Statements before PostgreSQL sees them: nothing hides behind comments, strings or names. */
#include "plugin_fixture.h"

static enum status check(const char *sql, struct error *err)
{
	const struct effectd_statement statement = { "s", sql, EFFECTD_ANY, EFFECTD_OTHERWISE_REJECT };
	return plugin_check_statement(&statement, err);
}

static void statements_that_leave_the_transaction_alone_are_allowed(void **state)
{
	(void)state;
	static const char *const good[] = {
		"SELECT 1",
		"insert into t values ($1, $2)",
		"Update t SET a = 1",
		"DELETE FROM t",
		"MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
		"WITH x AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT * FROM x",
		"VALUES (1)",
		"((SELECT 1) UNION (SELECT 2))",
		" \n\t-- a comment; COMMIT\r\n/* another /* nested */ ; */ SELECT 1",
		"/**/SELECT 1",
		"SELECT/**/1",
		"SELECT 1;",
		"SELECT 1 ; -- done;\n ;; /* ; */ ",
		"SELECT ';', ';;'''';', E'\\';', \"a;\"\"b\" FROM t",
		"SELECT U&'\\'",
		"SELECT $$;$$, $a$ ; $b$ ; $a$, $1",
		"SELECT a$b$c, $1;",
		"SELECT name'x;y'",
		"SELECT 1 /* never ends ; SELECT 2",
		"SELECT 'never ends ; SELECT 2",
		"SELECT $q$ never ends ; SELECT 2",
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct error err;
		if (check(good[i], &err) != ST_OK)
			fail_msg("%s: %s", good[i], err.text);
	}
}

static void anything_else_is_refused_by_its_first_word(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"COMMIT",
		"ROLLBACK",
		"BEGIN",
		"SAVEPOINT a",
		"SET search_path = x",
		"CREATE TABLE t ()",
		"TRUNCATE t",
		"COPY t FROM stdin",
		"NOTIFY x",
		"LISTEN x",
		"DO $$BEGIN END$$",
		"CALL p()",
		"LOCK t",
		"PREPARE TRANSACTION 'x'",
		"EXPLAIN SELECT 1",
		"/* SELECT */ COMMIT",
		"/* a /* SELECT */ */ COMMIT",
		"-- SELECT\nCOMMIT",
		"-- SELECT\rCOMMIT",
		"(COMMIT",
		"SELECTED",
		"SELECT_1",
		"",
		"  ",
		"-- SELECT 1",
		"/* SELECT 1",
		";SELECT 1",
		"\"select\" 1",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err;
		if (check(bad[i], &err) != ST_INVALID)
			fail_msg("%s was allowed", bad[i]);
		assert_non_null(strstr(err.text, "the transaction is effectd's"));
	}
}

static void two_statements_in_one_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"SELECT 1; COMMIT",           "SELECT 1;COMMIT;",           "SELECT ';'; COMMIT",
		"SELECT ''';'; COMMIT",       "SELECT E'\\\\'; COMMIT --'", "SELECT '\\'; COMMIT --'",
		"SELECT \"a\"; COMMIT",       "SELECT $$;$$; COMMIT",       "SELECT $1; COMMIT -- $1",
		"SELECT $a$ $b$ $a$; COMMIT", "SELECT a$$; COMMIT --$$",    "SELECT 1 /* ; */; /* ; */ COMMIT",
		"SELECT 1 -- '\n; COMMIT",    "SELECT typE'a'; COMMIT --'",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct error err;
		if (check(bad[i], &err) != ST_INVALID)
			fail_msg("%s was allowed", bad[i]);
		assert_non_null(strstr(err.text, "holds more than one SQL statement"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statements_that_leave_the_transaction_alone_are_allowed),
		cmocka_unit_test(anything_else_is_refused_by_its_first_word),
		cmocka_unit_test(two_statements_in_one_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

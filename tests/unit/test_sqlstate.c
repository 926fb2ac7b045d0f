/* Every row of the contract's table of faults (section 2), and the codes that lie just beside a row. */
#include "pg/sqlstate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct fault_kind kind_of(const char *sqlstate, bool fatal)
{
	struct error err = { .status = ST_REFUSED, .fatal = fatal };
	snprintf(err.sqlstate, sizeof(err.sqlstate), "%s", sqlstate);
	return pg_sqlstate_kind(&err);
}

/* codes: separated by blanks. */
static void expect(enum fault_class class, unsigned traits, const char *codes)
{
	char list[500];
	snprintf(list, sizeof(list), "%s", codes);
	char *rest = list;
	for (const char *code; (code = strsep(&rest, " "));) {
		struct fault_kind kind = kind_of(code, false);
		if (kind.class != class || kind.traits != traits)
			fail_msg("%s: class %d, traits %u; expected %d, %u", code, kind.class, kind.traits, class,
				 traits);
	}
}

static void environment_faults_are_nobodys(void **state)
{
	(void)state;
	expect(FAULT_ENVIRONMENT, 0, "08000 08001 08003 08004 08006 08007"); /* connection */
	expect(FAULT_ENVIRONMENT, 0, "25P03");                               /* idle for too long */
	expect(FAULT_ENVIRONMENT, 0, "28000 28P01 3D000");                   /* who we are, and where */
	expect(FAULT_ENVIRONMENT, 0, "40000 40002 40003");                   /* rolled back */
	expect(FAULT_ENVIRONMENT, 0, "53000 53100 53300 53400");             /* no disk, no connections */
	expect(FAULT_ENVIRONMENT, 0, "55006 57P01 57P02 57P03 57P04 57P05");
	expect(FAULT_ENVIRONMENT, 0, "58000 58030 58P01 58P02 72000");
}

static void what_a_session_may_be_the_cause_of_is_marked(void **state)
{
	(void)state;
	expect(FAULT_ENVIRONMENT, FAULT_TRAIT_SESSION, "25006");
}

static void contention_is_environment_and_halves_batches(void **state)
{
	(void)state;
	expect(FAULT_ENVIRONMENT, FAULT_TRAIT_CONTENTION, "40001 40P01");
}

static void what_a_messages_own_statement_can_bring_about_is_marked(void **state)
{
	(void)state;
	expect(FAULT_ENVIRONMENT, FAULT_TRAIT_OWN, "57014 53200 55P03");
}

static void message_faults_park_one_message(void **state)
{
	(void)state;
	expect(FAULT_MESSAGE, 0, "21000");
	expect(FAULT_MESSAGE, 0, "22000 22001 22003 22007 22012 22021 22023 2202E 22P02 22P05 22032");
	expect(FAULT_MESSAGE, 0, "23000 23001 23502 23503 23514");
	expect(FAULT_MESSAGE, 0, "38000 38001 39000 39P01 44000 54000 54001 54011 54023");
	expect(FAULT_MESSAGE, 0, "P0000 P0001 P0002 P0003 P0004");
}

static void unique_violations_count_only_the_second_time(void **state)
{
	(void)state;
	expect(FAULT_MESSAGE, FAULT_TRAIT_TWICE, "23505 23P01");
}

static void classes_that_are_not_postgresqls_were_raised_by_somebodys_function(void **state)
{
	(void)state;
	expect(FAULT_MESSAGE, 0, "12345 99001 AB123 U0001 P1000 ZZZZZ 4Z000 7Z000");
}

static void program_faults_stop_the_consumer(void **state)
{
	(void)state;
	expect(FAULT_PROGRAM, 0, "08P01 22P03"); /* beside 08* and 22* */
	expect(FAULT_PROGRAM, 0, "42501 42601 42703 42804 42883 42P01 42P05 42P18 42000");
	expect(FAULT_PROGRAM, 0, "XX000 XX001 XX002 F0000 HV000 HV00B");
	expect(FAULT_PROGRAM, 0, "0L000 0P000 0Z002 09000 0B000 0F001 20000 24000 27000 2B000 2D000 2F005 34000");
	expect(FAULT_PROGRAM, 0, "25000 25001 25P01 25P02 3B001 3D001 3F000 44001 55000 55P02 57000 57P10 72001");
	expect(FAULT_PROGRAM, 0, "00000 01000 02000 03000 10608");
}

static void a_lost_prepared_statement_may_be_cured_by_a_fresh_session(void **state)
{
	(void)state;
	expect(FAULT_PROGRAM, FAULT_TRAIT_SESSION, "26000 0A000");
	expect(FAULT_PROGRAM, 0, "26001 0A001");
}

static void fatal_and_panic_are_environment_whatever_the_code(void **state)
{
	(void)state;
	static const char *const codes[] = { "23505", "42601", "XX000", "P0001", "ZZZZZ", "26000", "57P01", "08P01" };
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		assert_int_equal(kind_of(codes[i], true).class, FAULT_ENVIRONMENT);
		assert_int_equal(kind_of(codes[i], true).traits, 0);
	}
	assert_int_equal(kind_of("53200", true).traits, FAULT_TRAIT_OWN);
}

static void no_code_is_a_program_fault(void **state)
{
	(void)state;
	expect(FAULT_PROGRAM, 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_faults_are_nobodys),
		cmocka_unit_test(what_a_session_may_be_the_cause_of_is_marked),
		cmocka_unit_test(contention_is_environment_and_halves_batches),
		cmocka_unit_test(what_a_messages_own_statement_can_bring_about_is_marked),
		cmocka_unit_test(message_faults_park_one_message),
		cmocka_unit_test(unique_violations_count_only_the_second_time),
		cmocka_unit_test(classes_that_are_not_postgresqls_were_raised_by_somebodys_function),
		cmocka_unit_test(program_faults_stop_the_consumer),
		cmocka_unit_test(a_lost_prepared_statement_may_be_cured_by_a_fresh_session),
		cmocka_unit_test(fatal_and_panic_are_environment_whatever_the_code),
		cmocka_unit_test(no_code_is_a_program_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

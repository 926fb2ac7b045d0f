/* Fault points, as compiled in by the build option fault_points.
 *
 * What is armed is written before main and only read later, but for the count of passes, which is atomic: threads
 * meet no lock here that could hide a race of theirs. */
#include "base/fault.h"

#include "base/log.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME_OF(point, arg) #point,
static const char *const point_names[] = { FAULT_POINTS(NAME_OF, ) NULL };

struct armed {
	bool (*act)(int64_t argument); /* NULL: nothing armed here */
	int64_t argument;
	int64_t nth; /* 0: every time */
	_Atomic int64_t passes;
};

static struct armed armed[ARRAY_LEN(point_names) - 1];

static bool act_exit(int64_t code)
{
	_exit((int)code);
}

static bool act_delay(int64_t ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) != 0)
		;
	return false;
}

static bool act_error(int64_t unused)
{
	(void)unused;
	return true;
}

static const struct action {
	const char *name;
	bool (*act)(int64_t argument);
	enum { ARG_NONE, ARG_OPTIONAL, ARG_NEEDED } arg;
	int64_t arg_default, arg_max;
} actions[] = {
	{ "exit", act_exit, ARG_OPTIONAL, FAULT_EXIT_CODE, 255 },
	{ "delay", act_delay, ARG_NEEDED, 0, 3600 * 1000 },
	{ "error", act_error, ARG_NONE, 0, 0 },
};

static struct armed *armed_find(const char *name)
{
	for (size_t i = 0; point_names[i]; i++) {
		if (strcmp(point_names[i], name) == 0)
			return &armed[i];
	}
	return NULL;
}

static const struct action *action_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	}
	return NULL;
}

/* Ends *s at the first of mark and returns what stood behind it, NULL when there is none. */
static char *split(char *s, char mark)
{
	char *at = strchr(s, mark);

	if (at)
		*at++ = '\0';
	return at;
}

/* name=action[:arg][@nth]; entry is taken apart in place. */
static enum status fault_arm_one(char *entry, struct error *err)
{
	char *action_name = split(entry, '=');
	char *nth = action_name ? split(action_name, '@') : NULL;
	char *arg = action_name ? split(action_name, ':') : NULL;
	struct armed *a = armed_find(entry);
	const struct action *action = action_name ? action_find(action_name) : NULL;

	if (!a)
		return error_set(err, ST_INVALID, "no fault point is called %s", entry);
	if (!action)
		return error_set(err, ST_INVALID, "%s: what shall happen there? exit, delay:MS or error", entry);
	if (a->act)
		return error_set(err, ST_INVALID, "%s is there twice", entry);

	int64_t argument = action->arg_default, nth_number = 0;
	if (action->arg == ARG_NONE ? arg != NULL : action->arg == ARG_NEEDED && !arg)
		return error_set(err, ST_INVALID, "%s: %s %s", entry, action->name,
				 arg ? "takes no argument" : "needs an argument");
	if (arg && (!text_parse_int(arg, &argument) || argument < 0 || argument > action->arg_max))
		return error_set(err, ST_INVALID, "%s: %s is no number from 0 to %lld", entry, arg,
				 (long long)action->arg_max);
	if (nth && (!text_parse_int(nth, &nth_number) || nth_number < 1))
		return error_set(err, ST_INVALID, "%s: @%s is no number from 1", entry, nth);

	a->argument = argument;
	a->nth = nth_number;
	a->passes = 0;
	a->act = action->act;
	return ST_OK;
}

static void fault_disarm(void)
{
	for (size_t i = 0; i < ARRAY_LEN(armed); i++)
		armed[i].act = NULL;
}

enum status fault_arm(const char *spec, struct error *err)
{
	AUTOFREE char *copy = strdup(spec);

	fault_disarm();
	if (!copy)
		return error_oom(err);
	for (char *entry = copy, *next; entry && *spec; entry = next) {
		next = split(entry, ',');

		const enum status st = fault_arm_one(entry, err);
		if (st != ST_OK) {
			fault_disarm();
			return st;
		}
	}
	return ST_OK;
}

__attribute__((constructor)) static void fault_arm_from_environment(void)
{
	const char *spec = getenv("EFFECTD_FAULT");
	struct error err;

	if (!spec || fault_arm(spec, &err) == ST_OK)
		return;
	dprintf(STDERR_FILENO, "EFFECTD_FAULT: %s\n", err.text);
	_exit(78);
}

bool fault_pass(const char *name)
{
	struct armed *a = armed_find(name);

	if (!a || !a->act)
		return false;

	const int64_t pass = atomic_fetch_add(&a->passes, 1) + 1;
	if (a->nth != 0 && a->nth != pass)
		return false;
	log_warn("fault_point", LOG_STR("point", name), LOG_INT("pass", pass));
	return a->act(a->argument);
}

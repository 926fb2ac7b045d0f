/* configure(): the plugin reads its settings and may declare further statements and how it claims.
 *
 * What it gets wrong sticks, so that a configure() which returns true all the same is refused. */
#include "base/text.h"
#include "plugin/host.h"
#include <string.h>

enum { STATEMENTS_MAX = 1000 };

struct setup {
	struct effectd_setup pub; /* must be first */
	struct plugin_instance *instance;
	const struct plugin_setting *settings;
	size_t count;
	struct error *err;
	bool failed; /* err says why; the first reason stays */
};

static struct setup *setup_of(const struct effectd_setup *setup)
{
	return (struct setup *)setup;
}

/* Makes room for the reason, once. */
static struct error *fails(struct setup *s)
{
	static _Thread_local struct error dropped;
	struct error *err = s->failed ? &dropped : s->err;
	s->failed = true;
	return err;
}

static const char *value_of(struct setup *s, const char *name, const struct effectd_option **ret_option)
{
	const struct effectd_option *option = name ? plugin_find_option(s->instance->plugin, name) : NULL;
	*ret_option = option;
	if (!option) {
		error_set(fails(s), ST_INVALID,
			  "configure() asked for the option \"%s\", which the plugin does not declare",
			  name ? name : "(null)");
		return NULL;
	}
	const struct plugin_setting *setting = plugin_find_setting(s->settings, s->count, name);
	return setting ? setting->value : option->fallback;
}

const char *host_option(const struct effectd_setup *setup, const char *name)
{
	const struct effectd_option *option;
	return value_of(setup_of(setup), name, &option);
}

int64_t host_option_int64(const struct effectd_setup *setup, const char *name)
{
	const struct effectd_option *option;
	const char *value = value_of(setup_of(setup), name, &option);
	int64_t n = 0;
	if (value && !plugin_option_number(option, value, &n))
		error_set(fails(setup_of(setup)), ST_INVALID,
			  "configure() asked for the text option \"%s\" as a number", name);
	return n;
}

const char *host_option_name(const struct effectd_setup *setup, size_t index)
{
	const struct setup *s = setup_of(setup);
	return index < s->count ? s->settings[index].name : NULL;
}

const char *host_consumer(const struct effectd_setup *setup)
{
	return setup_of(setup)->instance->consumer;
}

static const char *copy_text(struct arena *a, const char *s)
{
	return s ? arena_copy(a, s, strlen(s)) : NULL;
}

static enum status add_statement(struct plugin_instance *p, const struct effectd_statement *given, struct error *err)
{
	struct effectd_statement statement = { 0 };
	const size_t size = p->plugin->descriptor.statement_size;
	if (!given)
		return error_set(err, ST_INVALID, "configure() declared no statement");
	memcpy(&statement, given, size < sizeof(statement) ? size : sizeof(statement));
	enum status st = plugin_check_statement(&statement, err);
	if (st != ST_OK)
		return st;
	if (p->statement_count >= STATEMENTS_MAX)
		return error_set(err, ST_INVALID, "more than %d statements", STATEMENTS_MAX);
	for (size_t i = 0; i < p->statement_count; i++)
		if (strcmp(p->statements[i].name, statement.name) == 0)
			return error_set(err, ST_INVALID, "two statements are called %s", statement.name);

	statement.name = copy_text(&p->memory, statement.name);
	statement.sql = copy_text(&p->memory, statement.sql);
	struct effectd_statement *more = realloc(p->statements, (p->statement_count + 1) * sizeof(*more));
	if (more)
		p->statements = more;
	if (!more || !statement.name || !statement.sql)
		return error_oom(err);
	p->statements[p->statement_count++] = statement;
	return ST_OK;
}

uint32_t host_statement(struct effectd_setup *setup, const struct effectd_statement *statement)
{
	struct setup *s = setup_of(setup);
	struct error err = { 0 };
	if (add_statement(s->instance, statement, &err) == ST_OK)
		return (uint32_t)(s->instance->statement_count - 1);
	error_set(fails(s), err.status, "%s", err.text);
	return UINT32_MAX; /* no statement: exec of it is BROKEN, but configure() has failed before that */
}

void host_claim(struct effectd_setup *setup, effectd_claim mode)
{
	struct setup *s = setup_of(setup);
	if (mode > EFFECTD_CLAIM_NONE)
		error_set(fails(s), ST_INVALID, "configure() chose claim mode %u, which does not exist", mode);
	else
		s->instance->claim = mode;
}

void host_setup_fail(struct effectd_setup *setup, const char *text)
{
	char clean[512] = "";
	if (text)
		text_escape(clean, sizeof(clean), text, strlen(text));
	error_set(fails(setup_of(setup)), ST_INVALID, "%s", clean[0] ? clean : "the plugin gave no reason");
}

static bool decides(const struct plugin_instance *p)
{
	for (size_t i = 0; i < p->statement_count; i++)
		if (p->statements[i].rows == EFFECTD_NEW || p->statements[i].rows == EFFECTD_NEWER)
			return true;
	return false;
}

enum status setup_configure(struct plugin_instance *p, const struct plugin_setting *settings, size_t n,
			    struct error *err)
{
	struct error why = { 0 };
	struct setup s = { { &plugin_host }, p, settings, n, &why, false };
	if (p->plugin->descriptor.configure) {
		p->configured = p->plugin->descriptor.configure(&s.pub, &p->state);
		if (!p->configured && !s.failed)
			error_set(fails(&s), ST_INVALID, "configure() failed and gave no reason");
	}
	if (s.failed)
		return error_set(err, why.status, "%s", why.text);
	if (p->claim == EFFECTD_CLAIM_NONE && !decides(p))
		return error_set(err, ST_INVALID,
				 "configure() chose to go without a claim, but no statement decides (NEW or NEWER)");
	return ST_OK;
}

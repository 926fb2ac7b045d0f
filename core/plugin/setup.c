/* configure(): the plugin reads its settings and may declare further statements and how it claims. described(): it
 * looks at them as PostgreSQL sees them.
 *
 * What it gets wrong is reported and sticks, so that a function which returns true all the same is refused. */
#include "base/text.h"
#include "plugin/host.h"
#include "plugin/types.h"
#include <stdio.h>
#include <string.h>

enum { STATEMENTS_MAX = 1000 };

struct setup {
	struct effectd_setup pub; /* must be first */
	struct plugin_instance *instance;
	const char *function; /* which one runs */
	bool described;       /* it is described() */
	plugin_report *report;
	void *arg;
	size_t problems;
	struct message sample;
	struct arena arena; /* the sample's */
};

static struct setup *setup_of(const struct effectd_setup *setup)
{
	return (struct setup *)setup;
}

static void problem(struct setup *s, const char *fmt, ...) PRINTF(2, 3);
static void problem(struct setup *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->problems++;
	s->report(s->arg, NULL, text);
}

static const struct plugin_setting *setting_of(const struct setup *s, const char *name)
{
	return plugin_find_setting(s->instance->settings, s->instance->setting_count, name);
}

static const char *value_of(struct setup *s, const char *name, const struct effectd_option **ret_option)
{
	const struct effectd_option *option = name ? plugin_find_option(s->instance->plugin, name) : NULL;
	*ret_option = option;
	if (!option) {
		problem(s, "%s() asked for the option \"%s\", which the plugin does not declare", s->function,
			name ? name : "(null)");
		return NULL;
	}
	const struct plugin_setting *setting = setting_of(s, name);
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
		problem(setup_of(setup), "%s() asked for the text option \"%s\" as a number", setup_of(setup)->function,
			name);
	return n;
}

const char *host_option_name(const struct effectd_setup *setup, size_t index)
{
	const struct plugin_instance *p = setup_of(setup)->instance;
	return index < p->setting_count ? p->settings[index].name : NULL;
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
	statement.option = copy_text(&p->memory, statement.option);
	struct effectd_statement *more = realloc(p->statements, (p->statement_count + 1) * sizeof(*more));
	if (more)
		p->statements = more;
	if (!more || !statement.name || !statement.sql)
		return error_oom(err);
	p->statements[p->statement_count++] = statement;
	return ST_OK;
}

/* Only configure() may change what the instance is. */
static bool may_declare(struct setup *s, const char *what)
{
	if (s->described)
		problem(s, "%s() declared %s: only configure() may", s->function, what);
	return !s->described;
}

uint32_t host_statement(struct effectd_setup *setup, const struct effectd_statement *statement)
{
	struct setup *s = setup_of(setup);
	struct error err = { 0 };
	if (!may_declare(s, "a statement"))
		return UINT32_MAX;
	if (add_statement(s->instance, statement, &err) == ST_OK)
		return (uint32_t)(s->instance->statement_count - 1);
	host_setup_problem(setup, statement ? statement->option : NULL, err.text);
	return UINT32_MAX; /* no statement: exec of it is BROKEN, but configure() has failed before that */
}

void host_claim(struct effectd_setup *setup, effectd_claim mode)
{
	struct setup *s = setup_of(setup);
	if (!may_declare(s, "its claims"))
		return;
	if (mode > EFFECTD_CLAIM_NONE)
		problem(s, "configure() chose claim mode %u, which does not exist", mode);
	else
		s->instance->claim = mode;
}

void host_setup_problem(struct effectd_setup *setup, const char *option, const char *text)
{
	struct setup *s = setup_of(setup);
	const struct plugin_setting *setting = option ? setting_of(s, option) : NULL;
	char clean[1024] = "";
	if (text)
		text_escape(clean, sizeof(clean), text, strlen(text));
	s->problems++;
	s->report(s->arg, setting, clean[0] ? clean : "the plugin gave no reason");
}

effectd_type host_parameter(const struct effectd_setup *setup, uint32_t statement, uint32_t index)
{
	const struct plugin_instance *p = setup_of(setup)->instance;
	if (!setup_of(setup)->described || statement >= p->statement_count ||
	    index >= p->prepared[statement].param_count)
		return EFFECTD_TYPE_NULL;
	const effectd_type type = value_find_type(p->prepared[statement].param_types[index])->value;
	return type ? type : (effectd_type)EFFECTD_TYPE_OTHER;
}

const struct effectd_message *host_sample(struct effectd_setup *setup, struct effectd_str body)
{
	struct setup *s = setup_of(setup);
	message_release(&s->sample);
	arena_reset(&s->arena);
	s->sample = (struct message){ .body = { body.data, body.len }, .attempt = 1 };
	message_prepare(&s->sample, &s->arena);
	return &s->sample.pub;
}

static bool decides(const struct plugin_instance *p)
{
	for (size_t i = 0; i < p->statement_count; i++)
		if (p->statements[i].rows == EFFECTD_NEW || p->statements[i].rows == EFFECTD_NEWER)
			return true;
	return false;
}

static void begin(struct setup *s, struct plugin_instance *p, bool described, plugin_report *report, void *arg)
{
	*s = (struct setup){ .pub = { &plugin_host },
			     .instance = p,
			     .function = described ? "described" : "configure",
			     .described = described,
			     .report = report,
			     .arg = arg };
	arena_init(&s->arena);
}

static size_t finish(struct setup *s, bool succeeded)
{
	if (!succeeded && s->problems == 0)
		problem(s, "%s() failed and gave no reason", s->function);
	message_release(&s->sample);
	arena_finish(&s->arena);
	return s->problems;
}

size_t setup_configure(struct plugin_instance *p, plugin_report *report, void *arg)
{
	const struct effectd_plugin *d = &p->plugin->descriptor;
	struct setup s;
	begin(&s, p, false, report, arg);
	if (d->configure)
		p->configured = d->configure(&s.pub, &p->state);
	if (s.problems == 0 && p->claim == EFFECTD_CLAIM_NONE && !decides(p))
		problem(&s, "configure() chose to go without a claim, but no statement decides (NEW or NEWER)");
	return finish(&s, p->configured || !d->configure);
}

size_t setup_described(struct plugin_instance *p, plugin_report *report, void *arg)
{
	const struct effectd_plugin *d = &p->plugin->descriptor;
	if (!d->described)
		return 0;
	struct setup s;
	begin(&s, p, true, report, arg);
	const bool succeeded = d->described(&s.pub, p->state);
	return finish(&s, succeeded);
}

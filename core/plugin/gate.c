/* Lets a plugin in when it was built for an ABI that this host has and declares only what makes sense.
 *
 * Nothing of a struct is read before its size is known: the first three numbers of a descriptor are where they are for
 * good, the rest is as long as the plugin says, and what it does not have is zero. */
#include "plugin/gate.h"
#include "base/text.h"
#include "plugin/options.h"
#include <string.h>

enum { DECLARED_MAX = 1000, NAME_MAX_BYTES = 63 };

#define END_OF(type, member) (offsetof(struct type, member) + sizeof(((struct type *)NULL)->member))

/* The structs as they were in the first version of this ABI's major; they never get smaller. */
static const size_t first_plugin_size = END_OF(effectd_plugin, described);
static const size_t first_statement_size = END_OF(effectd_statement, option);
static const size_t first_option_size = END_OF(effectd_option, help);

static enum status check_version(const struct effectd_plugin *given, struct error *err)
{
	if (given->abi_major != EFFECTD_ABI_MAJOR || given->abi_minor > EFFECTD_ABI_MINOR)
		return error_set(
			err, ST_INVALID,
			"it was built for ABI %u.%u, this effectd has %d.%d: rebuild it against this effectd's "
			"effectd/plugin.h%s",
			given->abi_major, given->abi_minor, EFFECTD_ABI_MAJOR, EFFECTD_ABI_MINOR,
			given->abi_major == EFFECTD_ABI_MAJOR ? ", or install a newer effectd" : "");
	if (given->size < first_plugin_size)
		return error_set(err, ST_INVALID,
				 "its descriptor has %u bytes, ABI %d needs %zu: declare it with EFFECTD_PLUGIN",
				 given->size, EFFECTD_ABI_MAJOR, first_plugin_size);
	return ST_OK;
}

static enum status check_table(const char *what, const void *table, uint32_t count, uint32_t stride, size_t first_size,
			       struct error *err)
{
	if (count == 0)
		return ST_OK;
	if (count > DECLARED_MAX)
		return error_set(err, ST_INVALID, "it declares %u %ss, at most %d are possible", count, what,
				 DECLARED_MAX);
	if (!table)
		return error_set(err, ST_INVALID, "it declares %u %ss, but no table of them", count, what);
	if (stride < first_size)
		return error_set(err, ST_INVALID,
				 "its %ss have %u bytes each, ABI %d needs %zu: declare it with EFFECTD_PLUGIN", what,
				 stride, EFFECTD_ABI_MAJOR, first_size);
	return ST_OK;
}

/* The host's layout of a plugin's table: each row as far as both know it, the rest zero. NULL: no memory. */
static void *copy_table(const void *table, uint32_t count, size_t stride, size_t host_size)
{
	char *copy = calloc(count + 1, host_size);
	for (uint32_t i = 0; copy && i < count; i++)
		memcpy(copy + i * host_size, (const char *)table + i * stride, stride < host_size ? stride : host_size);
	return copy;
}

static enum status check_statements(const struct plugin *p, struct error *err)
{
	for (uint32_t i = 0; i < p->descriptor.statement_count; i++) {
		enum status st = plugin_check_statement(&p->statements[i], err);
		if (st != ST_OK)
			return st;
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(p->statements[i].name, p->statements[j].name) == 0)
				return error_set(err, ST_INVALID, "two statements are called %s",
						 p->statements[i].name);
	}
	return ST_OK;
}

/* What can stand before the = in an INI file, with a * at the end for a family. */
static bool is_option_name(const char *s)
{
	const size_t len = s ? strnlen(s, NAME_MAX_BYTES + 1) : 0;
	if (len == 0 || len > NAME_MAX_BYTES)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char c = s[i];
		const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		const bool mark = c == '_' || c == '-' || c == '.' || (c == '*' && i == len - 1);
		if (!letter && !mark)
			return false;
	}
	return true;
}

static enum status check_option(const struct effectd_option *option, struct error *err)
{
	char text[160];
	if (!is_option_name(option->name))
		return error_set(
			err, ST_INVALID,
			"an option has no proper name: letters, digits, _ - and ., at most 63, a * at most at the end");
	if (!plugin_option_type_name(option->type))
		return error_set(err, ST_INVALID, "option %s has the type %u, which does not exist", option->name,
				 option->type);
	if (option->min > option->max)
		return error_set(err, ST_INVALID, "option %s has a least value above its greatest", option->name);
	if (option->fallback && !plugin_check_option_value(option, option->fallback, text, sizeof(text)))
		return error_set(err, ST_INVALID, "the default of option %s is wrong: it %s", option->name, text);
	return ST_OK;
}

static enum status check_options(const struct plugin *p, struct error *err)
{
	for (uint32_t i = 0; i < p->descriptor.option_count; i++) {
		enum status st = check_option(&p->options[i], err);
		if (st != ST_OK)
			return st;
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(p->options[i].name, p->options[j].name) == 0)
				return error_set(err, ST_INVALID, "two options are called %s", p->options[i].name);
	}
	return ST_OK;
}

static enum status check_descriptor(const struct effectd_plugin *d, struct error *err)
{
	if (d->consumer && !text_is_name(d->consumer))
		return error_set(
			err, ST_INVALID,
			"its consumer name is not one: small letters, digits, _ and -, at most 63, a letter first");
	if (!d->key || !d->apply)
		return error_set(err, ST_INVALID, "it has no %s function: every plugin needs key and apply",
				 d->key ? "apply" : "key");
	enum status st = check_table("statement", d->statements, d->statement_count, d->statement_size,
				     first_statement_size, err);
	if (st != ST_OK)
		return st;
	return check_table("option", d->options, d->option_count, d->option_size, first_option_size, err);
}

enum status gate_admit(struct plugin *p, const struct effectd_plugin *given, struct error *err)
{
	enum status st = check_version(given, err);
	if (st != ST_OK)
		return st;
	struct effectd_plugin *d = &p->descriptor;
	memcpy(d, given, given->size < sizeof(*d) ? given->size : sizeof(*d));
	if ((st = check_descriptor(d, err)) != ST_OK)
		return st;
	p->statements = copy_table(d->statements, d->statement_count, d->statement_size, sizeof(*p->statements));
	p->options = copy_table(d->options, d->option_count, d->option_size, sizeof(*p->options));
	if (!p->statements || !p->options)
		return error_oom(err);
	if ((st = check_statements(p, err)) != ST_OK)
		return st;
	return check_options(p, err);
}

enum status plugin_check_consumer(const struct plugin *plugin, const char *consumer, struct error *err)
{
	const char *own = plugin->descriptor.consumer;
	if (!own || strcmp(own, consumer) == 0)
		return ST_OK;
	return error_set(err, ST_INVALID,
			 "the plugin is the consumer %s, not %s: its section must be called [consumer:%s]", own,
			 consumer, own);
}

/* The samples and the reference page say what the key table says. */
#include "config/keys.h"
#include "config_fixture.h"

/* Samples and pages speak of an effectd built for /usr; this one may be for another prefix. */
static char *with_plugin_dir(const char *text)
{
	static const char usr[] = "/usr/lib/effectd/plugins";
	CLEANUP(buffer_finish) struct buffer out = { 0 };
	for (const char *at; (at = strstr(text, usr)); text = at + strlen(usr)) {
		buffer_add(&out, text, (size_t)(at - text));
		buffer_puts(&out, EFFECTD_PLUGIN_DIR);
	}
	buffer_puts(&out, text);
	return strdup(buffer_text(&out));
}

static char *read_source(const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", SOURCE_ROOT, name);
	FILE *f = fopen(path, "r");
	if (!f)
		fail_msg("%s cannot be opened", path);
	AUTOFREE char *text = calloc(1, 1 << 20);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return with_plugin_dir(text);
}

static bool has_line(const char *text, const char *line)
{
	const size_t len = strlen(line);
	for (const char *at = text; (at = strstr(at, line)); at++)
		if ((at == text || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\0'))
			return true;
	return false;
}

/* The lines from [TITLE] to the next section. */
static char *section_text(const char *text, const char *title)
{
	char header[80];
	snprintf(header, sizeof(header), "\n[%s]\n", title);
	const char *begin = strstr(text, header);
	assert_non_null(begin);
	const char *end = strstr(begin + 1, "\n[");
	return end ? strndup(begin + 1, (size_t)(end - begin)) : strdup(begin + 1);
}

static const char *const samples[][2] = {
	{ "conf.d/effectd.ini", "effectd" },
	{ "conf.d/broker.ini", "broker:main" },
	{ "conf.d/database.ini", "database:main" },
	{ "conf.d/loyalty.ini", "consumer:loyalty" },
	{ "conf.d/analytics.ini", "consumer:analytics" },
	{ "conf.d/receipts.ini", "consumer:receipts" },
	{ "conf.d/order_status.ini", "consumer:order_status" },
	{ "conf.d/relay.ini", "target:mailer" },
	{ "conf.d/relay.ini", "relay:main" },
};

/* A key that is off must stand there just so; one that must be given is on, with any value. */
static void check_key(const char *sample, const char *name, const char *text, const struct config_key *key)
{
	char line[256], begin[64];
	const char *value = key->fallback ? key->fallback : key->sample;
	assert_non_null(value);
	if (key->type == KEY_FAMILY)
		snprintf(line, sizeof(line), "#%s", key->sample);
	else
		snprintf(line, sizeof(line), "#%s =%s%s", key->name, *value ? " " : "", value);
	snprintf(begin, sizeof(begin), "\n%s%s", key->name, key->type == KEY_FAMILY ? "" : " = ");
	const bool on = (key->flags & KEY_REQUIRED) || key->type == KEY_INCLUDE;
	if (on ? !strstr(text, begin) : !has_line(text, line))
		fail_msg("%s [%s] has no line like %s", sample, name, on ? begin + 1 : line);
}

static void every_key_stands_in_the_samples_at_its_default(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		AUTOFREE char *text = read_source(samples[i][0]);
		AUTOFREE char *section = section_text(text, samples[i][1]);
		const size_t kind_len = strcspn(samples[i][1], ":");
		for (size_t k = 0; k < KIND_COUNT; k++) {
			const struct config_kind *kind = &config_kinds[k];
			if (strlen(kind->name) != kind_len || strncmp(kind->name, samples[i][1], kind_len) != 0)
				continue;
			for (size_t n = 0; n < kind->key_count; n++) {
				/* only loyalty_points has options */
				if (strcmp(kind->keys[n].name, "plugin.") != 0 || i == 3)
					check_key(samples[i][0], samples[i][1], section, &kind->keys[n]);
			}
		}
	}
}

static void full_samples_are_what_config_default_prints(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer all = { 0 };
	config_default(&all);
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		if (i == 0 || (i >= 4 && i <= 6)) /* include is on; other consumers leave the explanations to loyalty */
			continue;
		AUTOFREE char *text = read_source(samples[i][0]);
		AUTOFREE char *sample = section_text(text, samples[i][1]);
		AUTOFREE char *want = section_text(buffer_text(&all), samples[i][1]);
		/* what stands above the next section belongs to that */
		char *ends[] = { strrchr(sample, '='), strrchr(want, '=') };
		for (size_t e = 0; e < ARRAY_LEN(ends); e++)
			strchr(ends[e], '\n')[0] = '\0';
		assert_string_equal(sample, want);
	}
}

static void samples_read_without_a_problem(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path_of("conf.d"), 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		AUTOFREE char *text = read_source(samples[i][0]);
		write_file(i == 0 ? "effectd.ini" : samples[i][0], text);
	}
	expect_good(load("effectd.ini"));
	assert_int_equal(loaded->consumer_count, 4);
	assert_int_equal(loaded->relay_count, 1);
}

static void what_config_default_prints_reads_without_a_problem(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer all = { 0 };
	config_default(&all);
	expect_good(load_text(buffer_text(&all)));
	assert_string_equal(loaded->consumers[0].name, "loyalty");
}

static void each_default_switched_on_is_the_default(void **state)
{
	(void)state;
	/* Of the keys that stand off, those with a fixed default, and what is computed from defaults. */
	CLEANUP(buffer_finish) struct buffer all = { 0 }, on = { 0 }, plain = { 0 }, switched = { 0 };
	CLEANUP(buffer_finish) struct buffer a = { 0 }, b = { 0 };
	config_default(&all);
	expect_good(load_text(buffer_text(&all)));
	config_show(loaded, &plain);
	const struct config_kind *kind = NULL;
	for (const char *at = buffer_text(&all), *end; *at; at = end + 1) {
		end = strchr(at, '\n');
		for (size_t k = 0; *at == '[' && k < KIND_COUNT; k++)
			if (strncmp(at + 1, config_kinds[k].name, strlen(config_kinds[k].name)) == 0)
				kind = &config_kinds[k];
		for (size_t n = 0; *at == '#' && kind && n < kind->key_count; n++) {
			const struct config_key *key = &kind->keys[n];
			const size_t len = strlen(key->name);
			const bool numeric = key->fallback || (key->computed && key->type == KEY_INT);
			if (numeric && strncmp(at + 1, key->name, len) == 0 && strncmp(at + 1 + len, " =", 2) == 0)
				at++;
		}
		buffer_add(&on, at, (size_t)(end + 1 - at));
	}
	assert_true(on.len < all.len - 30);
	expect_good(load_text(buffer_text(&on)));
	config_show(loaded, &switched);
	settings_of(buffer_text(&plain), &a);
	settings_of(buffer_text(&switched), &b);
	assert_string_equal(buffer_text(&a), buffer_text(&b));
}

static void the_reference_page_is_current(void **state)
{
	(void)state;
	CLEANUP(buffer_finish) struct buffer want = { 0 };
	config_reference(&want);
	AUTOFREE char *page = read_source("docs/configuration.md");
	const char *marker = strstr(page, "<!-- From here on printed by"),
		   *begin = marker ? strstr(marker, "\n\n") : NULL;
	assert_non_null(begin);
	if (strcmp(begin + 2, buffer_text(&want)) != 0)
		fail_msg("replace what stands behind the marker in docs/configuration.md by what "
			 "`effectd config default --markdown` prints");
}

static void every_key_explains_itself(void **state)
{
	(void)state;
	for (size_t k = 0; k < KIND_COUNT; k++) {
		assert_non_null(config_kinds[k].help);
		for (size_t n = 0; n < config_kinds[k].key_count; n++) {
			const struct config_key *key = &config_kinds[k].keys[n];
			assert_non_null(key->help);
			assert_true(key->fallback || key->sample);
			assert_true(strlen(key->help) > 10 && key->help[strlen(key->help) - 1] == '.');
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_key_stands_in_the_samples_at_its_default),
		TEST(full_samples_are_what_config_default_prints),
		TEST(samples_read_without_a_problem),
		TEST(what_config_default_prints_reads_without_a_problem),
		TEST(each_default_switched_on_is_the_default),
		TEST(the_reference_page_is_current),
		TEST(every_key_explains_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

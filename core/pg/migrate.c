/* Migrations. A file and the row that says it was applied commit together; two runs never overlap (advisory lock); what
 * was applied is never applied again, and nothing is applied once anything looks wrong. */
#include "pg/migrate.h"
#include "pg/private.h"
#include "pg/transaction.h"

#include "base/clock.h"
#include "base/fault.h"
#include <stdio.h>
#include <string.h>

/* "effectd" in ASCII: nobody else's key by chance. Advisory locks are a database's own. */
static const char lock_sql[] = "SELECT pg_catalog.pg_advisory_lock(28541562621490276)";
static const char unlock_sql[] = "SELECT pg_catalog.pg_advisory_unlock(28541562621490276)";
static const char exists_sql[] = "SELECT WHERE pg_catalog.to_regclass('effectd.schema_version') IS NOT NULL";
static const char applied_sql[] = "SELECT version::pg_catalog.int8, oldest_runnable::pg_catalog.int8, checksum, name"
				  " FROM effectd.schema_version ORDER BY version";
static const char insert_sql[] = "INSERT INTO effectd.schema_version (version, name, checksum, oldest_runnable)"
				 " VALUES ($1, $2, $3, $4)";
static const char by_hand_sql[] = "INSERT INTO effectd.schema_version (version, name, checksum, oldest_runnable)\n"
				  "\tVALUES (%d, '%s', '%s', %d);\n"; /* no data: our own file names and checksums */
enum { VERSION, OLDEST_RUNNABLE, CHECKSUM, NAME };

struct applied {
	int version, oldest_runnable;
	char checksum[65];
	char name[64];
};

struct history {
	struct applied *list; /* by version */
	size_t count;
};

static void history_finish(struct history *h)
{
	free(h->list);
}

static void copy_text(char *dst, size_t size, const struct pg_result *r, int row, int column)
{
	int len = 0;
	const char *text = pg_value(r, row, column, &len);
	snprintf(dst, size, "%.*s", len, text ? text : "");
}

/* Empty where effectd was never migrated. */
static enum status read_history(struct pg_session *s, struct history *ret, struct error *err)
{
	struct pg_result r;
	enum status st = pg_query(s, exists_sql, NULL, 0, &r, err);
	if (st != ST_OK || r.rows == 0)
		return st;
	st = pg_query(s, applied_sql, NULL, 0, &r, err);
	if (st != ST_OK || r.rows == 0)
		return st;
	ret->list = calloc((size_t)r.rows, sizeof(*ret->list));
	if (!ret->list)
		return error_oom(err);
	ret->count = (size_t)r.rows;
	for (int row = 0; row < r.rows; row++) {
		struct applied *a = &ret->list[row];
		a->version = (int)pg_value_int8(&r, row, VERSION);
		a->oldest_runnable = (int)pg_value_int8(&r, row, OLDEST_RUNNABLE);
		copy_text(a->checksum, sizeof(a->checksum), &r, row, CHECKSUM);
		copy_text(a->name, sizeof(a->name), &r, row, NAME);
	}
	return ST_OK;
}

static int known_version(void)
{
	return migration_count ? migrations[migration_count - 1].version : 0;
}

static const struct applied *find_applied(const struct history *h, int version)
{
	for (size_t i = 0; i < h->count; i++)
		if (h->list[i].version == version)
			return &h->list[i];
	return NULL;
}

static enum status too_new(int schema, struct error *err)
{
	return error_set(err, ST_INVALID, "the schema is at version %d, this effectd knows %d: use a newer effectd",
			 schema, known_version());
}

enum status migrate_require(struct pg_session *s, struct error *err)
{
	CLEANUP(history_finish) struct history h = { 0 };
	enum status st = read_history(s, &h, err);
	if (st != ST_OK)
		return st;
	int schema = 0, oldest = 0;
	for (size_t i = 0; i < h.count; i++) {
		schema = h.list[i].version;
		if (h.list[i].oldest_runnable > oldest)
			oldest = h.list[i].oldest_runnable;
	}
	if (schema < known_version())
		return error_set(err, ST_INVALID,
				 "the schema is at version %d, this effectd needs %d: run `effectd migrate up`", schema,
				 known_version());
	return oldest > known_version() ? too_new(schema, err) : ST_OK;
}

static enum migration_state state_of(const struct migration *m, const struct history *h)
{
	const struct applied *a = find_applied(h, m->version);
	if (!a)
		return MIGRATION_PENDING;
	return strcmp(a->checksum, m->checksum) == 0 ? MIGRATION_APPLIED : MIGRATION_CHANGED;
}

enum status migrate_status(struct pg_session *s,
			   void (*each)(void *arg, int version, const char *name, enum migration_state state),
			   void *arg, struct error *err)
{
	CLEANUP(history_finish) struct history h = { 0 };
	enum status st = read_history(s, &h, err);
	if (st != ST_OK)
		return st;
	for (size_t i = 0; i < migration_count; i++)
		each(arg, migrations[i].version, migrations[i].name, state_of(&migrations[i], &h));
	for (size_t i = 0; i < h.count; i++)
		if (h.list[i].version > known_version())
			each(arg, h.list[i].version, h.list[i].name, MIGRATION_UNKNOWN);
	return ST_OK;
}

static enum status take_lock(struct pg_session *s, struct error *err)
{
	struct error e;
	enum status st = pg_query(s, lock_sql, NULL, 0, NULL, &e);
	if (st == ST_OK)
		return ST_OK;
	if (!strcmp(e.sqlstate, "55P03") || !strcmp(e.sqlstate, "57014"))
		error_wrap(&e, "another `effectd migrate up` is still at work on this database");
	if (err)
		*err = e;
	return st;
}

static enum status judge_history(const struct history *h, struct error *err)
{
	if (h->count && h->list[h->count - 1].version > known_version())
		return too_new(h->list[h->count - 1].version, err);
	for (size_t i = 0; i < migration_count; i++)
		if (state_of(&migrations[i], h) == MIGRATION_CHANGED)
			return error_set(err, ST_INVALID,
					 "%s.sql is not the file that was applied to this database (checksums differ): "
					 "use the effectd that applied it, or a release of it",
					 migrations[i].name);
	return ST_OK;
}

static int line_of(const char *text, int position)
{
	int line = 1;
	for (int at = 1; *text && at < position; text++) {
		line += *text == '\n';
		at += ((unsigned char)text[1] & 0xC0) != 0x80; /* characters, not bytes */
	}
	return line;
}

static enum status run_file(struct pg_session *s, const struct migration *m, struct error *err)
{
	struct error e;
	int position = 0;
	enum status st = pg_script(s, m->sql, &position, &e);
	if (st == ST_OK)
		return ST_OK;
	if (position)
		error_wrap(&e, "line %d", line_of(m->sql, position));
	if (err)
		*err = e;
	return st;
}

static enum status remember(struct pg_session *s, const struct migration *m, struct error *err)
{
	char version[16], oldest[16];
	snprintf(version, sizeof(version), "%d", m->version);
	snprintf(oldest, sizeof(oldest), "%d", m->oldest_runnable);
	const char *const values[] = { version, m->name, m->checksum, oldest };
	return pg_query(s, insert_sql, values, ARRAY_LEN(values), NULL, err);
}

static enum status apply(struct pg_session *s, const struct migration *m, struct error *err)
{
	enum status st = m->outside_transaction ? ST_OK : pg_begin(s, err);
	if (st == ST_OK)
		st = run_file(s, m, err);
	if (st == ST_OK && FAULT_POINT("migration_ran"))
		st = error_set(err, ST_UNAVAILABLE, "fault point migration_ran");
	if (st == ST_OK)
		st = remember(s, m, err);
	if (st == ST_OK && FAULT_POINT("migration_remembered"))
		st = error_set(err, ST_UNAVAILABLE, "fault point migration_remembered");
	if (st == ST_OK && !m->outside_transaction)
		st = pg_commit(s, err); /* else the session's end rolls back */
	if (st == ST_OK && FAULT_POINT("migration_committed"))
		st = error_set(err, ST_UNAVAILABLE, "fault point migration_committed");
	return st;
}

enum status migrate_up(struct pg_session *s, void (*applied)(void *arg, const struct migration *m, int64_t took_ms),
		       void *arg, struct error *err)
{
	enum status st = take_lock(s, err);
	if (st != ST_OK)
		return st;
	CLEANUP(history_finish) struct history h = { 0 };
	st = read_history(s, &h, err);
	if (st == ST_OK)
		st = judge_history(&h, err);
	for (size_t i = 0; i < migration_count && st == ST_OK; i++) {
		const struct migration *m = &migrations[i];
		if (find_applied(&h, m->version))
			continue;
		int64_t started_ms = clock_mono_ms();
		struct error e;
		st = apply(s, m, &e);
		if (st == ST_OK) {
			applied(arg, m, clock_mono_ms() - started_ms);
			continue;
		}
		error_wrap(&e, "%s.sql", m->name);
		if (err)
			*err = e;
	}
	return st == ST_OK ? pg_query(s, unlock_sql, NULL, 0, NULL, err) : st;
}

void migrate_print(const struct migration *m, struct buffer *out)
{
	buffer_puts(out, m->outside_transaction ? "" : "BEGIN;\n");
	buffer_puts(out, m->sql);
	buffer_printf(out, by_hand_sql, m->version, m->name, m->checksum, m->oldest_runnable);
	buffer_puts(out, m->outside_transaction ? "" : "COMMIT;\n");
}

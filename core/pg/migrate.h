/* The schema's versions: files sql/NNN_name.sql, applied in order, each in a transaction of its own, under an advisory
 * lock, remembered with their checksums in effectd.schema_version. */
#ifndef PG_MIGRATE_H
#define PG_MIGRATE_H

#include "base/buffer.h"
#include "pg/session.h"

/* One migration. Compiled in from sql/ by meson, so that a binary and its schema cannot drift apart. */
struct migration {
	int version;          /* NNN */
	const char *name;     /* file name without .sql */
	const char *checksum; /* SHA-256 of the file, hexadecimal */
	const char *sql;
	int oldest_runnable;      /* the oldest binary's version that may still run on a schema with this one */
	bool outside_transaction; /* the file says: -- effectd: outside transaction */
};

extern const struct migration migrations[];
extern const size_t migration_count;

/* Refuses with what to do when the schema is older or newer than this binary can run on (ST_INVALID). */
enum status migrate_require(struct pg_session *s, struct error *err) MUST_USE;

enum migration_state {
	MIGRATION_APPLIED,
	MIGRATION_PENDING,
	MIGRATION_CHANGED /* checksum differs */,
	MIGRATION_UNKNOWN
};

/* Calls each for every migration that the binary or the schema knows, in order. */
enum status migrate_status(struct pg_session *s,
			   void (*each)(void *arg, int version, const char *name, enum migration_state state),
			   void *arg, struct error *err) MUST_USE;

/* Applies what is pending, telling each. A changed checksum or a newer schema stops it before any change. After a
 * failure the session must be destroyed: it may hold the lock and an open transaction. */
enum status migrate_up(struct pg_session *s, void (*applied)(void *arg, const struct migration *m, int64_t took_ms),
		       void *arg, struct error *err) MUST_USE;

/* The migration as a script that does by hand what migrate_up() does, remembering it included. */
void migrate_print(const struct migration *m, struct buffer *out);

#endif

/* The key table: everything that may stand in a configuration, and all that is known of it.
 *
 * Reading, defaults, ranges, `config show`, `config default` and the reference page are driven by it. Nothing else
 * knows a key by name except the cross checks (check.c). */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include "config/config.h"

enum key_type {
	KEY_TEXT,        /* const char * */
	KEY_PATH,        /* const char *; relative to the file it is written in */
	KEY_WORD,        /* const char *, one of words */
	KEY_CHOICE,      /* int64_t, index into words */
	KEY_BOOL,        /* bool */
	KEY_INT,         /* int64_t */
	KEY_DURATION,    /* int64_t, ms */
	KEY_SIZE,        /* int64_t, bytes */
	KEY_SECRET_FILE, /* const char *, a path; what the file holds goes to content */
	KEY_CREDENTIAL,  /* const char *, a name in $CREDENTIALS_DIRECTORY; what it holds goes to content */
	KEY_FAMILY,      /* struct config_pairs: the name ends with a dot, any name may follow */
	KEY_INCLUDE,     /* nothing is stored */
};

enum key_mask {
	MASK_NONE,
	MASK_URL,      /* the password inside a URL */
	MASK_CONNINFO, /* the password inside a conninfo, or inside a URL */
	MASK_SETTINGS, /* members whose name says that they are secret */
	MASK_ALL,
};

enum key_reload {
	RELOAD_LIVE,     /* takes effect at once */
	RELOAD_CONSUMER, /* the consumers and relays that use it are started anew */
	RELOAD_PROCESS,  /* needs a restart of effectd */
};

enum {
	KEY_REQUIRED = 1,
	KEY_MAY_BE_EMPTY = 2,
	KEY_FROM_FILE = 4, /* KEY_file = PATH gives it the content of a file */
};

struct config_key {
	const char *name;
	enum key_type type;
	unsigned flags;
	size_t offset;            /* into the struct of its kind */
	size_t content;           /* SECRET_FILE, CREDENTIAL: offset of what was read */
	const char *fallback;     /* the default as it would be written; NULL: none */
	const char *computed;     /* what the default is when it depends on something else, in words */
	const char *sample;       /* what samples show where there is no default */
	int64_t min, max;         /* INT, DURATION, SIZE: inclusive */
	const char *const *words; /* CHOICE, WORD: ends with NULL */
	const char *never;        /* a word for -1 besides a number; NULL: none */
	/* More to ask of one value; NULL: nothing. false: text says what it must be. */
	bool (*check)(const char *value, char *text, size_t size);
	enum key_mask mask;
	enum key_reload reload;
	const char *help; /* a few sentences on one line */
};

/* What every section with a name begins with in its struct. */
struct config_named {
	const char *name;
	struct config_place place;
};

struct config_kind {
	const char *name;
	bool named;         /* [KIND:NAME], any number; else [KIND], once */
	const char *sample; /* a name for samples */
	size_t size;        /* of its struct */
	size_t list;        /* offset in struct config: of the list, or without names of the struct itself */
	size_t count;       /* offset in struct config of the number of them */
	const struct config_key *keys;
	size_t key_count;
	const char *help;
};

enum kind_index { KIND_PROCESS, KIND_BROKER, KIND_DATABASE, KIND_CONSUMER, KIND_TARGET, KIND_RELAY, KIND_COUNT };

extern const struct config_kind config_kinds[KIND_COUNT];

/* The key of that name, or the family it belongs to; *ret_member is then the part behind the dot, else NULL. With
 * KEY_file of a key that may come from a file, *ret_from_file is set. NULL: there is no such key. */
const struct config_key *key_find(const struct config_kind *kind, const char *name, const char **ret_member,
				  size_t *ret_member_len, bool *ret_from_file);

/* What a value may be: `1 to 64`, `yes or no`, `a path`. */
void describe_values(const struct config_key *key, char *text, size_t size);

/* When a change of the key takes effect: `at once`, `consumer`, `restart`. */
const char *describe_reload(const struct config_key *key);

/* The default as samples show it, or what they show where there is none. */
const char *describe_default(const struct config_key *key);

#endif

/* Values by their key: text to what the structs hold, and numbers back to text. */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "config/keys.h"

/* The number or the index that value stands for; false: text says what it must be. For INT, DURATION, SIZE, BOOL,
 * CHOICE, and WORD (index). */
bool value_parse(const struct config_key *key, const char *value, int64_t *ret, char *text, size_t size) MUST_USE;

/* As it would be written: 30s, 4MiB, never, read committed. */
void value_format(const struct config_key *key, int64_t number, char *text, size_t size);

/* More to ask of a value (struct config_key.check). */
bool value_check_amqp_url(const char *value, char *text, size_t size);
bool value_check_http_url(const char *value, char *text, size_t size);
bool value_check_listen(const char *value, char *text, size_t size);
bool value_check_bind(const char *value, char *text, size_t size);
bool value_check_answer(const char *value, char *text, size_t size);
bool value_check_short(const char *value, char *text, size_t size); /* AMQP short strings */

#endif

/* A plugin folder of a test's own: what the build made is copied into it, so that modes can be chosen. */
#ifndef ABI_PLACE_H
#define ABI_PLACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
	char dir[64];
};

/* cmocka's fixtures: *state is a struct place with an empty folder. */
int place_setup(void **state);
int place_teardown(void **state);

/* Path of name in the folder, in a buffer that the next call reuses. */
const char *place_path(const struct place *p, const char *name);

/* Copies the built plugin under a name and with a mode of the test's choice. */
void place_copy(const struct place *p, const char *built, const char *name, mode_t mode);
void place_write(const struct place *p, const char *name, const void *data, size_t len);

/* The bytes of a built plugin; the caller frees them. */
char *place_read_built(const char *built, size_t *ret_len);

#endif

/* Attributes and scoped cleanup, used everywhere. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <stdlib.h>

#define MUST_USE         __attribute__((warn_unused_result))
#define PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define ARRAY_LEN(a)     (sizeof(a) / sizeof((a)[0]))

/* CLEANUP(free_ptr) char *s = ...; runs free_ptr(&s) when s goes out of scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void free_ptr(void *p)
{
	free(*(void **)p);
}
#define AUTOFREE CLEANUP(free_ptr)

#endif

#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/macros.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Waits for the thread's end until deadline_ms on clock_mono_ms(). False: it has not ended. */
bool thread_join(pthread_t thread, int64_t deadline_ms) MUST_USE;

#endif

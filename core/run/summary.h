/* The line that tells what a consumer did, so that the real redelivery and duplicate rates are seen. */
#ifndef RUN_SUMMARY_H
#define RUN_SUMMARY_H

#include "base/counters.h"

void summary_log(const char *consumer, const struct consumer_counters *counters);

#endif

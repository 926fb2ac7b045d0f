/* What the files of this folder share. */
#ifndef MANAGEMENT_PRIVATE_H
#define MANAGEMENT_PRIVATE_H

#include "management/management.h"

/* GET /api/PART/PART/...; parts end with NULL and are escaped here. *ret is the answer, json_decref() it. */
enum status management_get(struct management *m, const char *const *parts, json_t **ret, struct error *err) MUST_USE;

/* On clock_mono_ms(): until then what is not there yet is asked for again. */
int64_t management_patient_until_ms(const struct management *m);

#endif

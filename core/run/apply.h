/* Does what a plan says, one consumer or relay after another: drained, then started anew; the others are not touched.
 */
#ifndef RUN_APPLY_H
#define RUN_APPLY_H

#include "run/plan.h"

/* Takes from the plan what it starts. ST_STOPPED: the process was told to end meanwhile, what was not reached is as it
 * was. Any other error: something could not be started; during a start it is over, else the rest was applied. */
enum status plan_apply(struct plan *plan, struct process *p, struct error *err) MUST_USE;

#endif

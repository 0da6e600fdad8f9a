/* Two evaluations beside each other, on the problems that both answered. */
#ifndef EW_CLI_EVAL_COMPARE_H
#define EW_CLI_EVAL_COMPARE_H

#include "base/error.h"

/* Prints the difference of accuracy with its interval and McNemar's exact p; as one object with `json`.
 * EW_ERROR_ARGUMENT: no problem is common to both, or an id means two things. */
ew_status ew_eval_compare(const char *const paths[2], bool json, ew_error *error);

#endif

/* What can be known about an output before hours of work go into it. */
#ifndef EW_CLI_OUTPUT_CHECK_H
#define EW_CLI_OUTPUT_CHECK_H

#include "edgewise.h"

/* Refuses an output whose folder is not there or takes no files, and one that is itself one of the inputs (paths; NULL
 * ones are skipped). The output need not exist. Errors: EW_ERROR_IO, EW_ERROR_ARGUMENT, EW_ERROR_MEMORY. */
ew_status ew_cli_check_output(const char *output, const char *const *inputs, size_t n_inputs, ew_error *error);

#endif

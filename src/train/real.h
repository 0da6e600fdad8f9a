/* The number type of the trainer. The room is built twice from one source: with float for use, and with double
 * (EW_TRAIN_DOUBLE, library ew_train_double, for tests alone), so that gradients can be checked against differences. */
#ifndef EW_TRAIN_REAL_H
#define EW_TRAIN_REAL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef EW_TRAIN_DOUBLE
typedef double real;
#define EW_REAL_SQRT sqrt
#else
typedef float real;
#define EW_REAL_SQRT sqrtf
#endif

#endif

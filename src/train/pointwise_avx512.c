#if defined(__x86_64__)
#define EW_POINTWISE_TABLE ew_pointwise_avx512
#include "train/pointwise_loops.h"
#else
typedef int ew_no_avx512; /* a file must not be empty */
#endif

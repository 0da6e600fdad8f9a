#if defined(__x86_64__)
#define EW_WEIGH_TABLE ew_weigh_avx512
#include "reason/weigh_loops.h"
#else
typedef int ew_weigh_no_avx512; /* a file must not be empty */
#endif

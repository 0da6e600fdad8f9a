#if defined(__x86_64__)
#define EW_WEIGH_TABLE ew_weigh_avx2
#include "reason/weigh_loops.h"
#else
typedef int ew_weigh_no_avx2; /* a file must not be empty */
#endif

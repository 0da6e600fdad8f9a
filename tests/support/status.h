/* Calls that must succeed. */
#ifndef EW_TEST_STATUS_H
#define EW_TEST_STATUS_H

#include "support.h"

#include "edgewise.h"

/* `call` takes `error`, which this declares; a failure fails the test with its sentence. */
#define EW_ASSERT_OK(call)                                                                                             \
    do {                                                                                                               \
        ew_error ew_assert_error = {0};                                                                                \
        ew_error *error = &ew_assert_error;                                                                            \
        if ((call) != EW_OK) {                                                                                         \
            fail_msg("%s: %s", #call, ew_assert_error.message);                                                        \
        }                                                                                                              \
    } while (0)

#endif

/* Files in tests. */
#ifndef EW_TEST_FILES_H
#define EW_TEST_FILES_H

#include "status.h"

#include "base/file.h"

/* Both files hold the same bytes. */
static inline void assert_same_files(const char *left, const char *right) {
    ew_mapping a, b;
    EW_ASSERT_OK(ew_map_file(left, &a, error));
    EW_ASSERT_OK(ew_map_file(right, &b, error));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    ew_unmap(&a);
    ew_unmap(&b);
}

#endif

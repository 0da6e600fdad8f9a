/* What every test needs: cmocka's includes in their order, and where the optional goldens lie. */
#ifndef EW_TEST_SUPPORT_H
#define EW_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

/* ctest counts a program that returns this as skipped. */
enum { EW_TEST_SKIPPED = 77 };

/* Writes FOLDER/relative into `path`; folder is the environment variable `variable`. NULL, with one line saying
 * why, when it is not there. */
static inline const char *ew_test_find(const char *variable, const char *relative, char *path, size_t size) {
    const char *folder = getenv(variable);
    struct stat status;
    if (folder && snprintf(path, size, "%s/%s", folder, relative) < (int)size && stat(path, &status) == 0) {
        return path;
    }
    printf("skipped: no %s (set %s)\n", relative, variable);
    return NULL;
}

/* The goldens and data beside the project, for instance ew_test_shared("goldens/quant/quant.json", ...). */
static inline const char *ew_test_shared(const char *relative, char *path, size_t size) {
    return ew_test_find("EDGEWISE_SHARED", relative, path, size);
}

#endif

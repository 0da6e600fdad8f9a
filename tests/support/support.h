/* What every test needs: cmocka's includes in their order, and where the optional goldens lie. */
#ifndef EW_TEST_SUPPORT_H
#define EW_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

/* Writes FOLDER/relative into `path`, FOLDER being an environment variable's; false when it is not there. */
static inline bool ew_test_find(const char *variable, const char *relative, char *path, size_t size) {
    const char *folder = getenv(variable);
    struct stat status;
    return folder && snprintf(path, size, "%s/%s", folder, relative) < (int)size && stat(path, &status) == 0;
}

/* A golden or a data file, for instance ew_test_shared("goldens/quant/quant.json", ...): in tests/data, or in the
 * optional folder beside the project. NULL, with one line saying so, when it is in neither. */
static inline const char *ew_test_shared(const char *relative, char *path, size_t size) {
    if (ew_test_find("EDGEWISE_TEST_DATA", relative, path, size) ||
        ew_test_find("EDGEWISE_SHARED", relative, path, size)) {
        return path;
    }
    printf("skipped: no %s (set EDGEWISE_SHARED to the folder that has it)\n", relative);
    return NULL;
}

/* SmolLM2-135M-Instruct as quickstart.sh fetches it: EDGEWISE_SMOLLM2 or the user's cache folder. NULL, with one line
 * saying so, when it is not there. */
static inline const char *ew_test_smollm2(char *path, size_t size) {
    const char *given = getenv("EDGEWISE_SMOLLM2"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat status;
    if (given) {
        snprintf(path, size, "%s", given);
    } else if (cache) {
        snprintf(path, size, "%s/edgewise/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    } else {
        snprintf(path, size, "%s/.cache/edgewise/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    }
    if (stat(path, &status) == 0) {
        return path;
    }
    printf("skipped: no SmolLM2 model at %s (sh quickstart.sh fetches it, or set EDGEWISE_SMOLLM2)\n", path);
    return NULL;
}

#endif

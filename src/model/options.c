#include "model/options.h"

#include <string.h>

/* Larger than any struct will become: a size that was never set is caught. */
enum { SIZE_MOST = 4096 };

ew_status ew_read_options(const void *given, void *known, size_t known_size, const char *what, ew_error *error) {
    if (!given) {
        return EW_OK;
    }
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > SIZE_MOST) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "%s.size is %zu: set it to sizeof(%s)", what, size, what);
    }
    const unsigned char *bytes = given;
    for (size_t i = known_size; i < size; i++) {
        if (bytes[i] != 0) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "%s has fields that this version of the library does not know",
                           what);
        }
    }
    memset(known, 0, known_size);
    memcpy(known, given, size < known_size ? size : known_size);
    memcpy(known, &known_size, sizeof known_size);
    return EW_OK;
}

void ew_write_info(const void *known, size_t known_size, void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    size_t copied = size < known_size ? size : known_size;
    if (copied > sizeof size) {
        memcpy((unsigned char *)given + sizeof size, (const unsigned char *)known + sizeof size, copied - sizeof size);
    }
}

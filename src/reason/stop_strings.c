#include "reason/stop_strings.h"

#include "base/utf8.h"

#include <string.h>

bool ew_find_stop(const char *text, size_t length, size_t from, const char *const *stop, size_t n_stop, size_t *at) {
    bool found = false;
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = strlen(stop[i]), begin = from >= n ? from - n : 0;
        if (n == 0 || begin > length) {
            continue;
        }
        const char *place = memmem(text + begin, length - begin, stop[i], n);
        if (place && (!found || (size_t)(place - text) < *at)) {
            found = true;
            *at = (size_t)(place - text);
        }
    }
    return found;
}

size_t ew_safe_length(const char *text, size_t length, const char *const *stop, size_t n_stop) {
    size_t safe = length;
    for (size_t i = 0; i < n_stop; i++) {
        size_t n = strlen(stop[i]);
        size_t longest = n > 0 && n - 1 < length ? n - 1 : length;
        for (size_t k = n > 0 ? longest : 0; k > 0; k--) {
            if (memcmp(text + length - k, stop[i], k) == 0) {
                safe = length - k < safe ? length - k : safe;
                break;
            }
        }
    }
    return safe;
}

ew_status ew_check_stops(const char *const *stop, size_t n_stop, ew_error *error) {
    for (size_t i = 0; i < n_stop; i++) {
        const char *text = stop ? stop[i] : NULL;
        if (!text || text[0] == '\0' || ew_utf8_valid_prefix(text, strlen(text)) != strlen(text)) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "stop string %zu is empty or no UTF-8", i);
        }
    }
    return EW_OK;
}

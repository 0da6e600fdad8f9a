#include "format/names.h"

#include <stdlib.h>
#include <string.h>

ew_string ew_string_of(const char *text) {
    return (ew_string){text, strlen(text)};
}

bool ew_string_is(ew_string string, const char *text) {
    size_t length = strlen(text);
    return string.length == length && (length == 0 || memcmp(string.data, text, length) == 0);
}

static int compare(const void *left, const void *right) {
    const ew_string a = ((const ew_name *)left)->name, b = ((const ew_name *)right)->name;
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

const ew_name *ew_names_sort(ew_name *names, size_t count) {
    if (count > 1) {
        qsort(names, count, sizeof *names, compare);
    }
    for (size_t i = 1; i < count; i++) {
        if (compare(&names[i - 1], &names[i]) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

const ew_name *ew_names_find(const ew_name *names, size_t count, ew_string name) {
    const ew_name wanted = {name, 0};
    return count > 0 ? bsearch(&wanted, names, count, sizeof *names, compare) : NULL;
}

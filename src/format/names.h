/* Strings as views, and sorted tables of names: looked up in logarithmic time whatever the names are, so that
 * a hostile file cannot make a hash table crawl. */
#ifndef EW_FORMAT_NAMES_H
#define EW_FORMAT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ew_string {
    const char *data; /* not NUL-terminated; may hold any bytes */
    size_t length;
} ew_string;

/* Whether the view holds exactly the bytes of the C string. */
bool ew_string_is(ew_string string, const char *text);
ew_string ew_string_of(const char *text);

typedef struct ew_name {
    ew_string name;
    size_t index; /* of what it names, in its owner's table */
} ew_name;

/* Sorts by bytes. Returns a name that occurs twice, or NULL. */
const ew_name *ew_names_sort(ew_name *names, size_t count);

/* The entry with this name in a sorted table, or NULL. */
const ew_name *ew_names_find(const ew_name *names, size_t count, ew_string name);

#endif

/* JSON on stdout. Any bytes may go in; what comes out is valid JSON. */
#ifndef EW_CLI_JSON_OUTPUT_H
#define EW_CLI_JSON_OUTPUT_H

#include "base/buffer.h"
#include "base/error.h"

#include <jansson.h>

/* A JSON string of bytes that need not be UTF-8: what is broken becomes U+FFFD. NULL when memory is out. */
json_t *ew_json_repaired(const char *bytes, size_t length);

/* The same for lines that any reader of JSON takes: many refuse a NUL, which becomes U+FFFD, too. */
json_t *ew_json_plain(const char *bytes, size_t length);

json_t *ew_json_ids(const int32_t *ids, size_t count); /* NULL when memory is out */

json_t *ew_json_known(double value); /* null for NaN and what is below 0: there is none */

/* Adds member `key`; takes `value` over, as Jansson's _new functions do. A NULL object or value makes both
 * NULL, so that only the end of a construction needs a look. */
void ew_json_put(json_t **object, const char *key, json_t *value);
void ew_json_put_count(json_t **object, const char *key, size_t count);

/* Prints one line and releases the object; a NULL one is EW_ERROR_MEMORY. Numbers with all their digits. */
ew_status ew_json_print(json_t *object, ew_error *error);

/* The same line appended to a buffer. */
ew_status ew_json_append_line(json_t *object, ew_buffer *lines, ew_error *error);

#endif

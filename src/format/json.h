/* JSON that comes from files: parsed by Jansson, looked at with checks. */
#ifndef EW_FORMAT_JSON_H
#define EW_FORMAT_JSON_H

#include "base/error.h"
#include "format/names.h"

#include <jansson.h>

/* Parses text that must be one object (a key twice in an object is an error). *object is returned by
 * json_decref. */
ew_status ew_json_parse(ew_string text, const char *where, json_t **object, ew_error *error);

/* Members of an object. Absence and null leave *value alone; `found`, which may be NULL, tells. A value of
 * another kind, a negative integer or a number that is not finite is EW_ERROR_FORMAT, naming `where` and the
 * key. */
ew_status ew_json_get_size(const json_t *object, const char *key, const char *where, bool *found,
                           size_t *value, ew_error *error);
ew_status ew_json_get_number(const json_t *object, const char *key, const char *where, bool *found,
                             double *value, ew_error *error);
ew_status ew_json_get_bool(const json_t *object, const char *key, const char *where, bool *found, bool *value,
                           ew_error *error);
ew_status ew_json_get_text(const json_t *object, const char *key, const char *where, bool *found,
                           const char **value, ew_error *error);

/* Calls `take` for each line of a JSONL file that is not blank, parsed; `where` is "PATH line N". Stops at the first error. */
typedef ew_status (*ew_json_taker)(void *context, const json_t *object, const char *where, ew_error *error);
ew_status ew_json_read_lines(const char *path, ew_json_taker take, void *context, ew_error *error);

/* The text of one member of the outermost object, found without building the tree (tokenizer.json is large).
 * False when it is not there. What is around the member is not validated. */
bool ew_json_find_member(ew_string text, const char *key, ew_string *member);

#endif

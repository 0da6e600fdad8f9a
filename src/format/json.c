#include "format/json.h"
#include "base/file.h"
#include "format/lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ew_status ew_json_parse(ew_string text, const char *where, json_t **object, ew_error *error) {
    json_error_t problem;
    *object = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &problem);
    if (!*object && problem.text[0] == '\0') { /* how Jansson says that memory is out, where it says so */
        return ew_fail_memory(error, text.length, where);
    }
    if (!*object) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: not valid JSON at line %d, column %d: %s", where,
                       problem.line, problem.column, problem.text);
    }
    if (!json_is_object(*object)) {
        json_decref(*object);
        *object = NULL;
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the JSON is no object", where);
    }
    return EW_OK;
}

static const json_t *member(const json_t *object, const char *key, bool *found) {
    const json_t *value = json_object_get(object, key);
    if (json_is_null(value)) {
        value = NULL;
    }
    if (found) {
        *found = value != NULL;
    }
    return value;
}

static ew_status fail_kind(const char *where, const char *key, const char *wanted, ew_error *error) {
    return ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" must be %s", where, key, wanted);
}

ew_status ew_json_get_size(const json_t *object, const char *key, const char *where, bool *found,
                           size_t *value, ew_error *error) {
    const json_t *entry = member(object, key, found);
    if (!entry) {
        return EW_OK;
    }
    if (!json_is_integer(entry) || json_integer_value(entry) < 0 ||
        (unsigned long long)json_integer_value(entry) > SIZE_MAX) {
        return fail_kind(where, key, "a non-negative integer", error);
    }
    *value = (size_t)json_integer_value(entry);
    return EW_OK;
}

ew_status ew_json_get_number(const json_t *object, const char *key, const char *where, bool *found,
                             double *value, ew_error *error) {
    const json_t *entry = member(object, key, found);
    if (!entry) {
        return EW_OK;
    }
    if (!json_is_number(entry) || !isfinite(json_number_value(entry))) {
        return fail_kind(where, key, "a number", error);
    }
    *value = json_number_value(entry);
    return EW_OK;
}

ew_status ew_json_get_bool(const json_t *object, const char *key, const char *where, bool *found, bool *value,
                           ew_error *error) {
    const json_t *entry = member(object, key, found);
    if (!entry) {
        return EW_OK;
    }
    if (!json_is_boolean(entry)) {
        return fail_kind(where, key, "true or false", error);
    }
    *value = json_is_true(entry);
    return EW_OK;
}

ew_status ew_json_get_text(const json_t *object, const char *key, const char *where, bool *found,
                           const char **value, ew_error *error) {
    const json_t *entry = member(object, key, found);
    if (!entry) {
        return EW_OK;
    }
    if (!json_is_string(entry)) {
        return fail_kind(where, key, "a string", error);
    }
    *value = json_string_value(entry);
    return EW_OK;
}

static size_t skip_space(ew_string text, size_t at) {
    while (at < text.length && memchr(" \t\r\n", text.data[at], 4)) {
        at++;
    }
    return at;
}

/* From the opening quote to behind the closing one; text.length when there is none. */
static size_t skip_text(ew_string text, size_t at) {
    for (at++; at < text.length; at++) {
        if (text.data[at] == '"') {
            return at + 1;
        }
        if (text.data[at] == '\\') {
            at++;
        }
    }
    return text.length;
}

/* To the comma or bracket behind a value. */
static size_t skip_value(ew_string text, size_t at) {
    size_t depth = 0;
    while (at < text.length) {
        char c = text.data[at];
        if (c == '"') {
            at = skip_text(text, at);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            return at;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        at++;
    }
    return text.length;
}

bool ew_json_find_member(ew_string text, const char *key, ew_string *found) {
    size_t at = skip_space(text, 0);
    while (at < text.length) {
        size_t name = skip_space(text, at + 1); /* behind the '{' or ',' */
        if (name >= text.length || text.data[name] != '"') {
            return false;
        }
        size_t end = skip_text(text, name), colon = skip_space(text, end);
        size_t value = skip_space(text, colon + 1);
        if (value >= text.length) {
            return false;
        }
        at = skip_value(text, value);
        if (ew_string_is((ew_string){text.data + name + 1, end - name - 2}, key)) {
            *found = (ew_string){text.data + value, at - value};
            return true;
        }
        if (at < text.length && text.data[at] != ',') {
            return false;
        }
    }
    return false;
}

static ew_status take_line(ew_string line, const char *where, ew_json_taker take, void *context, ew_error *error) {
    json_t *object = NULL;
    ew_status status = ew_json_parse(line, where, &object, error);
    if (status == EW_OK) {
        status = take(context, object, where, error);
    }
    json_decref(object);
    return status;
}

ew_status ew_json_read_lines(const char *path, ew_json_taker take, void *context, ew_error *error) {
    ew_mapping mapping = {0};
    ew_string line;
    size_t number = 0;
    ew_status status = ew_map_file(path, &mapping, error);
    ew_string text = {mapping.data ? (const char *)mapping.data : "", mapping.size};
    while (status == EW_OK && ew_next_line(&text, &line, &number)) {
        char where[320];
        snprintf(where, sizeof where, "%.256s line %zu", path, number);
        status = take_line(line, where, take, context, error);
    }
    ew_unmap(&mapping);
    return status;
}

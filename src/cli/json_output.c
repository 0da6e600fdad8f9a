#include "cli/json_output.h"
#include "base/buffer.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json_t *ew_json_repaired(const char *bytes, size_t length) {
    ew_buffer repaired = {0};
    json_t *text = NULL;
    ew_buffer_append(&repaired, "", 0);
    for (size_t i = 0; i < length;) {
        size_t valid = ew_utf8_valid_prefix(bytes + i, length - i);
        ew_buffer_append(&repaired, bytes + i, valid);
        i += valid;
        if (i < length) {
            bool cut;
            ew_buffer_append_text(&repaired, "\xef\xbf\xbd");
            i += ew_utf8_broken(bytes + i, length - i, &cut);
        }
    }
    if (!repaired.failed) {
        text = json_stringn(repaired.data, repaired.length);
    }
    ew_buffer_free(&repaired);
    return text;
}

json_t *ew_json_plain(const char *bytes, size_t length) {
    ew_buffer text = {0};
    ew_buffer_append(&text, "", 0);
    for (size_t i = 0; i < length; i++) {
        ew_buffer_append(&text, bytes[i] != '\0' ? bytes + i : "\xef\xbf\xbd", bytes[i] != '\0' ? 1 : 3);
    }
    json_t *json = text.failed ? NULL : ew_json_repaired(text.data, text.length);
    ew_buffer_free(&text);
    return json;
}

json_t *ew_json_ids(const int32_t *ids, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++) {
        if (json_array_append_new(array, json_integer(ids[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

json_t *ew_json_known(double value) {
    return isnan(value) || value < 0 ? json_null() : json_real(value);
}

void ew_json_put(json_t **object, const char *key, json_t *value) {
    if (!*object || !value) {
        json_decref(*object);
        json_decref(value);
        *object = NULL;
        return;
    }
    if (json_object_set_new(*object, key, value) != 0) {
        json_decref(*object);
        *object = NULL;
    }
}

void ew_json_put_count(json_t **object, const char *key, size_t count) {
    ew_json_put(object, key, json_integer((json_int_t)count));
}

/* NULL when memory is out; releases the object. */
static char *written(json_t *object) {
    char *line =
        object ? json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(object);
    return line;
}

ew_status ew_json_print(json_t *object, ew_error *error) {
    char *line = written(object);
    if (!line) {
        return ew_fail(error, EW_ERROR_MEMORY, "out of memory while writing JSON");
    }
    puts(line); /* ew_cli_finish looks whether it was written */
    free(line);
    return EW_OK;
}

ew_status ew_json_append_line(json_t *object, ew_buffer *lines, ew_error *error) {
    char *line = written(object);
    if (line) {
        ew_buffer_append_text(lines, line);
        ew_buffer_append_text(lines, "\n");
    }
    bool failed = !line || lines->failed;
    free(line);
    return failed ? ew_fail(error, EW_ERROR_MEMORY, "out of memory while writing JSON") : EW_OK;
}

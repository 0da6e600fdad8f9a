#include "text/problem.h"

#include <stdlib.h>
#include <string.h>

/* A string as it is, a number as it is written; NULL in *text for null and for nothing. */
static ew_status read_text(const json_t *object, const char *key, const char *where, const char **text, char **owned,
                           ew_error *error) {
    const json_t *value = json_object_get(object, key);
    *text = NULL;
    if (!value || json_is_null(value)) {
        return EW_OK;
    }
    if (json_is_string(value)) {
        *text = json_string_value(value);
        return EW_OK;
    }
    if (!json_is_number(value)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" must be a string or a number", where, key);
    }
    *text = *owned = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    return *owned ? EW_OK : ew_fail_memory(error, 32, "a number");
}

static ew_status add_choices(const json_t *choices, const char *where, ew_buffer *text, ew_error *error) {
    size_t n = json_array_size(choices);
    if (!json_is_array(choices) || n > 26) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"choices\" must be an array of at most 26 strings", where);
    }
    ew_buffer_append_text(text, n > 0 ? "\n" : "");
    for (size_t i = 0; i < n; i++) {
        const json_t *choice = json_array_get(choices, i);
        if (!json_is_string(choice)) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: \"choices\" must be an array of at most 26 strings", where);
        }
        ew_buffer_append_format(text, "\n%c. ", (char)('A' + (int)i));
        ew_buffer_append(text, json_string_value(choice), json_string_length(choice));
    }
    return EW_OK;
}

ew_status ew_problem_read(const json_t *object, const char *where, ew_problem *out, ew_error *error) {
    *out = (ew_problem){0};
    const json_t *problem = json_object_get(object, "problem"), *solution = json_object_get(object, "solution");
    const json_t *choices = json_object_get(object, "choices");
    if (!json_is_string(problem)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"problem\" must be a string", where);
    }
    if (solution && !json_is_null(solution) && !json_is_string(solution)) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"solution\" must be a string", where);
    }
    if (json_is_string(solution)) {
        out->solution = (ew_string){json_string_value(solution), json_string_length(solution)};
    }
    ew_buffer *text = &out->owned_text;
    ew_buffer_append(text, json_string_value(problem), json_string_length(problem));
    ew_status status = read_text(object, "id", where, &out->id, &out->owned_id, error);
    if (status == EW_OK) {
        status = read_text(object, "answer", where, &out->answer, &out->owned_answer, error);
    }
    if (status == EW_OK && choices && !json_is_null(choices)) {
        status = add_choices(choices, where, text, error);
    }
    if (status == EW_OK && text->failed) {
        status = ew_fail_memory(error, text->length, "a problem");
    }
    out->id = out->id ? out->id : "";
    out->text = (ew_string){text->data ? text->data : "", text->length};
    return status;
}

void ew_problem_free(ew_problem *problem) {
    free(problem->owned_id);
    free(problem->owned_answer);
    ew_buffer_free(&problem->owned_text);
    *problem = (ew_problem){0};
}

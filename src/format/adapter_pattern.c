#include "format/adapter_pattern.h"
#include "base/buffer.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Module paths have some fifty bytes, so an honest expression stays far below the limit of steps. */
enum { MAX_PATTERN_BYTES = 512, MATCH_LIMIT = 10000, HEAP_LIMIT_KIB = 1024, MAX_EXPRESSIONS = 64, MAX_NAMES = 16384 };

static bool is_literal(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    return text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

static ew_status compile(const char *text, bool whole, const char *where, ew_module_pattern *pattern, ew_error *error) {
    ew_buffer expression = {0};
    int code = 0;
    PCRE2_SIZE offset = 0;
    ew_buffer_append_format(&expression, whole ? "%s" : "(.*\\.)?(%s)$", text);
    if (expression.failed) {
        ew_buffer_free(&expression);
        return ew_fail_memory(error, strlen(text), "a pattern");
    }
    pattern->code = pcre2_compile((PCRE2_SPTR)expression.data, expression.length,
                                  PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C | (whole ? PCRE2_ENDANCHORED : 0u), &code,
                                  &offset, NULL);
    ew_buffer_free(&expression);
    if (pattern->code) {
        return EW_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED) {
        return ew_fail_memory(error, strlen(text), "a pattern");
    }
    PCRE2_UCHAR why[120] = "";
    pcre2_get_error_message(code, why, sizeof why);
    return ew_fail(error, EW_ERROR_FORMAT, "%s: the module pattern '%.100s' is no regular expression: %s", where, text,
                   (const char *)why);
}

ew_status ew_module_pattern_compile(const char *text, bool whole, const char *where, ew_module_pattern *pattern,
                                    ew_error *error) {
    *pattern = (ew_module_pattern){.text = text, .literal = !whole && is_literal(text)};
    if (strlen(text) > MAX_PATTERN_BYTES) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: a module pattern has %zu bytes; at most %d are taken", where,
                       strlen(text), MAX_PATTERN_BYTES);
    }
    return pattern->literal ? EW_OK : compile(text, whole, where, pattern, error);
}

/* The end of a path, where a dot of the pattern stands for any character. */
static bool literal_matches(const char *text, const char *module) {
    size_t length = strlen(text), path = strlen(module);
    if (length > path || (length < path && module[path - length - 1] != '.')) {
        return false;
    }
    const char *end = module + path - length;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '.' && text[i] != end[i]) {
            return false;
        }
    }
    return true;
}

ew_status ew_module_pattern_match(const ew_module_pattern *pattern, const char *module, const char *where,
                                  bool *matches, ew_error *error) {
    if (pattern->literal) {
        *matches = literal_matches(pattern->text, module);
        return EW_OK;
    }
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int result = PCRE2_ERROR_NOMEMORY;
    if (context && data) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
        result = pcre2_match(pattern->code, (PCRE2_SPTR)module, strlen(module), 0, 0, data, context);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (result == PCRE2_ERROR_NOMEMORY) {
        return ew_fail_memory(error, sizeof(void *), "matching a pattern");
    }
    if (result < 0 && result != PCRE2_ERROR_NOMATCH) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: the module pattern '%.100s' takes too long on %s", where,
                       pattern->text, module);
    }
    *matches = result >= 0;
    return EW_OK;
}

void ew_module_pattern_free(ew_module_pattern *pattern) {
    pcre2_code_free(pattern->code);
    *pattern = (ew_module_pattern){0};
}

static ew_status fill_numbers(const json_t *object, const char *key, const char *where, ew_module_numbers *numbers,
                              ew_error *error) {
    const char *text;
    json_t *value;
    size_t expressions = 0;
    json_object_foreach((json_t *)(uintptr_t)object, text, value) {
        double *number = &numbers->values[numbers->count];
        ew_status status = ew_json_get_number(object, text, where, NULL, number, error);
        if (status == EW_OK && !json_is_number(value)) {
            status = ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" of \"%s\" must be a number", where, text, key);
        }
        if (status == EW_OK) {
            status = ew_module_pattern_compile(text, false, where, &numbers->patterns[numbers->count], error);
        }
        if (status != EW_OK) {
            return status;
        }
        expressions += !numbers->patterns[numbers->count].literal;
        numbers->count++;
        if (expressions > MAX_EXPRESSIONS) {
            return ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" has more than %d regular expressions", where, key,
                           MAX_EXPRESSIONS);
        }
    }
    return EW_OK;
}

ew_status ew_module_numbers_read(const json_t *config, const char *key, const char *where, ew_module_numbers *numbers,
                                 ew_error *error) {
    const json_t *object = json_object_get(config, key);
    *numbers = (ew_module_numbers){0};
    if (!object || json_is_null(object)) {
        return EW_OK;
    }
    if (!json_is_object(object) || json_object_size(object) > MAX_NAMES) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" must be an object of at most %d numbers", where, key,
                       MAX_NAMES);
    }
    size_t count = json_object_size(object);
    numbers->patterns = ew_allocate(count, sizeof *numbers->patterns);
    numbers->values = ew_allocate(count, sizeof *numbers->values);
    ew_status status = numbers->patterns && numbers->values
                           ? fill_numbers(object, key, where, numbers, error)
                           : ew_fail_memory(error, count * sizeof *numbers->patterns, "module patterns");
    if (status != EW_OK) {
        ew_module_numbers_free(numbers);
    }
    return status;
}

ew_status ew_module_numbers_find(const ew_module_numbers *numbers, const char *module, const char *where, double *value,
                                 ew_error *error) {
    bool matches = false;
    for (size_t i = 0; i < numbers->count; i++) {
        ew_status status = ew_module_pattern_match(&numbers->patterns[i], module, where, &matches, error);
        if (status != EW_OK) {
            return status;
        }
        if (matches) {
            *value = numbers->values[i];
            break;
        }
    }
    return EW_OK;
}

void ew_module_numbers_free(ew_module_numbers *numbers) {
    for (size_t i = 0; i < numbers->count; i++) {
        ew_module_pattern_free(&numbers->patterns[i]);
    }
    free(numbers->patterns);
    free(numbers->values);
    *numbers = (ew_module_numbers){0};
}

/* "target_modules" or "exclude_modules": a list of names or an expression. */
static ew_status read_modules(const json_t *config, const char *key, const char *where, const json_t **modules,
                              ew_module_pattern *pattern, ew_error *error) {
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value)) {
        return EW_OK;
    }
    bool right = json_is_string(value) || (json_is_array(value) && json_array_size(value) <= MAX_NAMES);
    for (size_t i = 0; i < json_array_size(value); i++) {
        right = right && json_is_string(json_array_get(value, i));
    }
    if (!right) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: \"%s\" must be a list of names or a regular expression", where,
                       key);
    }
    *modules = value;
    const char *text = json_string_value(value);
    if (!text || strcmp(text, "all-linear") == 0) {
        return EW_OK;
    }
    return ew_module_pattern_compile(text, true, where, pattern, error);
}

ew_status ew_module_choice_read(const json_t *config, const char *where, ew_module_choice *choice, ew_error *error) {
    *choice = (ew_module_choice){0};
    ew_status status = read_modules(config, "target_modules", where, &choice->targets, &choice->target, error);
    if (status == EW_OK) {
        status = read_modules(config, "exclude_modules", where, &choice->excluded, &choice->exclusion, error);
    }
    const json_t *layers = json_object_get(config, "layers_to_transform");
    if (layers && !json_is_null(layers)) {
        choice->layers = layers;
        bool right = json_is_integer(layers) || (json_is_array(layers) && json_array_size(layers) <= MAX_NAMES);
        for (size_t i = 0; i < json_array_size(layers); i++) {
            right = right && json_is_integer(json_array_get(layers, i));
        }
        if (status == EW_OK && !right) {
            status = ew_fail(error, EW_ERROR_FORMAT,
                             "%s: \"layers_to_transform\" must be a number or a list of numbers", where);
        }
    }
    if (status != EW_OK) {
        ew_module_choice_free(choice);
    }
    return status;
}

bool ew_module_choice_given(const ew_module_choice *choice) {
    return choice->targets != NULL;
}

static bool has_layer(const json_t *layers, size_t layer) {
    if (!json_is_array(layers)) {
        return json_integer_value(layers) == (json_int_t)layer;
    }
    for (size_t i = 0; i < json_array_size(layers); i++) {
        if (json_integer_value(json_array_get(layers, i)) == (json_int_t)layer) {
            return true;
        }
    }
    return false;
}

/* A name of a list means the module of exactly this path, or (`*end`) all whose path ends in it. */
static bool listed(const json_t *names, const char *module, bool *end) {
    size_t path = strlen(module);
    *end = false;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t length = strlen(name);
        if (strcmp(name, module) == 0) {
            *end = false;
            return true;
        }
        *end = *end || (length < path && module[path - length - 1] == '.' && strcmp(module + path - length, name) == 0);
    }
    return *end;
}

ew_status ew_module_choice_covers(const ew_module_choice *choice, const char *module, size_t layer, const char *where,
                                  bool *covers, ew_error *error) {
    ew_status status = EW_OK;
    bool end, excluded = listed(choice->excluded, module, &end);
    if (choice->exclusion.text) {
        status = ew_module_pattern_match(&choice->exclusion, module, where, &excluded, error);
    }
    *covers = !excluded;
    if (status != EW_OK || excluded) {
        return status;
    }
    if (choice->target.text) {
        return ew_module_pattern_match(&choice->target, module, where, covers, error);
    }
    if (json_is_string(choice->targets)) { /* all-linear */
        return EW_OK;
    }
    *covers = listed(choice->targets, module, &end) && (!end || !choice->layers || has_layer(choice->layers, layer));
    return EW_OK;
}

void ew_module_choice_free(ew_module_choice *choice) {
    ew_module_pattern_free(&choice->target);
    ew_module_pattern_free(&choice->exclusion);
    *choice = (ew_module_choice){0};
}

/* Which modules a PEFT configuration means: its names are regular expressions on module paths such as
 * model.layers.3.self_attn.q_proj. Bounded in time whatever the expression is. */
#ifndef EW_FORMAT_ADAPTER_PATTERN_H
#define EW_FORMAT_ADAPTER_PATTERN_H

#include "format/json.h"

/* A regular expression as PEFT uses it: of a whole path (re.fullmatch), or of its end, '(.*\.)?(KEY)$'. */
typedef struct ew_module_pattern {
    const char *text; /* not owned */
    bool literal;     /* an end without special characters but the dot: compared without PCRE2 */
    void *code;       /* PCRE2's; owned */
} ew_module_pattern;

/* `where` names the file in messages. Errors: EW_ERROR_FORMAT for what is no expression, EW_ERROR_MEMORY. */
ew_status ew_module_pattern_compile(const char *text, bool whole, const char *where, ew_module_pattern *pattern,
                                    ew_error *error);
ew_status ew_module_pattern_match(const ew_module_pattern *pattern, const char *module, const char *where,
                                  bool *matches, ew_error *error);
void ew_module_pattern_free(ew_module_pattern *pattern); /* safe on {0} */

/* rank_pattern and alpha_pattern: the first key in the file's order that matches counts. */
typedef struct ew_module_numbers {
    ew_module_pattern *patterns;
    double *values;
    size_t count;
} ew_module_numbers;

/* Member `key` of the configuration, an object of numbers; absent and null are an empty one. */
ew_status ew_module_numbers_read(const json_t *config, const char *key, const char *where, ew_module_numbers *numbers,
                                 ew_error *error);
/* The value for a module; *value is left alone where no key matches. */
ew_status ew_module_numbers_find(const ew_module_numbers *numbers, const char *module, const char *where, double *value,
                                 ew_error *error);
void ew_module_numbers_free(ew_module_numbers *numbers); /* safe on {0} */

/* target_modules, exclude_modules and layers_to_transform: which modules of a model get an adapter. */
typedef struct ew_module_choice {
    const json_t *targets, *excluded, *layers; /* members of the configuration, which outlives this */
    ew_module_pattern target, exclusion;       /* where they are expressions */
} ew_module_choice;

ew_status ew_module_choice_read(const json_t *config, const char *where, ew_module_choice *choice, ew_error *error);
/* Whether the configuration says at all. */
bool ew_module_choice_given(const ew_module_choice *choice);
ew_status ew_module_choice_covers(const ew_module_choice *choice, const char *module, size_t layer, const char *where,
                                  bool *covers, ew_error *error);
void ew_module_choice_free(ew_module_choice *choice); /* safe on {0} */

#endif

/* tokenizer.json's pipeline around the model: normalizer, pre-tokenizer, post-processor, decoder. */
#include "text/tokenizer_json.h"

#include <string.h>

enum { MAX_NESTING = 8 };

static const char *type_of(const json_t *step) {
    size_t length = 0;
    const char *type = ew_json_text(step, "type", &length);
    return type ? type : "";
}

static ew_status refuse(const ew_tokenizer_parts *parts, const char *what, const json_t *step,
                        const char *known, ew_error *error) {
    return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the %s \"%.60s\" is not known; %s", parts->name, what,
                   type_of(step), known);
}

static ew_status read_normalizer(const json_t *step, ew_tokenizer_parts *parts, int depth, ew_error *error) {
    static const char *const nfc_keys[] = {"type", NULL};
    static const char *const sequence_keys[] = {"type", "normalizers", NULL};
    if (!step || json_is_null(step)) {
        return EW_OK;
    }
    if (strcmp(type_of(step), "NFC") == 0) {
        parts->flags |= EW_BLOB_NFC;
        return ew_json_only(step, nfc_keys, "the normalizer", parts->name, error);
    }
    if (strcmp(type_of(step), "Sequence") != 0 || depth == MAX_NESTING) {
        return refuse(parts, "normalizer", step, "NFC and a Sequence of it are read", error);
    }
    const json_t *list = json_object_get(step, "normalizers");
    ew_status status = ew_json_only(step, sequence_keys, "the normalizer", parts->name, error);
    for (size_t i = 0; status == EW_OK && i < json_array_size(list); i++) {
        status = read_normalizer(json_array_get(list, i), parts, depth + 1, error);
    }
    return status;
}

static ew_status read_split(const json_t *step, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const behaviors[EW_N_SPLIT_BEHAVIORS] = {
        [EW_SPLIT_ISOLATED] = "Isolated",
        [EW_SPLIT_REMOVED] = "Removed",
        [EW_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [EW_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [EW_SPLIT_CONTIGUOUS] = "Contiguous"};
    const json_t *pattern = json_object_get(step, "pattern");
    size_t length = 0, ignored = 0;
    const char *name = ew_json_text(step, "behavior", &ignored);
    const char *text = ew_json_text(pattern, "Regex", &length);
    ew_step_kind kind = EW_STEP_REGEX;
    if (!text) {
        kind = EW_STEP_LITERAL;
        text = ew_json_text(pattern, "String", &length);
    }
    if (!text || length == 0 || json_object_size(pattern) != 1) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: a Split has no pattern; {\"Regex\": ...} and {\"String\": ...} are read",
                       parts->name);
    }
    unsigned behavior = 0;
    while (behavior < EW_N_SPLIT_BEHAVIORS && !(name && strcmp(name, behaviors[behavior]) == 0)) {
        behavior++;
    }
    if (behavior == EW_N_SPLIT_BEHAVIORS) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED, "%s: the behavior \"%.40s\" of a Split is not known",
                       parts->name, name ? name : "");
    }
    ew_status status = ew_json_only(step, keys, "a Split", parts->name, error);
    bool invert = json_is_true(json_object_get(step, "invert"));
    return status == EW_OK
               ? ew_parts_split(parts, kind, text, length, (ew_split_behavior)behavior, invert, error)
               : status;
}

static ew_status read_digits(const json_t *step, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const keys[] = {"type", "individual_digits", NULL};
    static const char digit[] = "\\p{N}";
    bool individual = json_is_true(json_object_get(step, "individual_digits"));
    ew_status status = ew_json_only(step, keys, "Digits", parts->name, error);
    return status == EW_OK
               ? ew_parts_split(parts, EW_STEP_REGEX, digit, sizeof digit - 1,
                                individual ? EW_SPLIT_ISOLATED : EW_SPLIT_CONTIGUOUS, false, error)
               : status;
}

/* ByteLevel: a space in front, GPT-2's pattern, and then the byte alphabet, behind which no step can come.
 * Both settings are on where they are absent. */
static ew_status read_byte_level(const json_t *step, ew_tokenizer_parts *parts, ew_error *error) {
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    ew_status status = ew_json_only(step, keys, "ByteLevel", parts->name, error);
    if (status == EW_OK && !json_is_false(json_object_get(step, "add_prefix_space"))) {
        status = ew_parts_split(parts, EW_STEP_PREFIX_SPACE, "", 0, EW_SPLIT_ISOLATED, false, error);
    }
    if (status == EW_OK && !json_is_false(json_object_get(step, "use_regex"))) {
        status = ew_parts_split(parts, EW_STEP_REGEX, ew_pattern_gpt2, strlen(ew_pattern_gpt2),
                                EW_SPLIT_ISOLATED, false, error);
    }
    return status;
}

/* *bytes tells whether ByteLevel has been met: it must come, once, and last. */
static ew_status read_pre_tokenizer(const json_t *step, ew_tokenizer_parts *parts, bool *bytes, int depth,
                                    ew_error *error) {
    static const char *const keys[] = {"type", "pretokenizers", NULL};
    if (*bytes) {
        return refuse(parts, "pre-tokenizer", step, "nothing can follow ByteLevel", error);
    }
    if (strcmp(type_of(step), "Split") == 0) {
        return read_split(step, parts, error);
    }
    if (strcmp(type_of(step), "Digits") == 0) {
        return read_digits(step, parts, error);
    }
    if (strcmp(type_of(step), "ByteLevel") == 0) {
        *bytes = true;
        return read_byte_level(step, parts, error);
    }
    if (strcmp(type_of(step), "Sequence") != 0 || depth == MAX_NESTING) {
        return refuse(parts, "pre-tokenizer", step,
                      "Split, Digits, ByteLevel and a Sequence of them are read", error);
    }
    const json_t *list = json_object_get(step, "pretokenizers");
    ew_status status = ew_json_only(step, keys, "the pre-tokenizer", parts->name, error);
    for (size_t i = 0; status == EW_OK && i < json_array_size(list); i++) {
        status = read_pre_tokenizer(json_array_get(list, i), parts, bytes, depth + 1, error);
    }
    return status;
}

static ew_status check_decoder(const json_t *decoder, const ew_tokenizer_parts *parts, int depth,
                               ew_error *error) {
    if (!decoder || json_is_null(decoder) || strcmp(type_of(decoder), "ByteLevel") == 0) {
        return EW_OK;
    }
    if (strcmp(type_of(decoder), "Sequence") != 0 || depth == MAX_NESTING) {
        return refuse(parts, "decoder", decoder, "ByteLevel is read", error);
    }
    const json_t *list = json_object_get(decoder, "decoders");
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < json_array_size(list); i++) {
        status = check_decoder(json_array_get(list, i), parts, depth + 1, error);
    }
    return status;
}

ew_status ew_json_steps(const json_t *root, ew_tokenizer_parts *parts, ew_error *error) {
    const json_t *pre_tokenizer = json_object_get(root, "pre_tokenizer");
    bool bytes = false;
    ew_status status = read_normalizer(json_object_get(root, "normalizer"), parts, 0, error);
    if (status == EW_OK && pre_tokenizer && !json_is_null(pre_tokenizer)) {
        status = read_pre_tokenizer(pre_tokenizer, parts, &bytes, 0, error);
    }
    if (status == EW_OK && !bytes) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: the pre-tokenizer does not end in ByteLevel; only byte-level BPE is read",
                       parts->name);
    }
    return status == EW_OK ? check_decoder(json_object_get(root, "decoder"), parts, 0, error) : status;
}

/* TemplateProcessing puts special tokens around a text: one before it is BOS, anything behind it is refused.
 */
static ew_status read_template(const json_t *processor, ew_tokenizer_parts *parts, ew_error *error) {
    const json_t *single = json_object_get(processor, "single");
    size_t n = json_array_size(single), length = 0;
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    const json_t *last = json_object_get(json_array_get(single, n - 1), "Sequence");
    const char *text = ew_json_text(first, "id", &length);
    if (n < 1 || n > 2 || !last || (n == 2 && !text)) {
        return ew_fail(error, EW_ERROR_UNSUPPORTED,
                       "%s: the post-processor adds something other than one token before a text",
                       parts->name);
    }
    if (n == 1) {
        return EW_OK;
    }
    parts->bos = ew_parts_find_special(parts, text, length);
    parts->flags |= EW_BLOB_ADD_BOS;
    if (parts->bos == EW_NO_TOKEN) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: the post-processor's token '%.80s' is not in the vocabulary", parts->name, text);
    }
    return EW_OK;
}

static ew_status read_processor(const json_t *processor, ew_tokenizer_parts *parts, int depth,
                                ew_error *error) {
    if (!processor || json_is_null(processor) || strcmp(type_of(processor), "ByteLevel") == 0) {
        return EW_OK; /* ByteLevel only moves offsets */
    }
    if (strcmp(type_of(processor), "TemplateProcessing") == 0) {
        return read_template(processor, parts, error);
    }
    if (strcmp(type_of(processor), "Sequence") != 0 || depth == MAX_NESTING) {
        return refuse(parts, "post-processor", processor,
                      "ByteLevel, TemplateProcessing and a Sequence are read", error);
    }
    const json_t *list = json_object_get(processor, "processors");
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < json_array_size(list); i++) {
        status = read_processor(json_array_get(list, i), parts, depth + 1, error);
    }
    return status;
}

ew_status ew_json_post_processor(const json_t *root, ew_tokenizer_parts *parts, ew_error *error) {
    return read_processor(json_object_get(root, "post_processor"), parts, 0, error);
}

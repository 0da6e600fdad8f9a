#include "text/pattern.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/pattern_dialect.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

const char ew_pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct ew_pattern {
    pcre2_code *code;
    bool fast; /* PCRE2's just-in-time compiler took it */
};

/* Backtracking points one search may take: far above what an honest pattern needs on a run as long as the
 * text. */
enum { MATCH_LIMIT_BASE = 100000, MATCH_LIMIT_PER_BYTE = 64, HEAP_LIMIT_KIB = 65536 };

static ew_status compile_translated(const ew_buffer *text, uint32_t options, ew_pattern *pattern,
                                    ew_error *error) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        return ew_fail_memory(error, sizeof(void *), "a pattern");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code = 0;
    PCRE2_SIZE offset = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)text->data, text->length, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!pattern->code) {
        PCRE2_UCHAR why[160] = "";
        pcre2_get_error_message(code, why, sizeof why);
        if (code == PCRE2_ERROR_HEAP_FAILED) {
            return ew_fail_memory(error, text->length, "a pattern");
        }
        return ew_fail(error, EW_ERROR_FORMAT,
                       "the pattern '%.200s' is no regular expression: %s at byte %zu", text->data,
                       (const char *)why, (size_t)offset);
    }
    pattern->fast = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    return EW_OK;
}

ew_status ew_pattern_compile(const char *text, size_t length, bool literal, ew_pattern **out,
                             ew_error *error) {
    if (length == 0 || length > EW_PATTERN_MAX_LENGTH) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "a pattern of the pre-tokenizer has %zu bytes; 1 to %d are right", length,
                       EW_PATTERN_MAX_LENGTH);
    }
    if (ew_utf8_valid_prefix(text, length) != length) {
        return ew_fail(error, EW_ERROR_FORMAT, "a pattern of the pre-tokenizer is not UTF-8");
    }
    ew_buffer translated = {0};
    ew_pattern *pattern = calloc(1, sizeof *pattern);
    ew_status status = EW_OK;
    if (!pattern) {
        return ew_fail_memory(error, sizeof *pattern, "a pattern");
    }
    if (literal) {
        ew_buffer_append(&translated, text, length);
        if (translated.failed) {
            status = ew_fail_memory(error, length, "a pattern");
        }
    } else {
        status = ew_pattern_translate(text, length, &translated, error);
    }
    if (status == EW_OK) {
        uint32_t regex = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
        status = compile_translated(&translated, literal ? PCRE2_UTF | PCRE2_LITERAL : regex, pattern, error);
    }
    ew_buffer_free(&translated);
    if (status != EW_OK) {
        ew_pattern_free(pattern);
        return status;
    }
    *out = pattern;
    return EW_OK;
}

void ew_pattern_free(ew_pattern *pattern) {
    if (pattern) {
        pcre2_code_free(pattern->code);
        free(pattern);
    }
}

void ew_matcher_free(ew_matcher *matcher) {
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    *matcher = (ew_matcher){0};
}

static bool prepare(ew_matcher *matcher, size_t length) {
    if (!matcher->context) {
        matcher->context = pcre2_match_context_create(NULL);
    }
    if (!matcher->data) {
        matcher->data = pcre2_match_data_create(1, NULL);
    }
    if (!matcher->context || !matcher->data) {
        return false;
    }
    uint64_t limit = MATCH_LIMIT_BASE + (uint64_t)length * MATCH_LIMIT_PER_BYTE;
    pcre2_set_match_limit(matcher->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    return true;
}

/* The just-in-time code has a small stack of its own; what exceeds it is matched by the interpreter. */
static int search(const ew_pattern *pattern, ew_matcher *matcher, const char *text, size_t length,
                  size_t from) {
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (pattern->fast) {
        result = pcre2_jit_match(pattern->code, subject, length, from, PCRE2_NO_UTF_CHECK, matcher->data,
                                 matcher->context);
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
        result = pcre2_match(pattern->code, subject, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                             matcher->data, matcher->context);
    }
    return result;
}

ew_status ew_pattern_next(const ew_pattern *pattern, ew_matcher *matcher, const char *text, size_t length,
                          ew_match_cursor *cursor, bool *found, size_t *start, size_t *end, ew_error *error) {
    *found = false;
    if (cursor->from > length) {
        return EW_OK;
    }
    if (!prepare(matcher, length)) {
        return ew_fail_memory(error, sizeof(void *), "matching a pattern");
    }
    for (;;) {
        int result = search(pattern, matcher, text, length, cursor->from);
        if (result == PCRE2_ERROR_NOMATCH) {
            return EW_OK;
        }
        if (result == PCRE2_ERROR_NOMEMORY) {
            return ew_fail_memory(error, length, "matching a pattern");
        }
        if (result < 0) {
            return ew_fail(
                error, EW_ERROR_UNSUPPORTED,
                "the pre-tokenizer's pattern needs too many steps on a text of %zu bytes (PCRE2 error %d)",
                length, result);
        }
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(matcher->data);
        *start = place[0];
        *end = place[1];
        if (*start > *end || *end > length || *start < cursor->from) {
            return ew_fail(error, EW_ERROR_UNSUPPORTED,
                           "the pre-tokenizer's pattern moves its match backwards");
        }
        if (*start < *end || !cursor->matched || *end != cursor->last_end) {
            break;
        }
        if (cursor->from >= length) {
            cursor->from = length + 1;
            return EW_OK;
        }
        cursor->from += ew_utf8_decode(text + cursor->from, length - cursor->from, NULL);
    }
    cursor->from = *end;
    cursor->last_end = *end;
    cursor->matched = true;
    *found = true;
    return EW_OK;
}

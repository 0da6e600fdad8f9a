#include "text/chat_recognize.h"

#include "base/memory.h"
#include "text/chat_literals.h"

#include <stdlib.h>
#include <string.h>

const char ew_chat_qwen2_5_system[] = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
const char ew_chat_smollm2_system[] = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

static const char *find(const char *text, size_t length, const char *word) {
    return length ? memmem(text, length, word, strlen(word)) : NULL;
}

static bool writes(const ew_buffer *literals, const char *word) {
    return find(literals->data, literals->length, word) != NULL;
}

static bool says(ew_string template, const char *word) {
    return find(template.data, template.length, word) != NULL;
}

static bool begins(const char *text, const char *end, const char *word) {
    size_t n = strlen(word);
    return (size_t)(end - text) >= n && memcmp(text, word, n) == 0;
}

/* Whether every "<|...|>" that the template writes is among `allowed` (ended by NULL). */
static bool only_tokens(const ew_buffer *literals, const char *const allowed[]) {
    const char *at = literals->data, *end = at + literals->length;
    while ((at = find(at, (size_t)(end - at), "<|")) != NULL) {
        size_t i = 0;
        while (allowed[i] && !begins(at, end, allowed[i])) {
            i++;
        }
        if (!allowed[i]) {
            return false;
        }
        at += 2;
    }
    return true;
}

/* What may follow <|im_start|>: a role that code writes, or a role by its name and then code or a line end.
 */
static bool plain_headers(const ew_buffer *literals) {
    static const char *const roles[] = {"system", "user", "assistant", NULL};
    const char *at = literals->data, *end = at + literals->length;
    while ((at = find(at, (size_t)(end - at), "<|im_start|>")) != NULL) {
        at += strlen("<|im_start|>");
        if (at == end || *at == '\0') {
            continue;
        }
        size_t i = 0;
        while (roles[i] && !begins(at, end, roles[i])) {
            i++;
        }
        if (!roles[i]) {
            return false;
        }
        const char *after = at + strlen(roles[i]);
        bool line_end = after < end && *after == '\n';
        if (after < end && *after != '\0' && !line_end) {
            return false;
        }
        if (line_end && begins(after + 1, end, "<think>")) {
            return false; /* thinking that cannot be switched off */
        }
    }
    return true;
}

/* content | trim, content'] | trim, content.strip() */
static bool strips_content(ew_string template) {
    static const char word[] = "content";
    const char *at = template.data, *end = at + template.length;
    while ((at = find(at, (size_t)(end - at), word)) != NULL) {
        at += strlen(word);
        const char *next = at;
        while (next < end && strchr("'\"]) ", *next) && *next) {
            next++;
        }
        if (begins(next, end, ".strip()") || begins(next, end, "|trim") || begins(next, end, "| trim")) {
            return true;
        }
    }
    return false;
}

/* The text that stands whole, in one literal, between a system header and the end of its turn. */
static bool copy_system(const ew_buffer *literals, const char *header, const char *turn_end, ew_buffer *out) {
    const char *at = literals->data, *end = at + literals->length;
    while ((at = find(at, (size_t)(end - at), header)) != NULL) {
        at += strlen(header);
        const char *gap = memchr(at, '\0', (size_t)(end - at));
        const char *stop = find(at, (size_t)((gap ? gap : end) - at), turn_end);
        if (stop && stop > at) {
            ew_buffer_append(out, at, (size_t)(stop - at));
            return true;
        }
        at = stop ? stop : gap ? gap : end;
    }
    return false;
}

static ew_status find_system(ew_string template, const ew_buffer *literals, char **system, ew_error *error) {
    ew_buffer text = {0};
    bool found =
        copy_system(literals, "<|im_start|>system\n", "<|im_end|>", &text) ||
        copy_system(literals, "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", &text) ||
        ew_chat_assigned_system(template, &text);
    if (text.failed) {
        ew_buffer_free(&text);
        return ew_fail_memory(error, template.length, "a system prompt");
    }
    if (!found) {
        ew_buffer_free(&text);
    }
    *system = text.data;
    return EW_OK;
}

ew_status ew_chat_find_default_system(ew_string template, char **system, ew_error *error) {
    ew_buffer literals = {0};
    *system = NULL;
    ew_chat_literals(template, &literals);
    ew_status status = literals.failed ? ew_fail_memory(error, template.length, "a chat template")
                                       : find_system(template, &literals, system, error);
    ew_buffer_free(&literals);
    return status;
}

static bool is_chatml(ew_string template, const ew_buffer *literals) {
    static const char *const tokens[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>", NULL};
    return writes(literals, "<|im_start|>") && writes(literals, "<|im_end|>\n") &&
           only_tokens(literals, tokens) && plain_headers(literals) && !says(template, "strftime_now") &&
           !writes(literals, "Knowledge Cutoff") && !writes(literals, "## Metadata");
}

static bool is_llama3(ew_string template, const ew_buffer *literals) {
    static const char *const tokens[] = {
        "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
        "<|eot_id|>",        "<|eom_id|>",      "<|python_tag|>",      NULL};
    return writes(literals, "<|start_header_id|>") && writes(literals, "<|end_header_id|>\n\n") &&
           writes(literals, "<|eot_id|>") && only_tokens(literals, tokens) &&
           !says(template, "enable_thinking") && !writes(literals, "<think>");
}

/* Llama 3.1 to 3.3 begin with two dates; any other "Knowledge Date" is something else. */
static bool has_dates(const ew_buffer *literals) {
    return writes(literals, "Cutting Knowledge Date: December 2023\n") && writes(literals, "Today Date: ");
}

static bool choose(ew_string template, const ew_buffer *literals, ew_chat_template *out) {
    out->begins_with_bos = says(template, "bos_token") || writes(literals, "<|begin_of_text|>");
    out->strips = strips_content(template);
    if (is_llama3(template, literals)) {
        out->family = EW_CHAT_LLAMA3;
        out->dated = has_dates(literals);
        out->name = out->dated ? "llama3.1" : "llama3";
        return out->dated || !writes(literals, "Knowledge Date");
    }
    if (!is_chatml(template, literals)) {
        return false;
    }
    bool switches = says(template, "enable_thinking");
    out->family = switches ? EW_CHAT_QWEN3 : EW_CHAT_CHATML;
    out->name = switches ? "qwen3" : "chatml";
    /* One that handles thinking is Qwen3's or unknown. */
    return switches ? writes(literals, "<think>\n\n</think>\n\n") : !writes(literals, "think>");
}

ew_status ew_chat_recognize(ew_string template, ew_chat_template *out, bool *recognized, ew_error *error) {
    ew_buffer literals = {0};
    ew_status status = EW_OK;
    ew_chat_literals(template, &literals);
    if (literals.failed) {
        ew_buffer_free(&literals);
        return ew_fail_memory(error, template.length, "a chat template");
    }
    *recognized = literals.length > 0 && choose(template, &literals, out);
    if (*recognized) {
        status = find_system(template, &literals, &out->default_system, error);
    }
    if (*recognized && out->default_system && out->family == EW_CHAT_CHATML) {
        bool qwen = strcmp(out->default_system, ew_chat_qwen2_5_system) == 0;
        bool smollm = strcmp(out->default_system, ew_chat_smollm2_system) == 0;
        out->name = qwen ? "qwen2.5" : smollm ? "smollm2" : out->name;
    }
    ew_buffer_free(&literals);
    return status;
}

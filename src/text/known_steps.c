#include "text/known_steps.h"

#include <string.h>

/* The patterns are those of the models' own tokenizer.json files. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define REST_SLASH "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char ew_pattern_qwen2[] = CONTRACTIONS WORDS "|\\p{N}" REST;
static const char llama3[] = CONTRACTIONS WORDS "|\\p{N}{1,3}" REST;
static const char gpt4o[] = LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
                                       "?|\\p{N}{1,3}" REST_SLASH;
static const char tekken[] = LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}" REST_SLASH;
static const char each_digit[] = "\\p{N}";

static const struct {
    const char *name;
    const char *patterns[2]; /* Splits, Isolated, one after the other */
    bool llama3;
} known[] = {
    {"qwen2", {ew_pattern_qwen2}, false},
    {"deepseek-r1-qwen", {ew_pattern_qwen2}, false},
    {"stablelm2", {ew_pattern_qwen2}, false},
    {"llama-bpe", {llama3}, true},
    {"llama3", {llama3}, true},
    {"llama-v3", {llama3}, true},
    {"dbrx", {llama3}, false},
    {"smaug-bpe", {llama3}, false},
    {"smollm", {each_digit, ew_pattern_gpt2}, false},
    {"starcoder", {each_digit, ew_pattern_gpt2}, false},
    {"refact", {each_digit, ew_pattern_gpt2}, false},
    {"command-r", {each_digit, ew_pattern_gpt2}, false},
    {"codeshell", {each_digit, ew_pattern_gpt2}, false},
    {"exaone", {each_digit, ew_pattern_gpt2}, false},
    {"gpt-2", {ew_pattern_gpt2}, false},
    {"gpt2", {ew_pattern_gpt2}, false},
    {"phi-2", {ew_pattern_gpt2}, false},
    {"mpt", {ew_pattern_gpt2}, false},
    {"olmo", {ew_pattern_gpt2}, false},
    {"jais", {ew_pattern_gpt2}, false},
    {"gpt-4o", {gpt4o}, false},
    {"llama4", {gpt4o}, false},
    {"tekken", {tekken}, true},
};

bool ew_known_steps(ew_tokenizer_parts *parts, const char *name, size_t length, bool *is_llama3,
                    ew_status *status, ew_error *error) {
    size_t i = 0, n = sizeof known / sizeof *known;
    while (i < n && !(strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0)) {
        i++;
    }
    if (i == n) {
        return false;
    }
    *is_llama3 = known[i].llama3;
    *status = EW_OK;
    for (size_t p = 0; *status == EW_OK && p < 2 && known[i].patterns[p]; p++) {
        const char *pattern = known[i].patterns[p];
        *status =
            ew_parts_split(parts, EW_STEP_REGEX, pattern, strlen(pattern), EW_SPLIT_ISOLATED, false, error);
    }
    return true;
}

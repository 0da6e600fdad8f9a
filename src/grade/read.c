/* From an answer's characters to its tree, with words where mathematics ends. */
#include "grade/expression.h"
#include "grade/text.h"

#include <string.h>

static ew_expr *constant(ew_work *work, ew_constant id) {
    ew_expr *expr = ew_expr_new(work, EW_CONSTANT, 0);
    if (expr) {
        expr->op = (uint8_t)id;
    }
    return expr;
}

static ew_expr *text_of(ew_work *work, ew_span text) {
    ew_expr *expr = ew_expr_new(work, EW_TEXT, 0);
    if (expr) {
        expr->text = text.text;
        expr->text_length = text.length;
    }
    return expr;
}

/* 2:30 p.m.: digits first, half of the day last. The spaces are taken out of *words. */
static bool is_time_of_day(ew_work *work, ew_span *words) {
    char *tight = words->length < 24 ? ew_work_allocate(work, words->length + 1) : NULL;
    size_t n = 0;
    for (size_t i = 0; tight && i < words->length; i++) {
        if (words->text[i] != ' ') {
            tight[n++] = words->text[i];
        }
    }
    bool time = n > 2 && tight[0] >= '0' && tight[0] <= '9' && tight[n - 1] == 'm' &&
                (tight[n - 2] == 'a' || tight[n - 2] == 'p');
    for (size_t i = 0; time && i < n - 2; i++) {
        time = tight[i] >= '0' && tight[i] <= '9';
    }
    if (time) {
        *words = ew_span_of(tight, n);
    }
    return time;
}

static bool among(ew_span words, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (ew_span_is(words, list[i])) {
            return true;
        }
    }
    return false;
}

/* Words with a mathematical meaning; NULL for others. */
static ew_expr *meaning(ew_work *work, ew_span words) {
    static const char *const empty[] = {
        "no solution", "no solutions",           "no real solution",     "no real solutions", "none",
        "empty set",   "there are no solutions", "there is no solution", "no real roots"};
    static const char *const reals[] = {"all real numbers",        "all reals",           "real numbers",
                                        "set of all real numbers", "set of real numbers", "any real number"};
    static const char *const undefined[] = {"dne", "does not exist", "undefined", "not defined"};
    int64_t value;
    if (among(words, undefined, sizeof undefined / sizeof *undefined)) {
        return text_of(work, ew_span_of("undefined", 9));
    }
    if (among(words, empty, sizeof empty / sizeof *empty)) {
        return constant(work, EW_EMPTY);
    }
    if (among(words, reals, sizeof reals / sizeof *reals)) {
        return constant(work, EW_REALS);
    }
    if (ew_words_number(words, &value)) {
        ew_expr *expr = ew_expr_new(work, EW_NUMBER, 0);
        return expr && ew_rational_integer(work, value, &expr->number) ? expr : NULL;
    }
    return NULL;
}

ew_expr *ew_read(ew_work *work, const char *text, size_t length, ew_reading reading) {
    ew_span answer = ew_trim_answer(text, length), words;
    bool half_day = answer.length > 2 && answer.length < 40 && memchr("mM.}", answer.text[answer.length - 1], 4);
    if (half_day) {
        words = ew_text_words(work, answer.text, answer.length);
        if (is_time_of_day(work, &words)) {
            return text_of(work, words);
        }
    }
    ew_expr *expr = ew_parse(work, answer.text, answer.length, reading);
    if (expr || work->memory_out) {
        return expr;
    }
    words = ew_text_words(work, answer.text, answer.length);
    expr = words.length ? meaning(work, words) : NULL;
    if (expr) {
        return expr;
    }
    ew_span tight = words.length ? words : ew_text_tight(work, answer.text, answer.length);
    return tight.text ? text_of(work, tight) : NULL;
}

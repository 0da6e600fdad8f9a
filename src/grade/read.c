/* From an answer's characters to its tree, with words where mathematics ends. */
#include "grade/expression.h"
#include "grade/text.h"

static ew_expr *constant(ew_work *work, ew_constant id) {
    ew_expr *expr = ew_expr_new(work, EW_CONSTANT, 0);
    if (expr) {
        expr->op = (uint8_t)id;
    }
    return expr;
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
    static const char *const empty[] = {"no solution", "no solutions", "no real solution", "no real solutions", "none",
                                        "empty set", "there are no solutions", "there is no solution", "no real roots"};
    static const char *const reals[] = {"all real numbers", "all reals", "real numbers", "set of all real numbers",
                                        "set of real numbers", "any real number"};
    int64_t value;
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
    ew_span answer = ew_trim_answer(text, length);
    ew_expr *expr = ew_parse(work, answer.text, answer.length, reading);
    if (expr || work->memory_out) {
        return expr;
    }
    ew_span words = ew_text_words(work, answer.text, answer.length);
    expr = words.length ? meaning(work, words) : NULL;
    if (expr) {
        return expr;
    }
    ew_span tight = words.length ? words : ew_text_tight(work, answer.text, answer.length);
    expr = ew_expr_new(work, EW_TEXT, 0);
    if (expr && tight.text) {
        expr->text = tight.text;
        expr->text_length = tight.length;
    }
    return expr;
}

#include "grade/grade.h"

#include "base/error.h"
#include "base/memory.h"
#include "grade/compare.h"
#include "grade/text.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES_LIMIT = 1024, PAIR_FUEL = 400000 };
#define CLASSES_FUEL (INT64_C(200) << 20)

/* ---- The task ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* 3,456 and \$32,\!348: digits in groups of three, dress around them. */
static bool is_grouped_number(ew_span text) {
    size_t digits = 0, groups = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.text[i];
        if (is_digit(c)) {
            digits++;
        } else if (c == ',') {
            size_t next = i + 1;
            while (next < text.length && strchr("\\!} ", text.text[next]) && (text.text[i + 1] != ' ')) {
                next++;
            }
            size_t n = 0;
            while (next + n < text.length && is_digit(text.text[next + n])) {
                n++;
            }
            if (digits == 0 || digits > 3 || n != 3) {
                return false;
            }
            groups++;
            digits = 0;
        }
    }
    return groups > 0;
}

/* A comma or semicolon outside brackets and outside \text{...}. */
static bool has_top_comma(ew_span text) {
    int depth = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.text[i];
        if (c == '\\' && i + 1 < text.length && !strchr("{}", text.text[i + 1])) {
            i++; /* \, and \; are spaces */
        } else if (c && strchr("([{", c)) {
            depth++;
        } else if (c && strchr(")]}", c)) {
            depth--;
        } else if ((c == ',' || c == ';') && depth <= 0) {
            return true;
        }
    }
    return false;
}

ew_grade_task ew_task_of_gold(const char *gold, size_t length) {
    ew_span text = ew_trim_answer(gold, length);
    const char *letter = text.text;
    static const char *const dresses[] = {"",           "(",          "\\text{",   "\\text{(",
                                          "\\textbf{(", "\\mathrm{(", "\\mathrm{", "\\textbf{"};
    static const char *const ends[] = {"", ")", "}", ")}", ")}", ")}", "}", "}"};
    for (size_t i = 0; i < sizeof dresses / sizeof *dresses; i++) {
        size_t before = strlen(dresses[i]), behind = strlen(ends[i]);
        if (text.length == before + 1 + behind && memcmp(letter, dresses[i], before) == 0 &&
            memcmp(letter + before + 1, ends[i], behind) == 0 && letter[before] >= 'A' && letter[before] <= 'J') {
            return EW_TASK_CHOICE;
        }
    }
    return has_top_comma(text) && !is_grouped_number(text) ? EW_TASK_LIST : EW_TASK_MATH;
}

/* ---- One grading ---- */

typedef struct grading {
    ew_work work;
    ew_comparison comparison;
    ew_reading reading;
} grading;

static void begin(grading *g, ew_grade_task task, double tolerance, bool symmetric) {
    ew_work_begin(&g->work);
    g->reading = (ew_reading){.grouping = true};
    g->comparison =
        (ew_comparison){.work = &g->work, .tolerance = tolerance, .symmetric = symmetric, .list = task == EW_TASK_LIST};
}

/* The last $...$ of an answer that is otherwise prose; the whole of it when there is none. */
static ew_span inner_mathematics(ew_span text) {
    if (!text.text) {
        return text;
    }
    const char *close = memrchr(text.text, '$', text.length);
    const char *open = close && close > text.text ? memrchr(text.text, '$', (size_t)(close - text.text)) : NULL;
    if (open && open + 1 < close) {
        return ew_span_of(open + 1, (size_t)(close - open - 1));
    }
    close = NULL;
    for (const char *at = text.text; (at = memmem(at, (size_t)(text.text + text.length - at), "\\)", 2)) != NULL;
         at += 2) {
        close = at;
    }
    for (const char *at = text.text; close && (at = memmem(at, (size_t)(close - at), "\\(", 2)) != NULL; at += 2) {
        open = at + 2;
    }
    return close && open ? ew_span_of(open, (size_t)(close - open)) : text;
}

/* "Yes, it does" for yes. */
static bool says_more(ew_span answer, ew_span words, ew_span gold) {
    bool verdict =
        ew_span_is(gold, "yes") || ew_span_is(gold, "no") || ew_span_is(gold, "true") || ew_span_is(gold, "false");
    return verdict && words.length > gold.length && memcmp(words.text, gold.text, gold.length) == 0 &&
           words.text[gold.length] == ' ' && memchr(answer.text, ',', answer.length);
}

/* The last resort, where at least one of the answers is no mathematics: the same characters or the same
 * words. */
static bool same_characters(ew_work *work, ew_span a, ew_span b, bool text) {
    ew_span words = {NULL, 0}, others = words;
    if (text) { /* words have no case, formulas have */
        words = ew_text_words(work, a.text, a.length);
        others = ew_text_words(work, b.text, b.length);
    }
    if (words.length > 0 && (ew_span_equal(words, others) || says_more(a, words, others))) {
        return true;
    }
    ew_span x = ew_text_tight(work, a.text, a.length), y = ew_text_tight(work, b.text, b.length);
    return x.text && y.text && x.length > 0 && ew_span_equal(x, y);
}

/* Is the answer right? *tree is what the answer was read as, NULL when it could not be. */
static bool judge(grading *g, ew_span answer, ew_span gold, ew_expr **tree) {
    ew_work *work = &g->work;
    ew_expr *a = ew_read(work, answer.text, answer.length, g->reading);
    *tree = a;
    if (ew_span_equal(answer, gold)) {
        return true;
    }
    ew_expr *b = ew_read(work, gold.text, gold.length, g->reading);
    if (!a || !b) {
        return false; /* the limits are reached, and the texts differ */
    }
    if (ew_same_answer(&g->comparison, a, b)) {
        return true;
    }
    if (a->kind == EW_TEXT && b->kind != EW_TEXT) {
        ew_span inner = inner_mathematics(answer);
        ew_expr *again = inner.length < answer.length ? ew_read(work, inner.text, inner.length, g->reading) : NULL;
        if (again && again->kind != EW_TEXT) {
            *tree = again;
            return ew_same_answer(&g->comparison, again, b);
        }
    }
    /* Numbers have had their exact say; anything else may still be written alike, like a condition that no
     * set holds. */
    return !(a->kind == EW_NUMBER && b->kind == EW_NUMBER) &&
           same_characters(work, answer, gold, a->kind == EW_TEXT || b->kind == EW_TEXT);
}

/* The normal form; the answer's own text when it has none within the limits. */
static char *normal_text(grading *g, const ew_expr *tree, ew_span answer) {
    size_t length = 0;
    const char *text = tree ? ew_expr_print(&g->work, tree, &length) : NULL;
    return text ? ew_copy_text(text, length) : ew_copy_text(answer.text, answer.length);
}

static ew_status fill(grading *g, ew_grade_result *result, ew_extract answer, char *normal, ew_error *error) {
    result->answer = normal && !g->work.memory_out ? ew_copy_text(answer.text, answer.length) : NULL;
    result->normal = normal;
    ew_work_end(&g->work);
    if (!result->answer) {
        ew_grade_result_free(result);
        return ew_fail_memory(error, answer.length + 1, "a graded answer");
    }
    return EW_OK;
}

static ew_status grade_choice(ew_extract answer, ew_span gold, ew_grade_result *result, ew_error *error) {
    grading g;
    char letter = ew_choice_letter(answer.text, answer.length), right = ew_choice_letter(gold.text, gold.length);
    begin(&g, EW_TASK_CHOICE, 0, false);
    result->verdict = letter && letter == right ? EW_VERDICT_RIGHT : EW_VERDICT_WRONG;
    return fill(&g, result, answer, letter ? ew_copy_text(&letter, 1) : ew_copy_text(answer.text, answer.length),
                error);
}

static ew_status grade_value(ew_extract answer, ew_span gold, const ew_grade_options *options, ew_grade_task task,
                             ew_grade_result *result, ew_error *error) {
    grading g;
    ew_expr *tree = NULL;
    ew_span text = ew_trim_answer(answer.text, answer.length);
    begin(&g, task, options->tolerance, false);
    if (options->task == EW_TASK_LIST && is_grouped_number(gold)) {
        g.reading.grouping = false; /* the caller knows better: 3,456 are two */
    }
    result->verdict = judge(&g, text, gold, &tree) ? EW_VERDICT_RIGHT : EW_VERDICT_WRONG;
    return fill(&g, result, answer, normal_text(&g, tree, text), error);
}

/* The caller's options, whatever their age, in today's struct. */
static ew_status read_options(const ew_grade_options *given, ew_grade_options *options, ew_error *error) {
    *options = (ew_grade_options){.size = sizeof *options};
    if (given) {
        size_t size = given->size < sizeof *options ? given->size : sizeof *options;
        if (size < sizeof given->size) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "grading: options.size is %zu, set it to sizeof(ew_grade_options)",
                           size);
        }
        memcpy(options, given, size);
    }
    if ((int)options->task < EW_TASK_AUTO || options->task > EW_TASK_CHOICE) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "grading: unknown task %d", (int)options->task);
    }
    if (!(options->tolerance >= 0 && options->tolerance < 1)) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "grading: the tolerance must be 0 or more and below 1");
    }
    return EW_OK;
}

ew_status ew_grade_with(const char *reply, const char *gold, const ew_grade_options *given, ew_grade_result *result,
                        ew_error *error) {
    ew_grade_options options;
    if (!reply || !gold || !result) {
        return ew_fail(error, EW_ERROR_ARGUMENT, "grading: reply, gold and result must not be NULL");
    }
    *result = (ew_grade_result){.verdict = EW_VERDICT_NONE};
    ew_status status = read_options(given, &options, error);
    if (status != EW_OK) {
        return status;
    }
    ew_span right = ew_trim_answer(gold, strlen(gold));
    ew_grade_task task = options.task ? options.task : ew_task_of_gold(right.text, right.length);
    size_t length = strlen(reply);
    ew_extract answer = options.bare ? ew_extract_bare(reply, length, task) : ew_extract_answer(reply, length, task);
    if (!answer.found) {
        return EW_OK;
    }
    return task == EW_TASK_CHOICE ? grade_choice(answer, right, result, error)
                                  : grade_value(answer, right, &options, task, result, error);
}

ew_status ew_grade(const char *reply, const char *gold, ew_grade_task task, ew_grade_result *result, ew_error *error) {
    ew_grade_options options = {.size = sizeof options, .task = task};
    return ew_grade_with(reply, gold, &options, result, error);
}

void ew_grade_result_free(ew_grade_result *result) {
    if (result) {
        free(result->answer);
        free(result->normal);
        *result = (ew_grade_result){.verdict = EW_VERDICT_NONE};
    }
}

ew_status ew_final_answer(const char *reply, ew_grade_task task, char **answer, ew_error *error) {
    if (!reply || !answer || (int)task < EW_TASK_AUTO || task > EW_TASK_CHOICE) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "grading: reply and answer must not be NULL, the task one of ew_grade_task");
    }
    *answer = NULL;
    ew_extract found = ew_extract_answer(reply, strlen(reply), task ? task : EW_TASK_MATH);
    if (found.found) {
        *answer = ew_copy_text(found.text, found.length);
        if (!*answer) {
            return ew_fail_memory(error, found.length + 1, "a final answer");
        }
    }
    return EW_OK;
}

/* ---- Classes ---- */

/* Union-find over the distinct answers, so that the classes are transitive whatever the comparisons say. */
typedef struct candidate {
    ew_span text;
    ew_expr *tree;
    size_t parent;
    char letter;
} candidate;

static size_t root_of(candidate *all, size_t i) {
    while (all[i].parent != i) {
        all[i].parent = all[all[i].parent].parent;
        i = all[i].parent;
    }
    return i;
}

/* One direction, within fuel of its own, so that the order of the two cannot matter; takes what was burnt off *fuel. */
static bool same_way(grading *g, const candidate *a, const candidate *b, int64_t *fuel) {
    ew_work_mark mark = ew_work_marked(&g->work);
    g->work.fuel = PAIR_FUEL;
    g->work.exhausted = false;
    bool same = ew_same_answer(&g->comparison, a->tree, b->tree);
    if (!same && (a->tree->kind == EW_TEXT || b->tree->kind == EW_TEXT)) {
        same = same_characters(&g->work, a->text, b->text, true);
    }
    *fuel -= PAIR_FUEL - g->work.fuel;
    ew_work_rewind(&g->work, mark);
    return same;
}

static bool same_pair(grading *g, const candidate *a, const candidate *b, ew_grade_task task, int64_t *fuel) {
    if (ew_span_equal(a->text, b->text)) {
        return true;
    }
    if (task == EW_TASK_CHOICE && (a->letter || b->letter)) {
        return a->letter == b->letter;
    }
    return a->tree && b->tree && (same_way(g, a, b, fuel) || same_way(g, b, a, fuel));
}

/* Compares all pairs that are not yet together; each within its own fuel, all within CLASSES_FUEL. */
static void join(grading *g, candidate *all, size_t n, ew_grade_task task) {
    int64_t fuel = CLASSES_FUEL;
    for (size_t i = 0; i < n && !g->work.memory_out; i++) {
        for (size_t j = 0; j < i && fuel > 0 && !g->work.memory_out; j++) {
            size_t a = root_of(all, i), b = root_of(all, j);
            if (a == b) {
                continue;
            }
            if (same_pair(g, &all[i], &all[j], task, &fuel)) {
                all[a > b ? a : b].parent = a > b ? b : a;
            }
        }
    }
}

static void read_candidates(grading *g, candidate *all, size_t n) {
    for (size_t i = 0; i < n && !g->work.memory_out; i++) {
        all[i].parent = i;
        if (all[i].text.text) {
            all[i].letter = ew_choice_letter(all[i].text.text, all[i].text.length);
            g->work.fuel = PAIR_FUEL;
            g->work.exhausted = false;
            all[i].tree = ew_read(&g->work, all[i].text.text, all[i].text.length, g->reading);
        }
    }
}

ew_status ew_answer_classes(const char *const *answers, size_t n, ew_grade_task task, size_t *classes,
                            ew_error *error) {
    if ((n && (!answers || !classes)) || n > CLASSES_LIMIT || (int)task < EW_TASK_AUTO || task > EW_TASK_CHOICE) {
        return ew_fail(error, EW_ERROR_ARGUMENT,
                       "grading: classes are made of 0 to %d answers of a known task, got %zu", CLASSES_LIMIT, n);
    }
    candidate *all = ew_allocate(n, sizeof *all);
    grading g;
    if (!all) {
        return ew_fail_memory(error, n * sizeof *all, "answer classes");
    }
    begin(&g, task, 0, true);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) { /* NULL answers are left out */
        if (answers[i]) {
            all[used++].text = ew_trim_answer(answers[i], strlen(answers[i]));
        }
    }
    read_candidates(&g, all, used);
    join(&g, all, used, task);
    bool memory_out = g.work.memory_out;
    size_t next = 0, at = 0, *numbers = memory_out ? NULL : ew_allocate(n, sizeof *numbers);
    for (size_t i = 0; numbers && i < n; i++) { /* a root is the first of its class */
        classes[i] = SIZE_MAX;
        if (answers[i]) {
            size_t root = root_of(all, at);
            numbers[at] = root == at ? next++ : numbers[root];
            classes[i] = numbers[at++];
        }
    }
    bool done = numbers != NULL;
    free(numbers);
    free(all);
    ew_work_end(&g.work);
    return done ? EW_OK : ew_fail_memory(error, n * sizeof *numbers, "answer classes");
}

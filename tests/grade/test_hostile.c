/* Input made to hurt: every verdict comes in milliseconds, within the workspace, without GMP ever allocating;
 * and memory that runs out at any allocation is survived and told. */
#include "edgewise.h"
#include "support.h"

#include <gmp.h>
#include <time.h>

enum { MILLISECONDS = 60 }; /* of the thread's own time, a few times what is seen */

/* How many times slower than an optimized build ordinary gradings are here: sanitizers, emulators, tired
 * machines. */
static double slowness = 1;

/* ---- malloc under our hand (the linker's --wrap) ---- */

static long allowed = -1, peak, live_calls;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool refuse(size_t size) {
    live_calls++;
    peak += (long)size;
    return allowed == 0 || (allowed > 0 && allowed-- == 0);
}
void *__wrap_malloc(size_t size) {
    return refuse(size) ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t n, size_t size) {
    return refuse(n * size) ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *old, size_t size) {
    return refuse(size) ? NULL : __real_realloc(old, size);
}

static void *gmp_must_not(size_t size) {
    (void)size;
    fail_msg("GMP allocated");
    return NULL;
}
static void *gmp_must_not_grow(void *old, size_t from, size_t size) {
    (void)old, (void)from;
    return gmp_must_not(size);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* head, then `times` copies of middle, then tail; freed by the caller. */
static char *repeated(const char *head, const char *middle, size_t times, const char *tail) {
    size_t a = strlen(head), m = strlen(middle), z = strlen(tail);
    char *text = malloc(a + m * times + z + 1);
    assert_non_null(text);
    memcpy(text, head, a);
    for (size_t i = 0; i < times; i++) {
        memcpy(text + a + i * m, middle, m);
    }
    memcpy(text + a + m * times, tail, z + 1);
    return text;
}

static ew_verdict timed(const char *reply, const char *gold, bool bare, const char *what) {
    ew_grade_options options = {.size = sizeof options, .bare = bare};
    ew_grade_result result;
    double start = now();
    peak = 0;
    assert_int_equal(ew_grade_with(reply, gold, &options, &result, NULL), EW_OK);
    double took = now() - start;
    if (took > MILLISECONDS * slowness) {
        fail_msg("%s: %.1f ms", what, took);
    }
    /* the workspace, and copies of the answer */
    assert_true(peak < (10 << 20) + 3 * (long)strlen(reply));
    ew_verdict verdict = result.verdict;
    ew_grade_result_free(&result);
    return verdict;
}

typedef struct flood {
    const char *head, *middle, *tail;
    size_t times;
} flood;

static const flood floods[] = {
    {"", "{", "", 1000000},
    {"", "}", "", 1000000},
    {"", "{}", "", 500000},
    {"", "(", "", 1000000},
    {"", "(", "1", 9000},
    {"", "[", ")", 9000},
    {"", "|", "", 9000},
    {"", "\\boxed{", "", 150000},
    {"", "\\boxed{1", "}", 100000},
    {"", "\\boxed{}", "", 100000},
    {"\\boxed{", "\\{", "}", 300000},
    {"", "<think>", "", 150000},
    {"", "</think>", "5", 150000},
    {"", "<", "", 1000000},
    {"", "answer", "", 150000},
    {"", "The answer is ", "5", 70000},
    {"", "####", "", 250000},
    {"", "-", "1", 15000},
    {"", "+-", "1", 9000},
    {"1", "^1", "", 9000},
    {"2", "^2", "", 9000},
    {"9", "^{9", "", 5000},
    {"x", "^{x}", "", 4000},
    {"3", "!", "", 10000},
    {"1", "/1", "", 9000},
    {"1", "\\pm 1", "", 3000},
    {"", "\\pm", "1", 5000},
    {"", "\\sqrt", "2", 3500},
    {"", "\\sqrt{", "2", 3000},
    {"", "\\frac", "12", 3500},
    {"", "\\frac{1}{1+", "1", 1500},
    {"", "\\sin", "1", 4000},
    {"", "\\sin(", "1", 3000},
    {"", "\\text{", "a", 3000},
    {"", "\\text{1", "", 3000},
    {"", "\\left(", "", 3000},
    {"", "1,", "1", 9000},
    {"", "1 ", "1", 9000},
    {"(", "1,", "1)", 9000},
    {"\\{", "1,", "1\\}", 9000},
    {"1", " \\cup [1,2]", "", 1500},
    {"x", "<x", "", 9000},
    {"x<1", " or x<1", "", 2000},
    {"\\begin{matrix}", "1&", "1\\end{matrix}", 9000},
    {"\\begin{matrix}", "1\\\\", "1\\end{matrix}", 6000},
    {"", "9", "", 19000},
    {"", "9", "", 1000000},
    {"1.", "3", "", 19000},
    {"", "1.1+", "1", 4500},
    {"", "(1/7+1/11)*", "1", 1500},
    {"", "x^{99}+y", "", 2000},
    {"", "\\sin x+", "1", 2500},
    {"", "(x+1)*", "1", 3000},
    {"", "x_{", "", 5000},
    {"", "x_", "1", 9000},
    {"x", "'", "", 15000},
    {"", "5%", "", 9000},
    {"5", "\\%", "", 9000},
    {"5", "^\\circ", "", 3000},
    {"5", " cm", "", 5000},
    {"", "\\overline{", "1", 2000},
    {"0.", "\\overline{3}", "", 1500},
    {"1/", "1,000", "", 4000},
    {"", "\xC2\xA2", "", 9000},
    {"x", "\xC2\xB2", "", 20000},
    {"", "\xE2\x88\x9A", "2", 6000},
    {"", "\xFF", "", 20000},
    {"", "$", "", 1000000},
    {"", "\\", "", 1000000},
    {"", "\n", "", 1000000},
    {"", "A ", "", 500000},
    {"", "one hundred ", "", 1600},
    {"", "word ", "", 200000},
};

static void test_floods(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        const flood *f = &floods[i];
        char *text = repeated(f->head, f->middle, f->times, f->tail);
        timed(text, "5", false, f->middle);
        timed(text, "5", true, f->middle);
        timed("5", text, true, f->middle);
        char *other = repeated(f->head, f->middle, f->times > 1000 ? f->times - 1 : f->times, f->tail);
        timed(text, other, true, f->middle); /* long against nearly the same */
        free(other);
        char *box = repeated("\\boxed{", text, 1, "}");
        timed(box, "B", false, f->middle);
        free(box);
        free(text);
    }
}

/* Small answers with large values. */
static void test_explosions(void **state) {
    (void)state;
    static const char *const bombs[] = {"10^{10^{10}}",
                                        "10^10^10",
                                        "9^{9^{9^{9}}}",
                                        "(10^{10})!",
                                        "1000!",
                                        "10000!",
                                        "((5!)!)!",
                                        "2^{-10^{18}}",
                                        "\\binom{10^9}{5\\cdot10^8}",
                                        "\\binom{10^{18}}{10^{18}-3}",
                                        "1e999999",
                                        "1e-999999",
                                        "10^{1000000}",
                                        "7^{5000}\\cdot 7^{5000}",
                                        "\\sqrt{10^{10^{10}}}",
                                        "e^{e^{e^{e}}}",
                                        "\\sin(10^{100})",
                                        "\\ln(10^{-10^{10}})",
                                        "\\gcd(10^{3000}+1, 7^{3000})",
                                        "0^0",
                                        "0^{-1}",
                                        "1/(1/0)",
                                        "\\tan\\frac{\\pi}{2}",
                                        "\\log_1 5",
                                        "\\lfloor 10^{30}\\pi \\rfloor",
                                        "(-1)^{1/2}",
                                        "x^{10^{10}}",
                                        "(x+1)^{1000}",
                                        "(1+10^{-3000})^{1000}",
                                        "\\infty-\\infty",
                                        "\\infty\\cdot 0",
                                        "1_{99999999999}",
                                        "12_{1}",
                                        "99999_{36}",
                                        "zz_{36}",
                                        "\\lceil\\lceil\\lceil 0.5",
                                        "\\max()",
                                        "\\gcd(0,0)",
                                        "x=x=x=x=x",
                                        "\\{x|x|x\\}",
                                        "(1,2",
                                        "1\\frac{0}{0}",
                                        "0.(0)",
                                        "0.\\overline{}"};
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        for (size_t j = 0; j < sizeof bombs / sizeof *bombs; j++) {
            ew_verdict verdict = timed(bombs[i], bombs[j], true, bombs[i]);
            if (i == j) {
                assert_int_equal(verdict, EW_VERDICT_RIGHT);
            }
        }
    }
    assert_int_equal(timed("10^{10^{10}}", "10^{10^{10}}+1", true, "one more"), EW_VERDICT_WRONG);
    assert_int_equal(timed("10^10^10", "10^{10000000000}", true, "the same"), EW_VERDICT_RIGHT);
    assert_int_equal(timed("1e999999", "1e999998", true, "powers"), EW_VERDICT_WRONG);
}

/* A long integer is itself, with separators or without, and not its neighbour. */
static void test_long_integers(void **state) {
    (void)state;
    char *plain = repeated("1", "234", 1500, ""), *grouped = repeated("1", ",234", 1500, ""),
         *next = repeated("1", "234", 1499, "235");
    assert_int_equal(timed(plain, grouped, true, "grouped"), EW_VERDICT_RIGHT);
    assert_int_equal(timed(plain, next, true, "neighbour"), EW_VERDICT_WRONG);
    free(plain), free(grouped), free(next);
    plain = repeated("1", "234", 30000, ""), next = repeated("1", "234", 29999, "235");
    assert_int_equal(timed(plain, plain, true, "itself"), EW_VERDICT_RIGHT);
    assert_int_equal(timed(plain, next, true, "neighbour"), EW_VERDICT_WRONG);
    free(plain), free(next);
}

static void test_classes_of_hostile_answers(void **state) {
    (void)state;
    char *answers[200];
    size_t classes[200];
    for (size_t i = 0; i < 200; i++) {
        char head[64];
        snprintf(head, sizeof head, "\\sin(%zu)+", i);
        answers[i] = repeated(head, "\\ln(x+y)^{x}+", 40, "1");
    }
    double start = now();
    assert_int_equal(ew_answer_classes((const char *const *)answers, 200, EW_TASK_AUTO, classes, NULL), EW_OK);
    assert_true(now() - start < 20 * MILLISECONDS * slowness);
    for (size_t i = 0; i < 200; i++) {
        free(answers[i]);
    }
}

/* Every allocation refused in its turn. */
static void test_memory_runs_out(void **state) {
    (void)state;
    char *matrix = repeated("\\boxed{\\begin{pmatrix}", "\\frac12+x & ", 80, "1\\end{pmatrix}}");
    char *again = repeated("\\begin{pmatrix}", "0.5+x & ", 80, "1\\end{pmatrix}");
    const char *pairs[][2] = {
        {matrix, again}, {"\\boxed{\\frac12}", "0.5"}, {"The answer is (B)", "B"}, {"\\pm 1", "1,-1"}};
    for (size_t i = 0; i < 4; i++) {
        bool done = false;
        for (long refused = 0; !done; refused += 1 + refused / 8) {
            ew_grade_result result;
            ew_error error = {0};
            allowed = refused;
            ew_status status = ew_grade(pairs[i][0], pairs[i][1], EW_TASK_AUTO, &result, &error);
            done = allowed > 0; /* it was never refused */
            allowed = -1;
            assert_true(status == (done ? EW_OK : EW_ERROR_MEMORY) || (status == EW_OK && refused > 0));
            if (status == EW_OK) {
                assert_int_equal(result.verdict, EW_VERDICT_RIGHT);
            } else {
                assert_null(result.answer);
                assert_int_equal(error.status, EW_ERROR_MEMORY);
            }
            ew_grade_result_free(&result);
        }
    }
    const char *const answers[] = {"1/2", "0.5", matrix, again, NULL};
    bool done = false;
    for (long refused = 0; !done; refused += 1 + refused / 8) {
        size_t classes[5];
        allowed = refused;
        ew_status status = ew_answer_classes(answers, 5, EW_TASK_AUTO, classes, NULL);
        done = allowed > 0;
        allowed = -1;
        assert_true(status == EW_OK || (!done && status == EW_ERROR_MEMORY));
    }
    free(matrix), free(again);
}

static void measure_slowness(void) {
    ew_grade_result result;
    double start = now();
    for (int i = 0; i < 400; i++) {
        if (ew_grade("So it is \\boxed{\\frac{1}{2}+\\sqrt{2}\\sin x}.", "x^2+y-\\frac{3}{7}", EW_TASK_AUTO, &result,
                     NULL) == EW_OK) {
            ew_grade_result_free(&result);
        }
    }
    double usual = 4; /* milliseconds */
    slowness = now() - start > usual ? (now() - start) / usual : 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    slowness *= 20; /* an instrumented allocator's costs grow with the workspace; release builds judge the time */
#endif
}

int main(void) {
    measure_slowness();
    mp_set_memory_functions(gmp_must_not, gmp_must_not_grow, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floods),          cmocka_unit_test(test_explosions),
        cmocka_unit_test(test_long_integers),   cmocka_unit_test(test_classes_of_hostile_answers),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

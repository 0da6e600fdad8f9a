/* How many answers a second one core grades: each worked solution of MATH-500 against its own gold answer and
 * against the next problem's.
 *
 *   bench_grade math500.jsonl [rounds] */
#include "edgewise.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PROBLEMS_MAX = 20000 };

static const char *solutions[PROBLEMS_MAX], *golds[PROBLEMS_MAX];
static size_t n_problems;

static double now(void) { /* the thread's own time: what other programs take away does not count */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int read_problems(const char *path) {
    FILE *file = fopen(path, "r");
    json_t *line;
    json_error_t error;
    if (!file) {
        perror(path);
        return -1;
    }
    while (n_problems < PROBLEMS_MAX && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error)) != NULL) {
        solutions[n_problems] = json_string_value(json_object_get(line, "solution"));
        golds[n_problems] = json_string_value(json_object_get(line, "answer"));
        n_problems += solutions[n_problems] && golds[n_problems];
    }
    fclose(file);
    return n_problems > 1 ? 0 : -1;
}

/* Grades every solution against the gold `ahead` problems later; returns how many were right, SIZE_MAX on
 * failure. */
static size_t grade_all(size_t ahead) {
    size_t right = 0;
    for (size_t i = 0; i < n_problems; i++) {
        ew_grade_result result;
        ew_error error;
        if (ew_grade(solutions[i], golds[(i + ahead) % n_problems], EW_TASK_AUTO, &result, &error) != EW_OK) {
            fprintf(stderr, "%s\n", error.message);
            return SIZE_MAX;
        }
        right += result.verdict == EW_VERDICT_RIGHT;
        ew_grade_result_free(&result);
    }
    return right;
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    if (argc < 2 || rounds < 1 || read_problems(argv[1]) != 0) {
        fprintf(stderr, "usage: bench_grade math500.jsonl [rounds]\n");
        return 1;
    }
    double best[2] = {0, 0};
    size_t right[2] = {0, 0};
    for (int round = 0; round < rounds; round++) {
        for (size_t ahead = 0; ahead < 2; ahead++) {
            double start = now();
            right[ahead] = grade_all(ahead);
            double rate = (double)n_problems / (now() - start);
            best[ahead] = rate > best[ahead] ? rate : best[ahead];
            if (right[ahead] == SIZE_MAX) {
                return 1;
            }
        }
    }
    printf("own gold:    %8.0f gradings/s, %zu of %zu right\n", best[0], right[0], n_problems);
    printf("next's gold: %8.0f gradings/s, %zu of %zu right\n", best[1], right[1], n_problems);
    printf("both:        %8.0f gradings/s on one core\n", 2 / (1 / best[0] + 1 / best[1]));
    return 0;
}

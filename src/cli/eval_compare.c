#include "cli/eval_compare.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "cli/eval_line.h"
#include "cli/json_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct outcome {
    char *id, *problem;
    bool right;
} outcome;

typedef struct outcomes {
    const char *path;
    outcome *list; /* [n], of graded problems, sorted by id */
    size_t n, capacity;
} outcomes;

static ew_status keep(void *context, ew_eval_line *line, const char *where, ew_error *error) {
    outcomes *kept = context;
    (void)where;
    if (!line->graded) {
        return EW_OK;
    }
    outcome one = {ew_copy_text(line->id, strlen(line->id)), ew_copy_text(line->problem, strlen(line->problem)),
                   line->verdicts[line->chosen] == EW_VERDICT_RIGHT};
    if (!one.id || !one.problem || !ew_grow((void **)&kept->list, &kept->capacity, kept->n + 1, sizeof one)) {
        free(one.id);
        free(one.problem);
        return ew_fail_memory(error, strlen(line->problem), "a problem");
    }
    kept->list[kept->n++] = one;
    return EW_OK;
}

static int by_id(const void *left, const void *right) {
    return strcmp(((const outcome *)left)->id, ((const outcome *)right)->id);
}

static ew_status read_outcomes(outcomes *kept, ew_error *error) {
    ew_status status = ew_eval_file_read(kept->path, keep, kept, error);
    if (status == EW_OK && kept->n > 0) {
        qsort(kept->list, kept->n, sizeof *kept->list, by_id);
    }
    for (size_t i = 1; status == EW_OK && i < kept->n; i++) {
        if (by_id(&kept->list[i - 1], &kept->list[i]) == 0) {
            status = ew_fail(error, EW_ERROR_ARGUMENT, "%s has the id %.80s twice", kept->path, kept->list[i].id);
        }
    }
    return status;
}

static void free_outcomes(outcomes *kept) {
    for (size_t i = 0; i < kept->n; i++) {
        free(kept->list[i].id);
        free(kept->list[i].problem);
    }
    free(kept->list);
}

/* Walks through both, which are sorted. */
static ew_status pair(const outcomes sides[2], ew_paired *pairs, ew_error *error) {
    const outcome *a = sides[0].list, *b = sides[1].list;
    *pairs = (ew_paired){0};
    for (size_t i = 0, k = 0; i < sides[0].n && k < sides[1].n;) {
        int order = by_id(&a[i], &b[k]);
        if (order == 0 && strcmp(a[i].problem, b[k].problem) != 0) {
            return ew_fail(error, EW_ERROR_ARGUMENT, "%.80s is one problem in %s and another in %s", a[i].id,
                           sides[0].path, sides[1].path);
        }
        if (order == 0) {
            size_t *count = a[i].right ? (b[k].right ? &pairs->both : &pairs->first)
                                       : (b[k].right ? &pairs->second : &pairs->neither);
            ++*count;
        }
        i += order <= 0;
        k += order >= 0;
    }
    return pairs->both + pairs->first + pairs->second + pairs->neither > 0
               ? EW_OK
               : ew_fail(error, EW_ERROR_ARGUMENT, "%s and %s have no graded problem in common", sides[0].path,
                         sides[1].path);
}

static void print_side(const char *path, size_t k, size_t n) {
    double low, high;
    ew_wilson(k, n, &low, &high);
    printf("%5.1f %% (95 %%: %.1f to %.1f %%)  %s\n", 100.0 * (double)k / (double)n, 100.0 * low, 100.0 * high, path);
}

static ew_status show(const outcomes sides[2], const ew_paired *pairs, bool json, ew_error *error) {
    size_t n = pairs->both + pairs->first + pairs->second + pairs->neither;
    double difference, low, high, p = ew_mcnemar(pairs);
    ew_paired_difference(pairs, &difference, &low, &high);
    if (json) {
        json_t *object = json_object();
        ew_json_put_count(&object, "problems", n);
        ew_json_put_count(&object, "both_right", pairs->both);
        ew_json_put_count(&object, "first_right", pairs->first);
        ew_json_put_count(&object, "second_right", pairs->second);
        ew_json_put_count(&object, "none_right", pairs->neither);
        ew_json_put(&object, "difference", json_real(difference));
        ew_json_put(&object, "difference_low", json_real(low));
        ew_json_put(&object, "difference_high", json_real(high));
        ew_json_put(&object, "mcnemar_p", json_real(p));
        return ew_json_print(object, error);
    }
    printf("%zu problems are in both (of %zu and %zu)\n", n, sides[0].n, sides[1].n);
    print_side(sides[0].path, pairs->both + pairs->first, n);
    print_side(sides[1].path, pairs->both + pairs->second, n);
    printf("difference %+.1f points (95 %%: %+.1f to %+.1f); the first alone is right %zu times, the second alone %zu "
           "times, McNemar p = %.3g\n",
           100.0 * difference, 100.0 * low, 100.0 * high, pairs->first, pairs->second, p);
    return EW_OK;
}

ew_status ew_eval_compare(const char *const paths[2], bool json, ew_error *error) {
    outcomes sides[2] = {{.path = paths[0]}, {.path = paths[1]}};
    ew_paired pairs;
    ew_status status = read_outcomes(&sides[0], error);
    if (status == EW_OK) {
        status = read_outcomes(&sides[1], error);
    }
    if (status == EW_OK) {
        status = pair(sides, &pairs, error);
    }
    if (status == EW_OK) {
        status = show(sides, &pairs, json, error);
    }
    free_outcomes(&sides[0]);
    free_outcomes(&sides[1]);
    return status;
}

/* Networks, batches and goldens of the trainer's tests. */
#ifndef EW_TEST_TRAIN_SUPPORT_H
#define EW_TEST_TRAIN_SUPPORT_H

#include "golden.h"
#include "status.h"

#include "format/checkpoint_internal.h"
#include "train/optimizer.h"
#include "train/train.h"

#include <math.h>

enum { BATCH_MOST = 8 };

/* Sequences with their memory. */
typedef struct batch {
    ew_train_sequence items[BATCH_MOST];
    size_t n;
} batch;

static inline void batch_add(batch *b, int32_t *ids, float *weights, size_t n, size_t prompt_length) {
    assert_true(b->n < BATCH_MOST);
    b->items[b->n++] = (ew_train_sequence){ids, n, prompt_length, weights};
}

static inline void batch_free(batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        free((void *)b->items[i].ids);
        free((void *)b->items[i].weights);
    }
    b->n = 0;
}

/* {"ids": [...], "mask": [...]} */
static inline void batch_add_golden(batch *b, const json_t *item, size_t prompt_length) {
    size_t n;
    int32_t *ids = golden_ids(json_object_get(item, "ids"), &n);
    float *weights = calloc(n, sizeof *weights);
    assert_non_null(weights);
    for (size_t i = 0; i < n; i++) {
        weights[i] = (float)json_number_value(json_array_get(json_object_get(item, "mask"), i));
    }
    batch_add(b, ids, weights, n, prompt_length);
}

static inline batch batch_golden(const json_t *array) {
    batch b = {0};
    for (size_t i = 0; i < json_array_size(array); i++) {
        batch_add_golden(&b, json_array_get(array, i), 0);
    }
    return b;
}

static inline double json_double(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* The goldens' name of a parameter: Hugging Face's, PEFT's for factors. */
static inline void golden_name(const ew_config *config, const char *parameter, char *out, size_t size) {
    static const struct {
        const char *own, *other;
    } factors[] = {{".lora_a", ".lora_A.weight"}, {".lora_b", ".lora_B.weight"}};
    char base[80];
    const char *rest = "";
    snprintf(base, sizeof base, "%s", parameter);
    for (size_t i = 0; i < 2; i++) {
        char *at = strstr(base, factors[i].own);
        if (at) {
            strcpy(at, ".weight");
            rest = factors[i].other;
        }
    }
    ew_expected *expected;
    size_t count;
    bool found = false;
    EW_ASSERT_OK(ew_expect_tensors(config, &expected, &count, error));
    for (size_t i = 0; i < count && !found; i++) {
        if (strcmp(expected[i].name, base) == 0) {
            size_t length = strlen(expected[i].folder_name) - (*rest ? strlen(".weight") : 0);
            snprintf(out, size, "%.*s%s", (int)length, expected[i].folder_name, rest);
            found = true;
        }
    }
    free(expected);
    if (!found) {
        fail_msg("no tensor %s", parameter);
    }
}

/* |a - b| / |b| over n values. */
static inline double relative_l2(const real *a, const float *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

#endif

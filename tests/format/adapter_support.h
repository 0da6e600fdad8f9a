/* Adapters in tests: opening, comparing value by value, folders that go away again. */
#ifndef EW_TEST_ADAPTER_SUPPORT_H
#define EW_TEST_ADAPTER_SUPPORT_H

#include "status.h"

#include "format/adapter.h"

#include <unistd.h>

static inline bool golden_base(const char *model, ew_config *base) {
    char relative[128], path[512];
    snprintf(relative, sizeof relative, "goldens/models/%s", model);
    if (!ew_test_shared(relative, path, sizeof path)) {
        return false;
    }
    EW_ASSERT_OK(ew_config_from_folder(path, base, error));
    return true;
}

/* NULL, with one line, when it is not there. */
static inline ew_adapter_file *open_golden(const char *relative, const ew_config *base) {
    char path[512];
    ew_adapter_file *file = NULL;
    if (ew_test_shared(relative, path, sizeof path)) {
        EW_ASSERT_OK(ew_adapter_open(path, base, &file, error));
    }
    return file;
}

static inline void assert_equal_factors(const ew_lora_factor *a, const ew_lora_factor *b, const char *name) {
    float left[1024], right[1024];
    assert_int_equal(a->values.rows, b->values.rows);
    assert_int_equal(a->values.cols, b->values.cols);
    assert_true(a->values.cols <= 1024);
    for (size_t i = 0; i < a->values.rows; i++) {
        EW_ASSERT_OK(ew_lora_read_row(a, i, left, error));
        EW_ASSERT_OK(ew_lora_read_row(b, i, right, error));
        if (memcmp(left, right, a->values.cols * sizeof *left) != 0) {
            fail_msg("%s differs in row %zu", name, i);
        }
    }
}

/* The same matrices, values, scales and invocation tokens. */
static inline void assert_equal_adapters(const ew_lora *a, const ew_lora *b) {
    assert_int_equal(a->n_targets, b->n_targets);
    for (size_t i = 0; i < a->n_targets; i++) {
        const ew_lora_target *left = &a->targets[i], *right = ew_lora_find(b, left->name);
        assert_ptr_equal(right, &b->targets[i]);
        assert_int_equal(left->rank, right->rank);
        assert_true(ew_lora_scale(a, left) == ew_lora_scale(b, right));
        assert_equal_factors(&left->a, &right->a, left->name);
        assert_equal_factors(&left->b, &right->b, left->name);
    }
    assert_int_equal(a->n_invocation_tokens, b->n_invocation_tokens);
    if (a->n_invocation_tokens > 0) {
        assert_memory_equal(a->invocation_tokens, b->invocation_tokens,
                            a->n_invocation_tokens * sizeof *a->invocation_tokens);
    }
}

static inline void make_test_folder(char folder[64]) {
    snprintf(folder, 64, "/tmp/ew-test-adapter-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static inline void remove_adapter_folder(const char *folder) {
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"};
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0); /* so no temporary file is left either */
}

#endif

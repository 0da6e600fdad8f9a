/* Every allocation of opening, fingerprinting and writing is made to fail once: the call must say so, leak
 * nothing and leave no file. */
#include "allocations.h"

#include "format/checkpoint.h"
#include "format/safetensors.h"

#include <unistd.h>

static ew_status open_and_close(const char *path, ew_error *error) {
    ew_checkpoint *cp;
    char hex[65];
    ew_status status = ew_checkpoint_open(path, &cp, error);
    if (status == EW_OK) {
        status = ew_checkpoint_source_fingerprint(cp, hex, error);
        ew_checkpoint_close(cp);
    }
    return status;
}

static const char output[] = "/tmp/ew-test-memory-output";

static ew_status write_gguf(const char *path, ew_error *error) {
    (void)path;
    ew_gguf_writer writer;
    ew_config config = {.n_layers = 1, .head_dim = 4, .n_eos = 2};
    ew_status status = ew_gguf_writer_open(output, &writer, error);
    if (status != EW_OK) {
        return status;
    }
    ew_config_write_gguf(&config, &writer);
    ew_gguf_write_tensor(&writer, "t", EW_DTYPE_I8, 1, (uint64_t[]){4});
    if ((status = ew_gguf_writer_begin(&writer, error)) != EW_OK ||
        (status = ew_gguf_writer_data(&writer, "abcd", 4, error)) != EW_OK) {
        ew_gguf_writer_abandon(&writer);
        return status;
    }
    return ew_gguf_writer_commit(&writer, error);
}

static ew_status write_safetensors(const char *path, ew_error *error) {
    (void)path;
    ew_safetensors_writer writer;
    ew_status status = ew_safetensors_writer_open(output, &writer, error);
    if (status != EW_OK) {
        return status;
    }
    ew_safetensors_write_metadata(&writer, "key", "value");
    ew_safetensors_write_tensor(&writer, "t", EW_DTYPE_U8, 1, (uint64_t[]){4});
    if ((status = ew_safetensors_writer_begin(&writer, error)) != EW_OK ||
        (status = ew_safetensors_writer_data(&writer, "abcd", 4, error)) != EW_OK) {
        ew_safetensors_writer_abandon(&writer);
        return status;
    }
    return ew_safetensors_writer_commit(&writer, error);
}

/* What to do, and with which file. */
typedef struct attempt {
    ew_status (*run)(const char *path, ew_error *error);
    const char *path;
} attempt;

static ew_status run_attempt(void *context, ew_error *error) {
    const attempt *a = context;
    unlink(output);
    ew_status status = a->run(a->path, error);
    assert_true(status == EW_OK || access(output, F_OK) != 0);
    unlink(output);
    return status;
}

static void fail_each_allocation(ew_status (*run)(const char *path, ew_error *error), const char *path) {
    attempt a = {run, path};
    assert_true(fail_every_allocation(run_attempt, &a, LONG_MAX, 1) > 3);
}

static void opening_survives(void **state) {
    char path[512];
    if (!ew_test_shared(*state, path, sizeof path)) {
        skip();
    }
    fail_each_allocation(open_and_close, path);
}

static void writing_survives(void **state) {
    (void)state;
    fail_each_allocation(write_gguf, NULL);
    fail_each_allocation(write_safetensors, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(opening_survives, "goldens/models/qwen2-outlier"),
        cmocka_unit_test_prestate(opening_survives, "goldens/models/llama-tiny"),
        cmocka_unit_test_prestate(opening_survives, "goldens/models/llama-tiny.gguf"),
        cmocka_unit_test(writing_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

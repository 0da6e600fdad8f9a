/* Every allocation of opening, fingerprinting and writing is made to fail once: the call must say so, leak
 * nothing and leave no file. The linker sends the rooms' calls here (extra.cmake), Jansson's are set by its
 * own hook. */
#include "support.h"

#include "format/checkpoint.h"
#include "format/safetensors.h"

#include <jansson.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static long allocations_left = -1; /* -1: no limit */

static bool fails(void) {
    if (allocations_left < 0) {
        return false;
    }
    return allocations_left == 0 || --allocations_left < 0;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

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

typedef ew_status attempt(const char *path, ew_error *error);

static void fail_each_allocation(attempt *attempt, const char *path) {
    for (long count = 0;; count++) {
        ew_error error = {0};
        unlink(output);
        allocations_left = count;
        ew_status status = attempt(path, &error);
        allocations_left = -1;
        if (status == EW_OK) {
            assert_true(count > 3);
            break;
        }
        /* Jansson calls a string that it has no memory for a syntax error. */
        if (status != EW_ERROR_MEMORY && !strstr(error.message, "not valid JSON")) {
            fail_msg("allocation %ld: status %d, \"%s\"", count, status, error.message);
        }
        assert_int_not_equal(access(output, F_OK), 0);
    }
    unlink(output);
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
    json_set_alloc_funcs(__wrap_malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(opening_survives, "goldens/models/qwen2-outlier"),
        cmocka_unit_test_prestate(opening_survives, "goldens/models/llama-tiny"),
        cmocka_unit_test_prestate(opening_survives, "goldens/models/llama-tiny.gguf"),
        cmocka_unit_test(writing_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

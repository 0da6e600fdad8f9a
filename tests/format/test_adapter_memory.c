/* Every allocation of opening and writing adapters is made to fail once: the call must say so, leak nothing and leave
 * no file. */
#include "allocations.h"

#include "adapter_support.h"

static char folder[64], output[128];

typedef struct attempt {
    const char *path;
    const ew_config *base;
    const ew_lora *adapter; /* to be written; NULL: only opened */
    bool peft;
} attempt;

static ew_status open_and_close(void *context, ew_error *error) {
    const attempt *a = context;
    ew_adapter_file *file;
    ew_status status = ew_adapter_open(a->path, a->base, &file, error);
    ew_adapter_close(file);
    return status;
}

static void clear_output(const attempt *a) {
    if (access(output, F_OK) != 0) {
        return;
    }
    if (a->peft) {
        remove_adapter_folder(output);
    } else {
        unlink(output);
    }
}

static ew_status write_adapter(void *context, ew_error *error) {
    const attempt *a = context;
    clear_output(a);
    ew_status status = a->peft ? ew_adapter_write_peft(a->adapter, a->base, EW_ADAPTER_KEEP, output, error)
                               : ew_adapter_write_gguf(a->adapter, a->base, EW_ADAPTER_KEEP, output, error);
    assert_true(status == EW_OK || access(output, F_OK) != 0);
    clear_output(a);
    return status;
}

static void every_allocation(void **state) {
    const char *relative = *state;
    char path[512], model[16];
    ew_config base;
    snprintf(model, sizeof model, "%.10s", strrchr(relative, '/') + 1);
    if (!golden_base(model, &base) || !ew_test_shared(relative, path, sizeof path)) {
        skip();
    }
    attempt a = {.path = path, .base = &base};
    assert_true(fail_every_allocation(open_and_close, &a, LONG_MAX, 1) > 5);
    ew_adapter_file *file = open_golden(relative, &base);
    a.adapter = ew_adapter_file_content(file);
    make_test_folder(folder);
    snprintf(output, sizeof output, "%s/output", folder);
    assert_true(fail_every_allocation(write_adapter, &a, LONG_MAX, 1) > 5);
    a.peft = true;
    assert_true(fail_every_allocation(write_adapter, &a, LONG_MAX, 1) > 5);
    assert_int_equal(rmdir(folder), 0);
    ew_adapter_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_allocation, "goldens/lora/adapters/llama-tiny.pattern"),
        cmocka_unit_test_prestate(every_allocation, "goldens/alora/adapters/qwen2-tiny.masked.gguf"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

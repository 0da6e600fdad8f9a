/* One adapter has one fingerprint in both forms; another adapter has another. */
#include "adapter_support.h"

static void fingerprint(const char *relative, const ew_config *base, char hex[65]) {
    ew_adapter_file *file = open_golden(relative, base);
    if (!file) {
        skip();
    }
    EW_ASSERT_OK(ew_lora_fingerprint(ew_adapter_file_content(file), hex, error));
    ew_adapter_close(file);
}

static void test_fingerprints(void **state) {
    (void)state;
    ew_config base;
    char folder[65], gguf[65], others[3][65];
    if (!golden_base("qwen2-tiny", &base)) {
        skip();
    }
    fingerprint("goldens/lora/adapters/qwen2-tiny.plain", &base, folder);
    fingerprint("goldens/lora/adapters/qwen2-tiny.plain.gguf", &base, gguf);
    assert_string_equal(folder, gguf);
    assert_int_equal(strspn(folder, "0123456789abcdef"), 64);
    fingerprint("goldens/lora/adapters/qwen2-tiny.pattern", &base, others[0]);
    fingerprint("goldens/lora/adapters/qwen2-tiny.rslora", &base, others[1]);
    fingerprint("goldens/alora/adapters/qwen2-tiny.masked", &base, others[2]);
    for (size_t i = 0; i < 3; i++) {
        assert_string_not_equal(others[i], folder);
        assert_string_not_equal(others[i], others[(i + 1) % 3]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fingerprints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <unistd.h>

static void error_message_is_cut_at_a_character(void **state) {
    (void)state;
    char longest[1024];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest + 510, "\xe2\x82\xac", 3); /* a euro sign across the end of the buffer */
    ew_error error;
    assert_int_equal(ew_fail(&error, EW_ERROR_FORMAT, "%s", longest), EW_ERROR_FORMAT);
    assert_int_equal(strlen(error.message), 510);
    assert_int_equal(ew_fail(NULL, EW_ERROR_IO, "x"), EW_ERROR_IO);
    ew_fail(&error, EW_ERROR_FORMAT, "a\nb\x1b[0m");
    assert_string_equal(error.message, "a?b?[0m");
}

static void growth_refuses_what_overflows(void **state) {
    (void)state;
    void *array = NULL;
    size_t capacity = 0;
    assert_true(ew_grow(&array, &capacity, 100, 8));
    assert_true(capacity >= 100);
    assert_false(ew_grow(&array, &capacity, SIZE_MAX / 4, 8));
    assert_true(capacity >= 100);
    assert_null(ew_allocate(SIZE_MAX / 2, 4));
    assert_null(ew_allocate_aligned(SIZE_MAX, 1));
    free(array);
}

static void outputs_appear_only_when_committed(void **state) {
    (void)state;
    char path[] = "/tmp/ew-test-output-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    ew_error error;
    ew_output output;
    assert_int_equal(ew_output_open(path, &output, &error), EW_OK);
    assert_int_equal(ew_output_write(&output, "hello", 5, &error), EW_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    ew_output_abandon(&output);
    assert_int_not_equal(access(path, F_OK), 0);

    assert_int_equal(ew_output_open(path, &output, &error), EW_OK);
    assert_int_equal(ew_output_write(&output, "hello", 5, &error), EW_OK);
    assert_int_equal(ew_output_commit(&output, &error), EW_OK);
    ew_mapping mapping;
    assert_int_equal(ew_map_file(path, &mapping, &error), EW_OK);
    assert_int_equal(mapping.size, 5);
    assert_memory_equal(mapping.data, "hello", 5);
    ew_unmap(&mapping);
    char *text;
    size_t length;
    assert_int_equal(ew_read_file(path, 4, &text, &length, &error), EW_ERROR_FORMAT);
    assert_int_equal(ew_read_file(path, 5, &text, &length, &error), EW_OK);
    assert_string_equal(text, "hello");
    free(text);
    char link[64];
    snprintf(link, sizeof link, "%s-link", path);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(ew_output_open(link, &output, &error), EW_OK);
    assert_int_equal(ew_output_write(&output, "through", 7, &error), EW_OK);
    assert_int_equal(ew_output_commit(&output, &error), EW_OK);
    assert_int_equal(ew_read_file(path, 7, &text, &length, &error), EW_OK);
    assert_string_equal(text, "through");
    free(text);
    unlink(link);
    unlink(path);
    assert_int_equal(ew_output_open("/dev/null", &output, &error), EW_ERROR_IO);
    assert_non_null(strstr(error.message, "special file"));
    assert_int_equal(ew_output_open("/tmp", &output, &error), EW_ERROR_IO);
    ew_output_abandon(&output);
    assert_int_equal(ew_map_file("/tmp", &mapping, &error), EW_ERROR_IO);
    assert_non_null(strstr(error.message, "folder"));
}

static void buffers_grow(void **state) {
    (void)state;
    ew_buffer buffer = {0};
    for (int i = 0; i < 1000; i++) {
        ew_buffer_append_format(&buffer, "%d,", i);
    }
    assert_false(buffer.failed);
    assert_int_equal(buffer.length, 3890);
    assert_memory_equal(buffer.data, "0,1,2,", 6);
    ew_buffer_free(&buffer);
}

static void last_names(void **state) {
    (void)state;
    static const struct {
        const char *path, *name;
    } cases[] = {{"a/b/model", "model"}, {"a/model//", "model"}, {"model", "model"}, {"/", ""}, {"", ""}, {"/m", "m"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        const char *name = ew_last_name(cases[i].path, &length);
        assert_int_equal(length, strlen(cases[i].name));
        assert_memory_equal(name, cases[i].name, length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_message_is_cut_at_a_character),
        cmocka_unit_test(growth_refuses_what_overflows),
        cmocka_unit_test(outputs_appear_only_when_committed),
        cmocka_unit_test(buffers_grow),
        cmocka_unit_test(last_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support.h"

#include "base/buffer.h"
#include "format/safetensors.h"

#include <unistd.h>

static void what_is_written_is_read(void **state) {
    (void)state;
    char path[] = "/tmp/ew-test-safetensors-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    ew_error error = {0};
    ew_safetensors_writer writer;
    const float logits[6] = {1, 2, 3, 4, 5, 6}, hidden[4] = {-1, -2, -3, -4};
    assert_int_equal(ew_safetensors_writer_open(path, &writer, &error), EW_OK);
    ew_safetensors_write_metadata(&writer, "ids", "1,\"2\"");
    ew_safetensors_write_metadata(&writer, "model", "tiny \xc3\xa9");
    ew_safetensors_write_tensor(&writer, "logits", EW_DTYPE_F32, 2, (uint64_t[]){2, 3});
    ew_safetensors_write_tensor(&writer, "hidden", EW_DTYPE_F32, 2, (uint64_t[]){2, 2});
    assert_int_equal(ew_safetensors_writer_begin(&writer, &error), EW_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ew_safetensors_writer_data(&writer, logits + 3 * i, 12, &error), EW_OK);
    }
    assert_int_equal(ew_safetensors_writer_data(&writer, hidden, 17, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_safetensors_writer_data(&writer, hidden, 16, &error), EW_OK);
    assert_int_equal(ew_safetensors_writer_commit(&writer, &error), EW_OK);

    ew_safetensors *file;
    if (ew_safetensors_open(path, &file, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(ew_safetensors_count(file), 2);
    assert_string_equal(ew_safetensors_at(file, 0)->name, "hidden");
    const ew_safetensors_tensor *tensor = ew_safetensors_find(file, "logits");
    assert_int_equal(tensor->n_dims, 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_memory_equal(tensor->data, logits, sizeof logits);
    assert_memory_equal(ew_safetensors_find(file, "hidden")->data, hidden, sizeof hidden);
    assert_null(ew_safetensors_find(file, "__metadata__"));
    assert_string_equal(ew_safetensors_metadata(file, "ids"), "1,\"2\"");
    assert_string_equal(ew_safetensors_metadata(file, "model"), "tiny \xc3\xa9");
    assert_null(ew_safetensors_metadata(file, "none"));
    ew_safetensors_close(file);
    unlink(path);
}

static void the_writer_refuses_nonsense(void **state) {
    (void)state;
    ew_error error;
    ew_safetensors_writer writer;
    const char *path = "/tmp/ew-test-safetensors-refused";
    assert_int_equal(ew_safetensors_writer_open(path, &writer, &error), EW_OK);
    ew_safetensors_write_metadata(&writer, "key", "\xff");
    assert_int_equal(ew_safetensors_writer_begin(&writer, &error), EW_ERROR_ARGUMENT);
    ew_safetensors_writer_abandon(&writer);
    assert_int_equal(ew_safetensors_writer_open(path, &writer, &error), EW_OK);
    ew_safetensors_write_tensor(&writer, "t", EW_DTYPE_Q4_0, 1, (uint64_t[]){32});
    assert_int_equal(ew_safetensors_writer_begin(&writer, &error), EW_ERROR_ARGUMENT);
    ew_safetensors_writer_abandon(&writer);
    assert_int_equal(ew_safetensors_writer_open(path, &writer, &error), EW_OK);
    ew_safetensors_write_tensor(&writer, "t", EW_DTYPE_F32, 1, (uint64_t[]){32});
    assert_int_equal(ew_safetensors_writer_begin(&writer, &error), EW_OK);
    assert_int_equal(ew_safetensors_writer_commit(&writer, &error), EW_ERROR_ARGUMENT);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void build(ew_buffer *b, const char *header, size_t data) {
    uint64_t length = strlen(header);
    ew_buffer_append(b, &length, sizeof length);
    ew_buffer_append_text(b, header);
    for (size_t i = 0; i < data; i++) {
        ew_buffer_append(b, "\1", 1);
    }
}

#define TENSOR(name, type, shape, begin, end)                                                                \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"

static void lies_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *sentence, *header;
        size_t data;
    } files[] = {
        {"not valid JSON", "", 0},
        {"not valid JSON", "{", 0},
        {"no object", "[]", 0},
        {"no \"dtype\"", "{\"t\":{}}", 0},
        {"no \"dtype\"", "{\"t\":3}", 0},
        {"type F8_E4M3", "{" TENSOR("t", "F8_E4M3", "2", "0", "2") "}", 2},
        {"no shape", "{\"t\":{\"dtype\":\"F32\"}}", 0},
        {"at most 8 dimensions", "{" TENSOR("t", "F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4},
        {"cannot be", "{" TENSOR("t", "F32", "-1", "0", "4") "}", 4},
        {"cannot be", "{" TENSOR("t", "F32", "1.5", "0", "4") "}", 4},
        {"cannot be", "{" TENSOR("t", "F32", "4294967296,4294967296", "0", "4") "}", 4},
        {"do not fit", "{" TENSOR("t", "F32", "4611686018427387905", "0", "4") "}", 4},
        {"do not fit", "{" TENSOR("t", "F32", "2", "0", "4") "}", 4},
        {"data_offsets", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4},
        {"data_offsets", "{" TENSOR("t", "F32", "1", "4", "0") "}", 4},
        {"data_offsets", "{" TENSOR("t", "F32", "1", "-4", "0") "}", 4},
        {"ends at byte 8", "{" TENSOR("t", "F32", "2", "0", "8") "}", 4},
        {"overlaps", "{" TENSOR("t", "U8", "4", "0", "4") "," TENSOR("u", "U8", "4", "2", "6") "}", 6},
        {"overlaps", "{" TENSOR("t", "U8", "4", "0", "4") "," TENSOR("u", "U8", "4", "0", "4") "}", 4},
        {"gap", "{" TENSOR("t", "U8", "2", "0", "2") "," TENSOR("u", "U8", "2", "4", "6") "}", 6},
        {"gap", "{" TENSOR("t", "U8", "2", "1", "3") "}", 3},
        {"3 bytes follow", "{" TENSOR("t", "U8", "2", "0", "2") "}", 5},
        {"duplicate", "{" TENSOR("t", "U8", "2", "0", "2") "," TENSOR("t", "U8", "2", "2", "4") "}", 4},
        {"no string", "{\"__metadata__\":{\"format\":1}}", 0},
        {"no object", "{\"__metadata__\":1}", 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ew_buffer b = {0};
        ew_error error = {0};
        ew_safetensors *file;
        build(&b, files[i].header, files[i].data);
        ew_status status = ew_safetensors_open_memory((const uint8_t *)b.data, b.length, "x", &file, &error);
        if (status == EW_OK || !strstr(error.message, files[i].sentence)) {
            fail_msg("case %zu: expected \"%s\", got \"%s\"", i, files[i].sentence, error.message);
        }
        ew_buffer_free(&b);
    }
}

static void lengths_are_checked(void **state) {
    (void)state;
    ew_buffer b = {0};
    ew_safetensors *file;
    ew_error error = {0};
    build(&b,
          "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("t", "BF16", "2,1", "0",
                                                          "4") "," TENSOR("e", "I64", "0", "4", "4") "}   ",
          4);
    for (size_t length = 0; length <= b.length; length++) {
        uint8_t *copy = malloc(length > 0 ? length : 1);
        memcpy(copy, b.data, length);
        ew_status status = ew_safetensors_open_memory(copy, length, "x", &file, &error);
        assert_true((status == EW_OK) == (length == b.length));
        ew_safetensors_close(file);
        free(copy);
    }
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, 1 << 20, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(b.data, &lengths[i], sizeof lengths[i]);
        assert_int_not_equal(
            ew_safetensors_open_memory((const uint8_t *)b.data, b.length, "x", &file, &error), EW_OK);
    }
    ew_buffer_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_writer_refuses_nonsense),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(lengths_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

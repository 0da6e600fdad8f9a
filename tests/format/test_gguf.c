#include "support.h"

#include "format/gguf_write.h"
#include "gguf_builder.h"

#include <unistd.h>

static void temporary_path(char path[64]) {
    snprintf(path, 64, "/tmp/ew-test-gguf-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void write_sample(const char *path) {
    ew_gguf_writer writer;
    ew_error error = {0};
    static const float values[4] = {1, 2, 3, 4};
    static const uint8_t bytes[100] = {9, 8, 7};
    const ew_string strings[3] = {{"one", 3}, {"", 0}, {"a\0b", 3}};
    const int32_t integers[2] = {-5, 7};
    assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
    ew_gguf_write_u32(&writer, "a.u32", 4000000000u);
    ew_gguf_write_i32(&writer, "a.i32", -3);
    ew_gguf_write_u64(&writer, "a.u64", UINT64_MAX);
    ew_gguf_write_f32(&writer, "a.f32", 0.5f);
    ew_gguf_write_f64(&writer, "a.f64", 0.1);
    ew_gguf_write_bool(&writer, "a.bool", true);
    ew_gguf_write_text(&writer, "a.text", "hello");
    ew_gguf_write_text(&writer, "a.hash", "0000");
    ew_gguf_write_strings(&writer, "a.strings", strings, 3);
    ew_gguf_write_array(&writer, "a.integers", EW_GGUF_INT32, integers, 2);
    ew_gguf_write_tensor(&writer, "first", EW_DTYPE_F32, 2, (uint64_t[]){2, 2});
    ew_gguf_write_tensor(&writer, "second", EW_DTYPE_I8, 1, (uint64_t[]){100});
    assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_OK);
    assert_int_equal(ew_gguf_writer_data(&writer, values, 8, &error), EW_OK);
    assert_int_equal(ew_gguf_writer_data(&writer, values + 2, 8, &error), EW_OK);
    assert_int_equal(ew_gguf_writer_data(&writer, bytes, 101, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_gguf_writer_patch(&writer, "a.hash", "beef", &error), EW_OK);
    assert_int_equal(ew_gguf_writer_patch(&writer, "a.hash", "beef!", &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_gguf_writer_patch(&writer, "a.u32", "beef", &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_gguf_writer_data(&writer, bytes, 100, &error), EW_OK);
    assert_int_equal(ew_gguf_writer_commit(&writer, &error), EW_OK);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    char path[64];
    ew_gguf *g;
    ew_error error = {0};
    temporary_path(path);
    write_sample(path);
    if (ew_gguf_open(path, &g, &error) != EW_OK) {
        fail_msg("%s", error.message);
    }
    uint32_t u32;
    uint64_t u64;
    double f64;
    bool flag, found;
    ew_string text;
    assert_int_equal(ew_gguf_version(g), 3);
    assert_int_equal(ew_gguf_get_u32(g, "a.u32", NULL, &u32, &error), EW_OK);
    assert_true(u32 == 4000000000u);
    assert_int_equal(ew_gguf_get_u32(g, "a.i32", NULL, &u32, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "a.i32"));
    assert_int_equal(ew_gguf_get_u64(g, "a.u64", NULL, &u64, &error), EW_OK);
    assert_true(u64 == UINT64_MAX);
    assert_int_equal(ew_gguf_get_u32(g, "a.u64", NULL, &u32, &error), EW_ERROR_FORMAT);
    assert_int_equal(ew_gguf_get_f64(g, "a.f32", NULL, &f64, &error), EW_OK);
    assert_true(f64 == 0.5);
    assert_int_equal(ew_gguf_get_f64(g, "a.f64", NULL, &f64, &error), EW_OK);
    assert_true(f64 == 0.1);
    assert_int_equal(ew_gguf_get_bool(g, "a.bool", NULL, &flag, &error), EW_OK);
    assert_true(flag);
    assert_int_equal(ew_gguf_get_string(g, "a.text", NULL, &text, &error), EW_OK);
    assert_true(ew_string_is(text, "hello"));
    assert_int_equal(ew_gguf_get_string(g, "a.hash", NULL, &text, &error), EW_OK);
    assert_true(ew_string_is(text, "beef"));
    assert_int_equal(ew_gguf_get_string(g, "nothing", &found, &text, &error), EW_OK);
    assert_true(!found && ew_string_is(text, "beef"));
    assert_int_equal(ew_gguf_get_string(g, "nothing", NULL, &text, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "missing"));

    const ew_gguf_value *array;
    assert_int_equal(ew_gguf_get_array(g, "a.strings", EW_GGUF_STRING, NULL, &array, &error), EW_OK);
    ew_gguf_strings strings = ew_gguf_strings_begin(array);
    assert_true(ew_gguf_strings_next(&strings, &text) && ew_string_is(text, "one"));
    assert_true(ew_gguf_strings_next(&strings, &text) && ew_string_is(text, ""));
    assert_true(ew_gguf_strings_next(&strings, &text) && text.length == 3);
    assert_false(ew_gguf_strings_next(&strings, &text));
    assert_int_equal(ew_gguf_get_array(g, "a.strings", EW_GGUF_INT64, NULL, &array, &error), EW_ERROR_FORMAT);
    assert_int_equal(ew_gguf_get_array(g, "a.integers", EW_GGUF_INT64, NULL, &array, &error), EW_OK);
    assert_int_equal(ew_gguf_integer_at(array, 0), -5);
    assert_int_equal(ew_gguf_integer_at(array, 1), 7);

    const ew_gguf_tensor *first = ew_gguf_find_tensor(g, "first"), *second = ew_gguf_find_tensor(g, "second");
    assert_memory_equal(first->data, ((float[]){1, 2, 3, 4}), 16);
    assert_int_equal(((uintptr_t)first->data) % 64, 0);
    assert_int_equal(((uintptr_t)second->data) % 64, 0);
    assert_int_equal(second->bytes, 100);
    assert_int_equal(second->data[2], 7);
    assert_null(ew_gguf_find_tensor(g, "third"));
    ew_gguf_close(g);
    unlink(path);
}

static void the_writer_refuses_nonsense(void **state) {
    (void)state;
    char path[64];
    ew_gguf_writer writer;
    ew_error error;
    temporary_path(path);
    unlink(path);
    assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
    ew_gguf_write_u32(&writer, "twice", 1);
    ew_gguf_write_u32(&writer, "twice", 1);
    assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "twice"));
    ew_gguf_writer_abandon(&writer);
    assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
    ew_gguf_write_tensor(&writer, "t", EW_DTYPE_Q4_0, 1, (uint64_t[]){33});
    assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_ERROR_ARGUMENT);
    ew_gguf_writer_abandon(&writer);
    assert_int_equal(ew_gguf_writer_open(path, &writer, &error), EW_OK);
    ew_gguf_write_tensor(&writer, "t", EW_DTYPE_F32, 1, (uint64_t[]){2});
    assert_int_equal(ew_gguf_writer_begin(&writer, &error), EW_OK);
    assert_int_equal(ew_gguf_writer_commit(&writer, &error), EW_ERROR_ARGUMENT);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Each case builds one file; its sentence must hold the text. */
typedef struct bad_file {
    const char *sentence;
    void (*build)(ew_buffer *b);
} bad_file;

static void nothing(ew_buffer *b) {
    (void)b;
}
static void other_magic(ew_buffer *b) {
    ew_buffer_append_text(b, "GGML and more bytes than a header");
}
static void version_1(ew_buffer *b) {
    put_header(b, 1, 0, 0);
}
static void big_endian(ew_buffer *b) {
    put_header(b, 0x03000000, 0, 0);
}
static void many_tensors(ew_buffer *b) {
    put_header(b, 3, 1000000, 0);
}
static void wrapping_tensors(ew_buffer *b) {
    put_header(b, 3, UINT64_MAX / 8, 0);
    put_data(b, 1000);
}
static void many_values(ew_buffer *b) {
    put_header(b, 3, 0, UINT64_MAX);
}
static void long_key(ew_buffer *b) {
    put_header(b, 3, 0, 1);
    put_u64(b, UINT64_MAX);
    put_data(b, 100);
}
static void empty_key(ew_buffer *b) {
    put_header(b, 3, 0, 1);
    put_key_u32(b, "", 1);
}
static void same_key(ew_buffer *b) {
    put_header(b, 3, 0, 2);
    put_key_u32(b, "key", 1);
    put_key_u32(b, "key", 1);
}
static void unknown_type(ew_buffer *b) {
    put_header(b, 3, 0, 1);
    put_text(b, "key");
    put_u32(b, 13);
    put_u64(b, 0);
}
static void array(ew_buffer *b, uint32_t type, uint64_t count) {
    put_header(b, 3, 0, 1);
    put_text(b, "key");
    put_u32(b, EW_GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, count);
    put_u64(b, 1000);
    put_data(b, 64);
}
static void nested_array(ew_buffer *b) {
    array(b, EW_GGUF_ARRAY, 1);
}
static void long_array(ew_buffer *b) {
    array(b, EW_GGUF_UINT64, UINT64_MAX / 8 + 2);
}
static void many_strings(ew_buffer *b) {
    array(b, EW_GGUF_STRING, UINT64_MAX / 8 + 2);
}
static void string_past_end(ew_buffer *b) {
    array(b, EW_GGUF_STRING, 1);
}
static void bad_alignment(ew_buffer *b) {
    put_header(b, 3, 0, 1);
    put_key_u32(b, "general.alignment", 48);
}
static void no_alignment(ew_buffer *b) {
    put_header(b, 3, 0, 1);
    put_key_u32(b, "general.alignment", 0);
}
static void one_tensor(ew_buffer *b, uint32_t type, uint64_t cols, uint64_t rows, uint64_t offset) {
    put_header(b, 3, 1, 0);
    put_tensor(b, "t", type, cols, rows, offset);
    put_data(b, 128);
}
static void zero_rows(ew_buffer *b) {
    one_tensor(b, 0, 4, 0, 0);
}
static void wrapping_shape(ew_buffer *b) {
    one_tensor(b, 0, UINT64_C(1) << 33, UINT64_C(1) << 33, 0);
}
static void wrapping_bytes(ew_buffer *b) {
    one_tensor(b, 0, UINT64_C(1) << 31, UINT64_C(1) << 32, 0);
}
static void ragged_blocks(ew_buffer *b) {
    one_tensor(b, 2, 48, 2, 0);
}
static void unread_type(ew_buffer *b) {
    one_tensor(b, 20, 32, 1, 0);
}
static void removed_type(ew_buffer *b) {
    one_tensor(b, 4, 32, 1, 0);
}
static void crooked_offset(ew_buffer *b) {
    one_tensor(b, 0, 4, 4, 8);
}
static void offset_past_end(ew_buffer *b) {
    one_tensor(b, 0, 4, 4, 128);
}
static void wrapping_offset(ew_buffer *b) {
    one_tensor(b, 0, 4, 4, UINT64_MAX - 31);
}
static void too_large(ew_buffer *b) {
    one_tensor(b, 0, 4, 9, 0);
}
static void five_dimensions(ew_buffer *b) {
    put_header(b, 3, 1, 0);
    put_text(b, "t");
    put_u32(b, 5);
    put_data(b, 128);
}
static void two_tensors(ew_buffer *b, const char *first, const char *second, uint64_t offset) {
    put_header(b, 3, 2, 0);
    put_tensor(b, first, 0, 4, 4, offset);
    put_tensor(b, second, 0, 4, 4, 0);
    put_data(b, 128);
}
static void overlap(ew_buffer *b) {
    two_tensors(b, "first", "second", 32);
}
static void same_tensor(ew_buffer *b) {
    two_tensors(b, "first", "first", 64);
}
static void nameless_tensor(ew_buffer *b) {
    two_tensors(b, "", "first", 64);
}

static void lies_are_refused(void **state) {
    (void)state;
    static const bad_file files[] = {
        {"does not begin with", nothing},
        {"does not begin with", other_magic},
        {"version 1", version_1},
        {"big-endian", big_endian},
        {"1000000 tensors", many_tensors},
        {"more than a file of", wrapping_tensors},
        {"metadata entries", many_values},
        {"ends inside a metadata key", long_key},
        {"has 0 bytes", empty_key},
        {"key occurs twice", same_key},
        {"unknown type", unknown_type},
        {"array of arrays", nested_array},
        {"ends inside", long_array},
        {"ends inside", many_strings},
        {"ends inside", string_past_end},
        {"alignment is 48", bad_alignment},
        {"alignment is 0", no_alignment},
        {"dimension 1 of tensor t is 0", zero_rows},
        {"dimension 1 of tensor t", wrapping_shape},
        {"fits into memory", wrapping_bytes},
        {"a multiple of 32", ragged_blocks},
        {"type IQ4_NL", unread_type},
        {"unknown (number 4)", removed_type},
        {"no multiple of 32", crooked_offset},
        {"does not lie inside", offset_past_end},
        {"does not lie inside", wrapping_offset},
        {"does not lie inside", too_large},
        {"5 dimensions", five_dimensions},
        {"overlap", overlap},
        {"tensor first occurs twice", same_tensor},
        {"name has 0 bytes", nameless_tensor},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        ew_buffer b = {0};
        ew_error error = {0};
        ew_gguf *gguf = NULL;
        files[i].build(&b);
        ew_status status = ew_gguf_open_memory((const uint8_t *)b.data, b.length, "file.gguf", &gguf, &error);
        if (status == EW_OK || !strstr(error.message, files[i].sentence)) {
            fail_msg("case %zu: expected \"%s\", got \"%s\"", i, files[i].sentence, error.message);
        }
        assert_null(gguf);
        ew_buffer_free(&b);
    }
}

static void build_small(ew_buffer *b, uint32_t version) {
    put_header(b, version, 2, 3);
    put_key_text(b, "general.architecture", "llama");
    put_key_u32(b, "llama.block_count", 1);
    put_text(b, "tokenizer.ggml.tokens");
    put_u32(b, EW_GGUF_ARRAY);
    put_u32(b, EW_GGUF_STRING);
    put_u64(b, 2);
    put_text(b, "a");
    put_text(b, "b");
    put_tensor(b, "one", 0, 4, 4, 0);
    put_tensor(b, "two", 2, 32, 1, 64);
    put_data(b, 64 + 18);
}

/* Cut anywhere, the file is refused; whole, both versions open. The copy has no byte to spare, for
 * AddressSanitizer. */
static void every_truncation_is_refused(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        ew_buffer b = {0};
        build_small(&b, version);
        for (size_t length = 0; length <= b.length; length++) {
            ew_error error = {0};
            ew_gguf *gguf;
            uint8_t *copy = malloc(length > 0 ? length : 1);
            memcpy(copy, b.data, length);
            ew_status status = ew_gguf_open_memory(copy, length, "file.gguf", &gguf, &error);
            assert_true((status == EW_OK) == (length == b.length));
            assert_true(status == EW_OK || error.message[0] != '\0');
            ew_gguf_close(gguf);
            free(copy);
        }
        ew_buffer_free(&b);
    }
}

/* Any single byte changed: opened or refused, but never read past the end (AddressSanitizer watches). */
static void every_changed_byte_is_survived(void **state) {
    (void)state;
    static const uint8_t changes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    ew_buffer b = {0};
    build_small(&b, 3);
    uint8_t *copy = malloc(b.length);
    size_t refused = 0;
    for (size_t i = 0; i < b.length; i++) {
        for (size_t j = 0; j < sizeof changes; j++) {
            ew_gguf *gguf;
            memcpy(copy, b.data, b.length);
            copy[i] = changes[j];
            refused += ew_gguf_open_memory(copy, b.length, "file.gguf", &gguf, NULL) != EW_OK;
            ew_gguf_close(gguf);
        }
    }
    assert_true(refused > 100);
    free(copy);
    ew_buffer_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_writer_refuses_nonsense),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_changed_byte_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Reading Edgewise files that are damaged or lie. */
#include "support.h"

#include "quant/edgewise_file.h"
#include "quant/inspect.h"
#include "quant/quantize.h"
#include "tiny_model.h"

#include <math.h>
#include <sys/mman.h>

/* The bytes of a good file. */
typedef struct good_file {
    tiny_folder folder;
    char *bytes;
    size_t size;
} good_file;

static good_file make_good_file(const tiny_model *model) {
    good_file good = {.folder = make_folder()};
    const ew_quantize_options options = ew_quantize_default_options();
    write_tiny_model(good.folder.input, model);
    EW_ASSERT_OK(ew_quantize(good.folder.input, good.folder.output, &options, NULL, error));
    EW_ASSERT_OK(ew_read_file(good.folder.output, 1 << 20, &good.bytes, &good.size, error));
    return good;
}

static void free_good_file(good_file *good) {
    free(good->bytes);
    remove_folder(&good->folder);
}

static const tiny_model q4_1 = {EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, NULL, NULL};

/* Opens, reads and (if asked) checks these bytes, as a file in memory; the first error. */
static ew_status read_bytes(const char *bytes, size_t size, bool check, ew_error *error) {
    ew_checkpoint *checkpoint = NULL;
    ew_edgewise_file file = {0};
    char path[64];
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *error = (ew_error){0};
    ew_status status = ew_checkpoint_open(path, &checkpoint, error);
    if (status == EW_OK) {
        status = ew_edgewise_file_read(checkpoint, &file, error);
    }
    if (status == EW_OK && check) {
        status = ew_edgewise_file_check(&file, error);
    }
    ew_edgewise_file_free(&file);
    ew_checkpoint_close(checkpoint);
    close(fd);
    return status;
}

static char *find_bytes(char *bytes, size_t size, const char *text, size_t nth) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(bytes + i, text, length) == 0 && nth-- == 0) {
            return bytes + i;
        }
    }
    fail_msg("no %s in the file", text);
    return NULL;
}

enum { SCALAR = 4, ARRAY = 16 }; /* bytes between a key and its (first) value: types, and a count */

static void good_files_are_read(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    ew_error error;
    assert_int_equal(read_bytes(good.bytes, good.size, true, &error), EW_OK);
    ew_checkpoint *checkpoint;
    ew_edgewise_file file;
    EW_ASSERT_OK(ew_checkpoint_open(good.folder.output, &checkpoint, error));
    EW_ASSERT_OK(ew_edgewise_file_read(checkpoint, &file, error));
    assert_int_equal(file.n_matrices, 1 + 7 * TINY_LAYERS);
    assert_null(ew_edgewise_file_matrix(&file, "output.weight"));
    assert_null(ew_edgewise_file_matrix(&file, "output_norm.weight"));
    assert_null(ew_edgewise_file_vector(&file, "token_embd.weight"));
    assert_non_null(ew_edgewise_file_vector(&file, "blk.1.ffn_norm.weight"));
    assert_int_equal((uintptr_t)ew_edgewise_file_matrix(&file, "blk.1.ffn_down.weight")->codes % 64, 0);
    assert_true(file.tokenizer_bytes > 0);
    ew_edgewise_file_free(&file);
    ew_checkpoint_close(checkpoint);
    EW_ASSERT_OK(ew_checkpoint_open(good.folder.input, &checkpoint, error));
    assert_int_equal(ew_edgewise_file_read(checkpoint, &file, &error), EW_ERROR_ARGUMENT);
    ew_checkpoint_close(checkpoint);
    free_good_file(&good);
}

static void lies_in_the_metadata_are_told(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    const struct {
        const char *key;
        size_t skip;
        uint32_t value;
        const char *word;
    } cases[] = {
        {"edgewise.version", SCALAR, 2, "version 2"},
        {"edgewise.activations", SCALAR, 2, "edgewise.activations is 2"},
        {"edgewise.kv.grain", SCALAR, 30, "edgewise.kv.grain is 30"},
        {"edgewise.kv.grain", SCALAR, 260, "edgewise.kv.grain is 260"},
        {"edgewise.fingerprint.weights", SCALAR + 8, 0x41414141, "edgewise.fingerprint.weights"},
        {"edgewise.matrix.format", ARRAY, 0, "token_embd.weight has format 0"},
        {"edgewise.matrix.format", ARRAY, 9, "token_embd.weight has format 9"},
        {"edgewise.matrix.format", ARRAY, EW_MATRIX_INT4_OFFSET, "token_embd.weight: "},
        {"edgewise.matrix.format", ARRAY + 4, EW_MATRIX_INT4_SYMMETRIC, "blk.0.attn_q.weight: "},
        {"edgewise.matrix.group", ARRAY, 64, "groups of 64"},
        {"edgewise.matrix.group", ARRAY + 4, 33, "groups of 33"},
        {"edgewise.matrix.group", ARRAY + 4, 0xffffffe0, "4294967264"},
        {"edgewise.matrix.rows", ARRAY, TINY_VOCAB - 1, "token_embd.weight is 271 x 64"},
        {"edgewise.matrix.cols", ARRAY + 8, 65, "blk.0.attn_k.weight is 32 x 65"},
        {"edgewise.matrix.cols", ARRAY, 0xffffffff, "token_embd.weight is 272 x 4294967295"},
        {"llama.block_count", SCALAR, 3, "blk.2"},
        {"llama.block_count", SCALAR, 1, "blk.1"},
        {"llama.feed_forward_length", SCALAR, 128, "ffn_gate.weight is 96 x 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *place =
            find_bytes(good.bytes, good.size, cases[i].key, 0) + strlen(cases[i].key) + cases[i].skip;
        char old[4];
        ew_error error;
        memcpy(old, place, 4);
        memcpy(place, &cases[i].value, 4);
        ew_status status = read_bytes(good.bytes, good.size, false, &error);
        memcpy(place, old, 4);
        if (status == EW_OK || !strstr(error.message, cases[i].word)) {
            fail_msg("%s = %u: status %d, \"%s\"; wanted \"%s\"", cases[i].key, cases[i].value, (int)status,
                     error.message, cases[i].word);
        }
    }
    free_good_file(&good);
}

static void wrong_names_are_told(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    const struct {
        const char *name; /* its nth occurrence (0: in the list of matrices, or of a vector the only one) is
                             renamed */
        size_t nth;
        const char *other, *word;
    } cases[] = {
        {"blk.1.ffn_up.weight", 0, "blk.1.ffn_uq.weight", "blk.1.ffn_uq.weight, which is no matrix"},
        {"blk.1.ffn_up.weight", 0, "blk.0.ffn_up.weight", "twice"},
        {"blk.1.ffn_up.weight", 0, "blk.1.ffn_u\0.weight", "which is no matrix"},
        {"blk.1.ffn_up.weight", 1, "blk.1.ffn_uq.weight", "lacks the tensor blk.1.ffn_up.weight"},
        {"blk.1.attn_norm.weight", 0, "blk.9.attn_norm.weight", "lacks the tensor blk.1.attn_norm.weight"},
        {"edgewise.tokenizer", 0, "edgewise.tokenizes", "edgewise.tokenize"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = strlen(cases[i].name);
        char *place = find_bytes(good.bytes, good.size, cases[i].name, cases[i].nth);
        ew_error error;
        memcpy(place, cases[i].other, length);
        ew_status status = read_bytes(good.bytes, good.size, false, &error);
        memcpy(place, cases[i].name, length);
        if (status == EW_OK || !strstr(error.message, cases[i].word)) {
            fail_msg("%s: status %d, \"%s\"; wanted \"%s\"", cases[i].name, (int)status, error.message,
                     cases[i].word);
        }
    }
    free_good_file(&good);
}

/* Where a tensor's data lies in the good file. */
static size_t data_at(const good_file *good, const char *name, size_t *bytes) {
    ew_gguf *gguf;
    EW_ASSERT_OK(ew_gguf_open_memory((const uint8_t *)good->bytes, good->size, "good", &gguf, error));
    const ew_gguf_tensor *tensor = ew_gguf_find_tensor(gguf, name);
    assert_non_null(tensor);
    size_t at = (size_t)(tensor->data - (const uint8_t *)good->bytes);
    *bytes = tensor->bytes;
    ew_gguf_close(gguf);
    return at;
}

static void values_are_checked_on_request(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    const uint16_t infinite = 0x7c00;
    const float nan = NAN;
    ew_error error;
    size_t bytes, at = data_at(&good, "blk.1.ffn_down.weight", &bytes);
    char old[4], *offset = good.bytes + at + bytes -
                           2 * 16 * 2; /* row 0 of the last tile's second group from the end */
    memcpy(old, offset, 2);
    memcpy(offset, &infinite, 2);
    assert_int_equal(read_bytes(good.bytes, good.size, false, &error), EW_OK);
    assert_int_equal(read_bytes(good.bytes, good.size, true, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "blk.1.ffn_down.weight, row 48, group 1"));
    memcpy(offset, old, 2);

    char *norm = good.bytes + data_at(&good, "output_norm.weight", &bytes) + 8;
    memcpy(old, norm, 4);
    memcpy(norm, &nan, 4);
    assert_int_equal(read_bytes(good.bytes, good.size, true, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "output_norm.weight holds NaN at row 0, column 2"));
    memcpy(norm, old, 4);

    static const char *const places[] = {"token_embd.weight", "blk.0.attn_q.weight", "edgewise.tokenizer"};
    for (size_t i = 0; i < 3; i++) {
        char *byte = good.bytes + data_at(&good, places[i], &bytes) + 5;
        *byte ^= 1;
        assert_int_equal(read_bytes(good.bytes, good.size, true, &error), EW_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "damaged"));
        *byte ^= 1;
    }
    assert_int_equal(read_bytes(good.bytes, good.size, true, &error), EW_OK);
    free_good_file(&good);
}

static void truncated_files_are_refused(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    for (size_t size = 0; size < good.size; size += size < 4096 ? 61 : 1999) {
        ew_error error;
        assert_int_not_equal(read_bytes(good.bytes, size, false, &error), EW_OK);
        assert_true(error.message[0] != '\0');
    }
    free_good_file(&good);
}

/* Any single byte of the header may be wrong: an error or a readable file, never a crash. */
static void every_header_byte_may_be_wrong(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    size_t bytes, header = data_at(&good, "token_embd.weight", &bytes);
    for (size_t i = 0; i < header; i += 2) {
        ew_error error;
        good.bytes[i] ^= (char)(1 << (i / 2 % 8));
        ew_status status = read_bytes(good.bytes, good.size, false, &error);
        assert_true(status == EW_OK || error.message[0] != '\0');
        good.bytes[i] ^= (char)(1 << (i / 2 % 8));
    }
    free_good_file(&good);
}

static void inspection_counts_what_is_there(void **state) {
    (void)state;
    good_file good = make_good_file(&q4_1);
    ew_checkpoint *checkpoint;
    ew_edgewise_file file;
    ew_inspection made, source;
    EW_ASSERT_OK(ew_checkpoint_open(good.folder.output, &checkpoint, error));
    EW_ASSERT_OK(ew_edgewise_file_read(checkpoint, &file, error));
    EW_ASSERT_OK(ew_inspect(checkpoint, &file, &made, error));
    EW_ASSERT_OK(ew_check_values(checkpoint, &file, NULL, NULL, error));
    ew_edgewise_file_free(&file);
    ew_checkpoint_close(checkpoint);
    EW_ASSERT_OK(ew_checkpoint_open(good.folder.input, &checkpoint, error));
    EW_ASSERT_OK(ew_inspect(checkpoint, NULL, &source, error));
    EW_ASSERT_OK(ew_check_values(checkpoint, NULL, NULL, NULL, error));
    ew_checkpoint_close(checkpoint);

    size_t layer = 2 * TINY_WIDTH * TINY_WIDTH + 2 * TINY_HEAD_DIM * TINY_WIDTH + 3 * TINY_FEED * TINY_WIDTH;
    size_t embedding = TINY_VOCAB * TINY_WIDTH, norms = (2 * TINY_LAYERS + 1) * TINY_WIDTH;
    assert_int_equal(made.n_parameters, embedding + TINY_LAYERS * layer + norms);
    assert_int_equal(source.n_parameters, made.n_parameters);
    assert_string_equal(made.kinds[EW_LAYER_DOWN].formats, "INT4 offset group 32");
    assert_string_equal(source.kinds[EW_LAYER_DOWN].formats, "Q4_1");
    size_t matrix_bytes = embedding * 34 / 32 + TINY_LAYERS * layer * 20 / 32;
    assert_true(fabs(made.bits_per_weight -
                     8.0 * (double)matrix_bytes / (double)(embedding + TINY_LAYERS * layer)) < 1e-9);
    assert_int_equal(made.weight_bytes, matrix_bytes + norms * 4);
    assert_int_equal(source.weight_bytes, 4 * made.n_parameters);
    assert_int_equal(made.kv_bytes_per_token,
                     TINY_LAYERS * 2 * (TINY_HEAD_DIM + 4)); /* one KV head: codes, a scale */
    assert_int_equal(source.kv_bytes_per_token, TINY_LAYERS * 2 * TINY_HEAD_DIM * 4);
    assert_int_equal(ew_inspect_kv_bytes(&made, 33), 64 * made.kv_bytes_per_token);
    free_good_file(&good);
}

static void foreign_files_are_checked_too(void **state) {
    (void)state;
    const tiny_model poisoned = {EW_DTYPE_Q4_0, EW_DTYPE_F16,          EW_DTYPE_Q8_0,
                                 EW_DTYPE_F32,  "blk.1.ffn_up.weight", NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &poisoned);
    ew_checkpoint *checkpoint;
    ew_error error;
    EW_ASSERT_OK(ew_checkpoint_open(folder.input, &checkpoint, error));
    assert_int_equal(ew_check_values(checkpoint, NULL, NULL, NULL, &error), EW_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "blk.1.ffn_up.weight holds NaN at row 95, column 32"));
    ew_checkpoint_close(checkpoint);
    remove_folder(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_are_read),
        cmocka_unit_test(lies_in_the_metadata_are_told),
        cmocka_unit_test(wrong_names_are_told),
        cmocka_unit_test(values_are_checked_on_request),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(every_header_byte_may_be_wrong),
        cmocka_unit_test(inspection_counts_what_is_there),
        cmocka_unit_test(foreign_files_are_checked_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

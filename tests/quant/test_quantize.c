/* `quantize` as a whole: what goes in without loss, what the file then holds, and what happens when it cannot
 * be. */
#include "files.h"

#include "quant/edgewise_file.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/pack.h"
#include "quant/quantize.h"
#include "tiny_model.h"

#include <signal.h>
#include <sys/resource.h>

/* A made file, opened. */
typedef struct made {
    ew_checkpoint *source, *checkpoint;
    ew_edgewise_file file;
} made;

static made open_made(const char *input, const char *output) {
    made m = {0};
    EW_ASSERT_OK(ew_checkpoint_open(input, &m.source, error));
    EW_ASSERT_OK(ew_checkpoint_open(output, &m.checkpoint, error));
    EW_ASSERT_OK(ew_edgewise_file_read(m.checkpoint, &m.file, error));
    EW_ASSERT_OK(ew_edgewise_file_check(&m.file, error));
    return m;
}

static void close_made(made *m) {
    ew_edgewise_file_free(&m->file);
    ew_checkpoint_close(m->checkpoint);
    ew_checkpoint_close(m->source);
}

static void quantize(const tiny_folder *folder, const ew_quantize_options *options,
                     ew_quantize_report *report) {
    EW_ASSERT_OK(ew_quantize(folder->input, folder->output, options, report, error));
}

/* Every value of the file is bit for bit that of the source. */
static void assert_lossless(const made *m) {
    for (size_t i = 0; i < ew_checkpoint_tensor_count(m->source); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(m->source, i);
        const ew_matrix *matrix = ew_edgewise_file_matrix(&m->file, tensor->name);
        const float *vector = ew_edgewise_file_vector(&m->file, tensor->name);
        assert_true((matrix != NULL) != (vector != NULL));
        float *wanted = calloc(tensor->cols, sizeof *wanted), *got = calloc(tensor->cols, sizeof *got);
        assert_true(wanted && got);
        for (size_t row = 0; row < tensor->rows; row++) {
            EW_ASSERT_OK(ew_tensor_read_row(tensor, row, wanted, error));
            if (matrix) {
                ew_matrix_read_row(matrix, row, got);
            }
            if (memcmp(wanted, matrix ? got : vector, tensor->cols * sizeof *wanted) != 0) {
                fail_msg("%s, row %zu differs from its source", tensor->name, row);
            }
        }
        free(wanted);
        free(got);
    }
}

static void block_types_come_in_without_loss(void **state) {
    (void)state;
    const tiny_model models[] = {
        {EW_DTYPE_Q4_0, EW_DTYPE_Q4_0, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, NULL, NULL},
        {EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, NULL, NULL},
        {EW_DTYPE_Q8_0, EW_DTYPE_Q8_0, EW_DTYPE_Q8_0, EW_DTYPE_Q8_0, NULL, NULL},
        {EW_DTYPE_Q4_0, EW_DTYPE_Q4_1, EW_DTYPE_Q4_0, EW_DTYPE_Q4_1, NULL, NULL},
    };
    const ew_quantize_options options = ew_quantize_default_options();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        tiny_folder folder = make_folder();
        ew_quantize_report report;
        write_tiny_model(folder.input, &models[i]);
        quantize(&folder, &options, &report);
        assert_int_equal(report.scheme, EW_SCHEME_KEEP);
        assert_int_equal(report.head_is_embedding, models[i].head == EW_DTYPE_COUNT);
        made m = open_made(folder.input, folder.output);
        assert_lossless(&m);
        for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
            const ew_layer_loss *loss = &report.layers[kind];
            assert_true(loss->n_matrices == 0 || (loss->lossless && loss->squared_error == 0));
        }
        char source[65];
        EW_ASSERT_OK(ew_checkpoint_source_fingerprint(m.source, source, error));
        assert_string_equal(source, m.file.source_fingerprint);
        EW_ASSERT_OK(ew_checkpoint_source_fingerprint(m.checkpoint, source, error));
        assert_string_equal(source, m.file.source_fingerprint);
        assert_string_equal(report.weights_fingerprint, m.file.weights_fingerprint);
        close_made(&m);
        remove_folder(&folder);
    }
}

static void smollm2_comes_in_without_loss(void **state) {
    (void)state;
    char path[1024];
    if (!ew_test_smollm2(path, sizeof path)) {
        skip();
    }
    tiny_folder folder = make_folder();
    const ew_quantize_options options = ew_quantize_default_options();
    ew_quantize_report report;
    EW_ASSERT_OK(ew_quantize(path, folder.output, &options, &report, error));
    made m = open_made(path, folder.output);
    assert_lossless(&m);
    assert_true(report.head_is_embedding);
    assert_int_equal(report.layers[EW_LAYER_DOWN].group, 32);
    close_made(&m);
    remove_folder(&folder);
}

/* ---- quantizing proper ---- */

/* The file holds exactly what the row quantizers give. */
static void assert_matrix_quantized(const made *m, const char *name, const char *source,
                                    const ew_int4_rule *rule) {
    const ew_tensor *tensor = ew_checkpoint_find(m->source, source);
    const ew_matrix *matrix = ew_edgewise_file_matrix(&m->file, name);
    assert_true(tensor && matrix);
    assert_int_equal(matrix->format, rule->format);
    assert_int_equal(matrix->group, rule->group);
    size_t group = rule->group == 0 ? tensor->cols : rule->group;
    for (size_t row = 0; row < tensor->rows; row++) {
        float w[TINY_FEED], scales[4], offsets[4] = {0};
        int8_t codes[TINY_FEED];
        EW_ASSERT_OK(ew_tensor_read_row(tensor, row, w, error));
        if (rule->format == EW_MATRIX_INT8) {
            EW_ASSERT_OK(ew_int8_quantize_row(name, row, w, tensor->cols, codes, scales, error));
        } else {
            EW_ASSERT_OK(
                ew_int4_quantize_row(rule, name, row, w, tensor->cols, codes, scales, offsets, error));
        }
        for (size_t col = 0; col < tensor->cols; col++) {
            assert_int_equal(ew_matrix_code(matrix, row, col), codes[col]);
            assert_true(ew_matrix_scale(matrix, row, col / group) == scales[col / group]);
            assert_true(rule->format != EW_MATRIX_INT4_OFFSET ||
                        ew_matrix_offset(matrix, row, col / group) == offsets[col / group]);
        }
    }
}

static void files_hold_what_the_row_quantizers_give(void **state) {
    (void)state;
    static const size_t groups[] = {0, 32, 64, 128};
    const tiny_model model = {EW_DTYPE_F32, EW_DTYPE_BF16, EW_DTYPE_F16, EW_DTYPE_COUNT, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    for (int i = 0; i < 16; i++) {
        ew_quantize_options options = ew_quantize_default_options();
        options.group = groups[i % 4];
        options.scheme = i & 4 ? EW_SCHEME_OFFSET : EW_SCHEME_SYMMETRIC;
        options.range = i & 8 ? EW_RANGE_MSE : EW_RANGE_MINMAX;
        options.activations = i & 1 ? EW_ACTIVATION_INT8 : EW_ACTIVATION_INT16;
        options.kv_grain = i & 1 ? 16 : 0;
        ew_quantize_report report;
        quantize(&folder, &options, &report);
        made m = open_made(folder.input, folder.output);
        const ew_int4_rule rule = {i & 4 ? EW_MATRIX_INT4_OFFSET : EW_MATRIX_INT4_SYMMETRIC, options.group,
                                   options.range};
        const ew_int4_rule int8 = {EW_MATRIX_INT8, 32, EW_RANGE_MINMAX};
        assert_matrix_quantized(&m, "blk.1.ffn_down.weight", "blk.1.ffn_down.weight", &rule);
        assert_matrix_quantized(&m, "blk.0.attn_q.weight", "blk.0.attn_q.weight", &rule);
        assert_matrix_quantized(&m, "output.weight", "token_embd.weight", &rule);
        assert_matrix_quantized(&m, "token_embd.weight", "token_embd.weight", &int8);
        assert_false(ew_checkpoint_config(m.checkpoint)->tied_embeddings);
        assert_int_equal(m.file.activations, options.activations);
        assert_int_equal(m.file.kv_grain, options.kv_grain);
        assert_true(report.layers[EW_LAYER_DOWN].worst_row_error > 0);
        close_made(&m);
    }
    remove_folder(&folder);
}

static void heads_follow_their_option(void **state) {
    (void)state;
    const struct {
        tiny_model model;
        ew_quantize_scheme scheme;
        ew_head_format head;
        bool stored; /* output.weight is in the file */
        ew_matrix_format format;
    } cases[] = {
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, NULL},
         EW_SCHEME_DEFAULT,
         EW_HEAD_INT8,
         false,
         0},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, NULL, NULL},
         EW_SCHEME_DEFAULT,
         EW_HEAD_INT8,
         true,
         EW_MATRIX_INT8},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, NULL, NULL},
         EW_SCHEME_OFFSET,
         EW_HEAD_INT4,
         true,
         EW_MATRIX_INT4_OFFSET},
        {{EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_F16, EW_DTYPE_COUNT, NULL, NULL},
         EW_SCHEME_DEFAULT,
         EW_HEAD_INT4,
         true,
         EW_MATRIX_INT4_SYMMETRIC},
        {{EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_F16, EW_DTYPE_COUNT, NULL, NULL},
         EW_SCHEME_DEFAULT,
         EW_HEAD_INT8,
         false,
         0},
        {{EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_F16, NULL, NULL},
         EW_SCHEME_DEFAULT,
         EW_HEAD_INT8,
         true,
         EW_MATRIX_INT8},
        {{EW_DTYPE_Q4_1, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, NULL, NULL},
         EW_SCHEME_SYMMETRIC,
         EW_HEAD_INT4,
         true,
         EW_MATRIX_INT4_SYMMETRIC},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_folder folder = make_folder();
        ew_quantize_options options = ew_quantize_default_options();
        options.scheme = cases[i].scheme;
        options.head = cases[i].head;
        ew_quantize_report report;
        write_tiny_model(folder.input, &cases[i].model);
        quantize(&folder, &options, &report);
        made m = open_made(folder.input, folder.output);
        const ew_matrix *head = ew_edgewise_file_matrix(&m.file, "output.weight");
        assert_int_equal(head != NULL, cases[i].stored);
        assert_int_equal(report.head_is_embedding, !cases[i].stored);
        assert_int_equal(ew_checkpoint_config(m.checkpoint)->tied_embeddings, !cases[i].stored);
        assert_true(!head || head->format == cases[i].format);
        close_made(&m);
        remove_folder(&folder);
    }
}

static void float_matrices_hold_the_tensors_values(void **state) {
    (void)state;
    const tiny_model model = {EW_DTYPE_Q4_1, EW_DTYPE_BF16, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    ew_checkpoint *source;
    EW_ASSERT_OK(ew_checkpoint_open(folder.input, &source, error));
    for (size_t i = 0; i < ew_checkpoint_tensor_count(source); i++) {
        const ew_tensor *tensor = ew_checkpoint_tensor_at(source, i);
        for (int format = EW_MATRIX_F32; format <= EW_MATRIX_BF16; format++) {
            void *memory = NULL, *again = NULL;
            ew_matrix matrix, twice;
            EW_ASSERT_OK(
                ew_matrix_from_tensor(tensor, (ew_matrix_format)format, NULL, &memory, &matrix, error));
            EW_ASSERT_OK(ew_matrix_dequantize(&matrix, EW_MATRIX_F32, NULL, &again, &twice, error));
            for (size_t row = 0; row < tensor->rows; row++) {
                float wanted[TINY_FEED], got[TINY_FEED];
                EW_ASSERT_OK(ew_tensor_read_row(tensor, row, wanted, error));
                for (size_t col = 0; col < tensor->cols && format == EW_MATRIX_BF16; col++) {
                    wanted[col] = ew_bf16_to_f32(ew_f32_to_bf16(wanted[col]));
                }
                ew_matrix_read_row(&matrix, row, got);
                assert_memory_equal(wanted, got, tensor->cols * sizeof *got);
                ew_matrix_read_row(&twice, row, got);
                assert_memory_equal(wanted, got, tensor->cols * sizeof *got);
            }
            free(memory);
            free(again);
        }
    }
    void *memory;
    ew_matrix matrix;
    ew_error error;
    assert_int_equal(ew_matrix_from_tensor(ew_checkpoint_find(source, "token_embd.weight"),
                                           EW_MATRIX_INT4_OFFSET, NULL, &memory, &matrix, &error),
                     EW_ERROR_ARGUMENT);
    ew_checkpoint_close(source);
    remove_folder(&folder);
}

static void outputs_do_not_depend_on_threads(void **state) {
    (void)state;
    const tiny_model model = {EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    ew_quantize_options options = ew_quantize_default_options();
    options.n_threads = 1;
    quantize(&folder, &options, NULL);
    for (options.n_threads = 2; options.n_threads <= 5; options.n_threads++) {
        EW_ASSERT_OK(ew_quantize(folder.input, folder.other, &options, NULL, error));
        assert_same_files(folder.output, folder.other);
    }
    remove_folder(&folder);
}

static void hugging_face_folders_and_gguf_files_agree(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2-tiny", "llama-tiny"};
    for (size_t i = 0; i < 2; i++) {
        char from_folder[1024], from_gguf[1024], relative[64];
        snprintf(relative, sizeof relative, "goldens/models/%s", names[i]);
        assert_non_null(ew_test_shared(relative, from_folder, sizeof from_folder));
        snprintf(relative, sizeof relative, "goldens/models/%s.gguf", names[i]);
        assert_non_null(ew_test_shared(relative, from_gguf, sizeof from_gguf));
        tiny_folder folder = make_folder();
        const ew_quantize_options options = ew_quantize_default_options();
        EW_ASSERT_OK(ew_quantize(from_folder, folder.output, &options, NULL, error));
        EW_ASSERT_OK(ew_quantize(from_gguf, folder.other, &options, NULL, error));
        made a = open_made(from_folder, folder.output), b = open_made(from_gguf, folder.other);
        assert_int_equal(a.file.n_matrices, b.file.n_matrices);
        for (size_t k = 0; k < a.file.n_matrices; k++) {
            const ew_matrix *left = &a.file.matrices[k].matrix, *right = &b.file.matrices[k].matrix;
            ew_matrix_layout layout;
            assert_string_equal(a.file.matrices[k].name, b.file.matrices[k].name);
            EW_ASSERT_OK(ew_matrix_plan(left->format, left->rows, left->cols, left->group, &layout, error));
            assert_memory_equal(left->codes, right->codes, layout.total);
        }
        close_made(&a);
        close_made(&b);
        remove_folder(&folder);
    }
}

/* ---- what cannot be ---- */

/* The call fails so, and leaves the folder as it was: the input, and an older output untouched. */
static void assert_refused(const tiny_folder *folder, const char *input, const ew_quantize_options *options,
                           ew_status wanted, const char *word) {
    FILE *older = fopen(folder->output, "wb");
    assert_non_null(older);
    fputs("older", older);
    fclose(older);
    size_t files = count_files(folder->path);
    ew_error error = {0};
    ew_status status = ew_quantize(input, folder->output, options, NULL, &error);
    if (status != wanted || !strstr(error.message, word)) {
        fail_msg("status %d, \"%s\"; wanted %d and \"%s\"", (int)status, error.message, (int)wanted, word);
    }
    assert_int_equal(count_files(folder->path), files);
    char *text;
    size_t length;
    EW_ASSERT_OK(ew_read_file(folder->output, 100, &text, &length, error));
    assert_string_equal(text, "older");
    free(text);
}

static void bad_values_are_refused_by_name(void **state) {
    (void)state;
    const ew_quantize_options options = ew_quantize_default_options();
    const struct {
        tiny_model model;
        const char *word;
    } cases[] = {
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, "blk.1.ffn_up.weight", NULL},
         "blk.1.ffn_up.weight holds NaN at row 95, column 63"},
        {{EW_DTYPE_F16, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, "blk.0.attn_v.weight", NULL},
         "blk.0.attn_v.weight holds NaN"},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, "token_embd.weight", NULL},
         "token_embd.weight holds NaN"},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, "output_norm.weight", NULL},
         "output_norm.weight holds NaN"},
        {{EW_DTYPE_Q4_0, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, "blk.1.attn_k.weight", NULL},
         "blk.1.attn_k.weight holds NaN"},
        {{EW_DTYPE_Q4_0, EW_DTYPE_Q4_1, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, "token_embd.weight", NULL},
         "token_embd.weight holds NaN"},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, "blk.0.attn_output.weight"},
         "blk.0.attn_output.weight, row 0, group 0: the scale"},
        {{EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, "token_embd.weight"},
         "token_embd.weight, row 0, group 0: the scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tiny_folder folder = make_folder();
        write_tiny_model(folder.input, &cases[i].model);
        assert_refused(&folder, folder.input, &options, EW_ERROR_NUMERIC, cases[i].word);
        remove_folder(&folder);
    }
}

static void senseless_requests_are_refused(void **state) {
    (void)state;
    const tiny_model model = {EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    ew_quantize_options options = ew_quantize_default_options();
    EW_ASSERT_OK(ew_quantize(folder.input, folder.other, &options, NULL, error));
    assert_refused(&folder, folder.other, &options, EW_ERROR_ARGUMENT, "quantized already");
    options.group = 48;
    assert_refused(&folder, folder.input, &options, EW_ERROR_ARGUMENT, "group of 48");
    options = ew_quantize_default_options();
    options.kv_grain = 30;
    assert_refused(&folder, folder.input, &options, EW_ERROR_ARGUMENT, "grain of 30");
    options = ew_quantize_default_options();
    assert_refused(&folder, "/nowhere/model.gguf", &options, EW_ERROR_IO, "/nowhere/model.gguf");
    ew_error error;
    assert_int_equal(ew_quantize(folder.input, folder.input, &options, NULL, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "overwrite"));
    assert_int_equal(ew_quantize(folder.input, "/nowhere/out.gguf", &options, NULL, &error), EW_ERROR_IO);
    remove_folder(&folder);
}

static volatile sig_atomic_t cancelled;

static void cancel_in_the_middle(void *context, const ew_quantize_progress *progress) {
    size_t *calls = context;
    assert_true(progress->weights_done <= progress->weights_total);
    cancelled = ++*calls == 9;
}

static void cancelling_leaves_nothing(void **state) {
    (void)state;
    const tiny_model model = {EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    ew_quantize_options options = ew_quantize_default_options();
    size_t calls = 0;
    options.progress = cancel_in_the_middle;
    options.progress_context = &calls;
    options.cancel = &cancelled;
    assert_refused(&folder, folder.input, &options, EW_ERROR_CANCELLED, "cancelled");
    assert_int_equal(calls, 9);
    remove_folder(&folder);
}

static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    const tiny_model model = {EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_COUNT, NULL, NULL};
    tiny_folder folder = make_folder();
    write_tiny_model(folder.input, &model);
    const ew_quantize_options options = ew_quantize_default_options();
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 100; limit < 40000; limit += 9000) { /* the file has about 60,000 bytes */
        small = (struct rlimit){limit, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        assert_refused(&folder, folder.input, &options, EW_ERROR_IO, "cannot write");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    }
    signal(SIGXFSZ, SIG_DFL);
    remove_folder(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_types_come_in_without_loss),
        cmocka_unit_test(smollm2_comes_in_without_loss),
        cmocka_unit_test(files_hold_what_the_row_quantizers_give),
        cmocka_unit_test(heads_follow_their_option),
        cmocka_unit_test(float_matrices_hold_the_tensors_values),
        cmocka_unit_test(outputs_do_not_depend_on_threads),
        cmocka_unit_test(hugging_face_folders_and_gguf_files_agree),
        cmocka_unit_test(bad_values_are_refused_by_name),
        cmocka_unit_test(senseless_requests_are_refused),
        cmocka_unit_test(cancelling_leaves_nothing),
        cmocka_unit_test(a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

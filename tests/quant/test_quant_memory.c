/* Every allocation of `quantize` and of reading its result is made to fail once: one sentence, nothing lost,
 * nothing left on the disk. */

#include "allocations.h"

#include "quant/inspect.h"
#include "quant/pack.h"
#include "quant/quantize.h"
#include "tiny_model.h"

static ew_status quantize_once(void *context, ew_error *error) {
    const tiny_folder *folder = context;
    ew_quantize_options options = ew_quantize_default_options();
    options.n_threads = 2;
    ew_status status = ew_quantize(folder->input, folder->output, &options, NULL, error);
    assert_int_equal(count_files(folder->path), status == EW_OK ? 2 : 1);
    unlink(folder->output);
    return status;
}

static ew_status read_once(void *context, ew_error *error) {
    const tiny_folder *folder = context;
    ew_checkpoint *checkpoint = NULL;
    ew_edgewise_file file = {0};
    ew_inspection inspection;
    void *memory = NULL;
    ew_status status = ew_checkpoint_open(folder->output, &checkpoint, error);
    if (status == EW_OK) {
        status = ew_edgewise_file_read(checkpoint, &file, error);
    }
    if (status == EW_OK) {
        status = ew_inspect(checkpoint, &file, &inspection, error);
    }
    if (status == EW_OK) {
        status = ew_check_values(checkpoint, &file, NULL, NULL, error);
    }
    if (status == EW_OK) {
        ew_matrix matrix;
        status = ew_matrix_dequantize(&file.matrices[0].matrix, EW_MATRIX_F32, NULL, &memory, &matrix, error);
    }
    free(memory);
    ew_edgewise_file_free(&file);
    ew_checkpoint_close(checkpoint);
    return status;
}

static void failed_allocations_are_survived(void **state) {
    (void)state;
    const tiny_model models[] = {
        {EW_DTYPE_Q4_1, EW_DTYPE_F16, EW_DTYPE_Q8_0, EW_DTYPE_COUNT, NULL, NULL},
        {EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, EW_DTYPE_F32, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        tiny_folder folder = make_folder();
        write_tiny_model(folder.input, &models[i]);
        assert_true(fail_every_allocation(quantize_once, &folder, 200, 7) > 100);
        const ew_quantize_options options = ew_quantize_default_options();
        EW_ASSERT_OK(ew_quantize(folder.input, folder.output, &options, NULL, error));
        assert_true(fail_every_allocation(read_once, &folder, 200, 7) > 10);
        remove_folder(&folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

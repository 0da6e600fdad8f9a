/* A file from memory as a checkpoint: what is accepted as an Edgewise file is read to its ends. */
#include "quant/edgewise_file.h"
#include "quant/inspect.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const ew_checkpoint *checkpoint) {
    ew_edgewise_file file;
    ew_inspection inspection;
    ew_error error;
    if (ew_edgewise_file_read(checkpoint, &file, &error) != EW_OK) {
        return;
    }
    for (size_t i = 0; i < file.n_matrices; i++) {
        const ew_matrix *matrix = &file.matrices[i].matrix;
        volatile float last = ew_matrix_scale(matrix, matrix->rows - 1, 0);
        volatile int code = ew_matrix_code(matrix, matrix->rows - 1, matrix->cols - 1);
        (void)last;
        (void)code;
    }
    (void)ew_inspect(checkpoint, &file, &inspection, &error);
    (void)ew_edgewise_file_check(&file, &error);
    ew_edgewise_file_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return 0;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ew_checkpoint *checkpoint;
    ew_error error;
    if (ew_checkpoint_open(path, &checkpoint, &error) == EW_OK) {
        if (ew_checkpoint_kind(checkpoint) == EW_CHECKPOINT_EDGEWISE) {
            walk(checkpoint);
        }
        ew_checkpoint_close(checkpoint);
    }
    close(fd);
    return 0;
}

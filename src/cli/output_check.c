#include "cli/output_check.h"
#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that a file or folder of this name lies in; NULL without memory. Slashes at the end belong to the name. */
static char *folder_of(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    while (length > 0 && path[length - 1] != '/') {
        length--;
    }
    return length == 0 ? ew_copy_text(".", 1) : ew_copy_text(path, length);
}

static ew_status check_folder(const char *output, ew_error *error) {
    char *folder = folder_of(output);
    if (!folder) {
        return ew_fail_memory(error, strlen(output), "a file name");
    }
    ew_status status = EW_OK;
    if (access(folder, W_OK) != 0) {
        status = ew_fail(error, EW_ERROR_IO, "cannot write %s: the folder %s: %s", output, folder, strerror(errno));
    }
    free(folder);
    return status;
}

ew_status ew_cli_check_output(const char *output, const char *const *inputs, size_t n_inputs, ew_error *error) {
    struct stat there, input;
    if (*output == '\0') {
        return ew_fail(error, EW_ERROR_ARGUMENT, "the name of the output is empty");
    }
    if (stat(output, &there) != 0) {
        return check_folder(output, error);
    }
    for (size_t i = 0; i < n_inputs; i++) {
        if (inputs[i] && stat(inputs[i], &input) == 0 && input.st_dev == there.st_dev && input.st_ino == there.st_ino) {
            return ew_fail(error, EW_ERROR_ARGUMENT,
                           "%s is read and would be overwritten; give the output another name", inputs[i]);
        }
    }
    if (S_ISDIR(there.st_mode) && access(output, W_OK) != 0) {
        return ew_fail(error, EW_ERROR_IO, "cannot write into the folder %s: %s", output, strerror(errno));
    }
    return S_ISREG(there.st_mode) ? check_folder(output, error) : EW_OK;
}

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ew_status fail_system(ew_error *error, const char *what, const char *path) {
    return ew_fail(error, EW_ERROR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

static ew_status open_regular(const char *path, int *descriptor, size_t *size, ew_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_system(error, "open", path);
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        close(fd);
        return fail_system(error, "read", path);
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd);
        return ew_fail(error, EW_ERROR_IO, "cannot read %s: it is %s, not a regular file", path,
                       S_ISDIR(status.st_mode) ? "a folder" : "a special file");
    }
    *descriptor = fd;
    *size = (size_t)status.st_size;
    return EW_OK;
}

ew_status ew_map_file(const char *path, ew_mapping *mapping, ew_error *error) {
    int fd = -1;
    size_t size = 0;
    *mapping = (ew_mapping){0};
    ew_status status = open_regular(path, &fd, &size, error);
    if (status != EW_OK) {
        return status;
    }
    if (size > 0) {
        void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            close(fd);
            return fail_system(error, "map", path);
        }
        ew_prefer_huge_pages(data, size);
        mapping->data = data;
        mapping->size = size;
    }
    close(fd);
    return EW_OK;
}

void ew_unmap(ew_mapping *mapping) {
    if (mapping->data) {
        munmap((void *)(uintptr_t)mapping->data, mapping->size);
    }
    *mapping = (ew_mapping){0};
}

static bool read_fully(int fd, char *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

ew_status ew_read_file(const char *path, size_t limit, char **text, size_t *length, ew_error *error) {
    int fd = -1;
    size_t size = 0;
    ew_status status = open_regular(path, &fd, &size, error);
    if (status != EW_OK) {
        return status;
    }
    if (size > limit) {
        close(fd);
        return ew_fail(error, EW_ERROR_FORMAT, "%s holds %zu bytes; at most %zu are read", path, size, limit);
    }
    char *bytes = malloc(size + 1);
    if (!bytes) {
        close(fd);
        return ew_fail_memory(error, size + 1, path);
    }
    errno = 0;
    if (!read_fully(fd, bytes, size)) {
        if (errno == 0) {
            errno = EIO;
        }
        status = fail_system(error, "read", path);
        free(bytes);
        close(fd);
        return status;
    }
    close(fd);
    bytes[size] = '\0';
    *text = bytes;
    *length = size;
    return EW_OK;
}

/* The rename of a commit would replace a device or a pipe by a file. */
static ew_status refuse_special(const char *path, ew_error *error) {
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return ew_fail(error, EW_ERROR_IO, "cannot write %s: it is %s, not a regular file", path,
                       S_ISDIR(status.st_mode) ? "a folder" : "a special file");
    }
    return EW_OK;
}

static ew_status open_output(const char *path, ew_output *output, ew_error *error) {
    static const char suffix[] = ".XXXXXX";
    size_t length = strlen(path);
    output->path = ew_copy_text(path, length);
    output->temporary = malloc(length + sizeof suffix);
    if (!output->path || !output->temporary) {
        ew_output_abandon(output);
        return ew_fail_memory(error, length + sizeof suffix, "a file name");
    }
    memcpy(output->temporary, path, length);
    memcpy(output->temporary + length, suffix, sizeof suffix);
    int fd = mkostemp(output->temporary, O_CLOEXEC);
    if (fd < 0) {
        ew_status status = fail_system(error, "make a temporary file beside", path);
        free(output->temporary);
        output->temporary = NULL;
        ew_output_abandon(output);
        return status;
    }
    mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
    output->stream = fdopen(fd, "wb");
    if (!output->stream) {
        close(fd);
        ew_output_abandon(output);
        return ew_fail_memory(error, BUFSIZ, "an output file");
    }
    return EW_OK;
}

ew_status ew_output_open(const char *path, ew_output *output, ew_error *error) {
    *output = (ew_output){0};
    ew_status status = refuse_special(path, error);
    if (status != EW_OK) {
        return status;
    }
    char *target = realpath(path, NULL); /* what a symbolic link names is replaced, not the link */
    status = open_output(target ? target : path, output, error);
    free(target);
    return status;
}

ew_status ew_output_write(ew_output *output, const void *bytes, size_t length, ew_error *error) {
    if (length > 0 && fwrite(bytes, 1, length, output->stream) != length) {
        return fail_system(error, "write", output->path);
    }
    return EW_OK;
}

ew_status ew_output_commit(ew_output *output, ew_error *error) {
    bool written = fflush(output->stream) == 0 && fsync(fileno(output->stream)) == 0;
    int reason = errno;
    if (fclose(output->stream) != 0 && written) {
        written = false;
        reason = errno;
    }
    output->stream = NULL;
    if (written && rename(output->temporary, output->path) != 0) {
        written = false;
        reason = errno;
    }
    if (!written) {
        errno = reason;
        ew_status status = fail_system(error, "write", output->path);
        ew_output_abandon(output);
        return status;
    }
    free(output->temporary);
    free(output->path);
    *output = (ew_output){0};
    return EW_OK;
}

void ew_output_abandon(ew_output *output) {
    if (output->stream) {
        fclose(output->stream);
    }
    if (output->temporary) {
        unlink(output->temporary);
    }
    free(output->temporary);
    free(output->path);
    *output = (ew_output){0};
}

char *ew_join_path(const char *folder, const char *name) {
    size_t folder_length = strlen(folder), name_length = strlen(name);
    char *path = malloc(folder_length + name_length + 2);
    if (path) {
        memcpy(path, folder, folder_length);
        path[folder_length] = '/';
        memcpy(path + folder_length + 1, name, name_length + 1);
    }
    return path;
}

const char *ew_last_name(const char *path, size_t *length) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    *length = end - begin;
    return path + begin;
}

#include "base/file.h"
#include "base/memory.h"
#include "format/checkpoint_internal.h"
#include "format/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX_BYTES = 64 << 20, MAX_SHARDS = 4096 };

/* Without allocation, so that no lack of memory can look like the lack of a file. A longer path cannot be
 * opened. */
bool ew_folder_has(const char *folder, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && length < (int)sizeof path && access(path, F_OK) == 0;
}

static ew_status add_shard(const char *path, const char *name, ew_weight_folder *folder, ew_error *error) {
    char *file = ew_join_path(path, name);
    if (!file || !ew_grow((void **)&folder->shards, &folder->shard_capacity, folder->n_shards + 1,
                          sizeof *folder->shards)) {
        free(file);
        return ew_fail_memory(error, sizeof *folder->shards, "the shards of a model");
    }
    ew_status status = ew_safetensors_open(file, &folder->shards[folder->n_shards], error);
    free(file);
    folder->n_shards += status == EW_OK;
    return status;
}

/* Hugging Face's caches link shards to files elsewhere, so the name is what is checked. */
static ew_status check_shard_name(const char *path, const char *name, ew_error *error) {
    if (!name || name[0] == '\0' || name[0] == '.' || strchr(name, '/')) {
        return ew_fail(error, EW_ERROR_FORMAT,
                       "%s: model.safetensors.index.json names a shard \"%s\", which is no file "
                       "name inside the folder",
                       path, name ? name : "");
    }
    return EW_OK;
}

/* One entry of the weight map: opens the shard if no entry before named it. */
static ew_status open_shard_of(const char *path, json_t *opened, const char *shard, ew_weight_folder *folder,
                               ew_error *error) {
    ew_status status = check_shard_name(path, shard, error);
    if (status != EW_OK || json_object_get(opened, shard)) {
        return status;
    }
    if (folder->n_shards == MAX_SHARDS) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: model.safetensors.index.json names more than %d shards",
                       path, MAX_SHARDS);
    }
    if (json_object_set_new(opened, shard, json_integer((json_int_t)folder->n_shards)) != 0) {
        return ew_fail_memory(error, strlen(shard), "the shards of a model");
    }
    return add_shard(path, shard, folder, error);
}

static ew_status open_shards(const char *path, const json_t *map, json_t *opened, ew_weight_folder *folder,
                             ew_error *error) {
    const char *tensor;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, entry) {
        const char *shard = json_string_value(entry);
        ew_status status = open_shard_of(path, opened, shard, folder, error);
        if (status != EW_OK) {
            return status;
        }
        size_t index = (size_t)json_integer_value(json_object_get(opened, shard));
        if (!ew_safetensors_find(folder->shards[index], tensor)) {
            return ew_fail(error, EW_ERROR_FORMAT,
                           "%s: model.safetensors.index.json says that %s lies in %s, but it "
                           "does not",
                           path, tensor, shard);
        }
    }
    return EW_OK;
}

static ew_status read_index(const char *path, ew_weight_folder *folder, ew_error *error) {
    char *file = ew_join_path(path, "model.safetensors.index.json"), *text = NULL;
    size_t length = 0;
    json_t *index = NULL, *opened = json_object();
    ew_status status = file && opened ? ew_read_file(file, MAX_INDEX_BYTES, &text, &length, error)
                                      : ew_fail_memory(error, strlen(path), "a file name");
    if (status == EW_OK) {
        status = ew_json_parse((ew_string){text, length}, file, &index, error);
    }
    if (status == EW_OK) {
        const json_t *map = json_object_get(index, "weight_map");
        status = json_is_object(map) ? open_shards(path, map, opened, folder, error)
                                     : ew_fail(error, EW_ERROR_FORMAT, "%s has no \"weight_map\"", file);
    }
    json_decref(opened);
    json_decref(index);
    free(text);
    free(file);
    return status;
}

static ew_status collect(const char *path, ew_weight_folder *folder, ew_error *error) {
    size_t total = 0;
    for (size_t i = 0; i < folder->n_shards; i++) {
        total += ew_safetensors_count(folder->shards[i]);
    }
    folder->tensors = ew_allocate(total, sizeof *folder->tensors);
    folder->names = ew_allocate(total, sizeof *folder->names);
    if (!folder->tensors || !folder->names) {
        return ew_fail_memory(error, total * sizeof *folder->names, "the table of tensors");
    }
    for (size_t i = 0; i < folder->n_shards; i++) {
        for (size_t j = 0; j < ew_safetensors_count(folder->shards[i]); j++) {
            const ew_safetensors_tensor *tensor = ew_safetensors_at(folder->shards[i], j);
            folder->tensors[folder->count] = tensor;
            folder->names[folder->count] = (ew_name){ew_string_of(tensor->name), folder->count};
            folder->count++;
        }
    }
    const ew_name *twice = ew_names_sort(folder->names, folder->count);
    return twice ? ew_fail(error, EW_ERROR_FORMAT, "%s: tensor %s lies in two shards", path, twice->name.data)
                 : EW_OK;
}

ew_status ew_weight_folder_open(const char *path, ew_weight_folder *folder, ew_error *error) {
    *folder = (ew_weight_folder){0};
    ew_status status;
    if (ew_folder_has(path, "model.safetensors")) {
        status = add_shard(path, "model.safetensors", folder, error);
    } else if (ew_folder_has(path, "model.safetensors.index.json")) {
        status = read_index(path, folder, error);
    } else if (ew_folder_has(path, "pytorch_model.bin") ||
               ew_folder_has(path, "pytorch_model.bin.index.json")) {
        status = ew_fail(error, EW_ERROR_UNSUPPORTED,
                         "%s holds its weights as pytorch_model.bin, which is not supported; "
                         "model.safetensors is",
                         path);
    } else {
        status = ew_fail(error, EW_ERROR_FORMAT,
                         "%s has no model.safetensors and no model.safetensors.index.json", path);
    }
    if (status == EW_OK) {
        status = collect(path, folder, error);
    }
    if (status != EW_OK) {
        ew_weight_folder_close(folder);
    }
    return status;
}

void ew_weight_folder_close(ew_weight_folder *folder) {
    for (size_t i = 0; i < folder->n_shards; i++) {
        ew_safetensors_close(folder->shards[i]);
    }
    free(folder->shards);
    free(folder->tensors);
    free(folder->names);
    *folder = (ew_weight_folder){0};
}

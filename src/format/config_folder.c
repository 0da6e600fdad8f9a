#include "base/file.h"
#include "base/memory.h"
#include "format/config.h"

#include <stdlib.h>
#include <unistd.h>

enum { N_TEXTS = 4 };

/* A file that need not be there. */
static ew_status map_text(const char *folder, const char *name, ew_mapping *mapping, ew_string *text,
                          ew_error *error) {
    char *path = ew_join_path(folder, name);
    if (!path) {
        return ew_fail_memory(error, 0, "a file name");
    }
    ew_status status = EW_OK;
    if (access(path, F_OK) == 0) {
        status = ew_map_file(path, mapping, error);
        *text = (ew_string){mapping->data ? (const char *)mapping->data : "", mapping->size};
    }
    free(path);
    return status;
}

ew_status ew_config_from_folder(const char *folder, ew_config *config, ew_error *error) {
    static const char *const names[N_TEXTS] = {"config.json", "generation_config.json",
                                               "tokenizer_config.json", "tokenizer.json"};
    ew_config_texts texts = {0};
    ew_string *views[N_TEXTS] = {&texts.config, &texts.generation, &texts.tokenizer_config, &texts.tokenizer};
    ew_mapping mappings[N_TEXTS] = {{0}};
    ew_status status = EW_OK;
    for (int i = 0; i < N_TEXTS && status == EW_OK; i++) {
        status = map_text(folder, names[i], &mappings[i], views[i], error);
    }
    if (status == EW_OK && !texts.config.data) {
        status = ew_fail(error, EW_ERROR_FORMAT, "%s is no model: it has no config.json", folder);
    }
    if (status == EW_OK) {
        status = ew_config_from_texts(&texts, folder, config, error);
    }
    for (int i = 0; i < N_TEXTS; i++) {
        ew_unmap(&mappings[i]);
    }
    return status;
}

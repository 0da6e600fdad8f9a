/* The tokenizer of a Hugging Face folder. */
#include "base/file.h"
#include "text/known_steps.h"
#include "text/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest tokenizer.json around have 35 MB. */
enum { FILE_LIMIT = 256 * 1024 * 1024 };

typedef struct folder {
    const char *path;
    json_t *config; /* tokenizer_config.json, NULL if there is none */
    char *template; /* chat_template.jinja, NULL if there is none */
    size_t template_length;
} folder;

/* A file of the folder that need not be there: *text stays NULL then. */
static ew_status read_optional(const char *path, const char *file, char **text, size_t *length,
                               ew_error *error) {
    char *full = ew_join_path(path, file);
    if (!full) {
        return ew_fail_memory(error, strlen(path), "a file name");
    }
    ew_status status = access(full, F_OK) == 0 ? ew_read_file(full, FILE_LIMIT, text, length, error) : EW_OK;
    free(full);
    return status;
}

static ew_status read_optional_json(const char *path, const char *file, json_t **root, ew_error *error) {
    char *text = NULL;
    size_t length = 0;
    ew_status status = read_optional(path, file, &text, &length, error);
    if (status == EW_OK && text) {
        status = ew_json_parse((ew_string){text, length}, file, root, error);
    }
    free(text);
    return status;
}

static ew_status read_surroundings(const char *path, folder *found, ew_error *error) {
    *found = (folder){.path = path};
    ew_status status = read_optional_json(path, "tokenizer_config.json", &found->config, error);
    return status == EW_OK
               ? read_optional(path, "chat_template.jinja", &found->template, &found->template_length, error)
               : status;
}

static ew_status finish(const folder *found, ew_tokenizer_parts *parts, ew_tokenizer **out, ew_error *error) {
    ew_status status = EW_OK;
    if (found->template) {
        status = ew_parts_chat_template(parts, found->template, found->template_length, error);
    }
    if (status == EW_OK && found->config) {
        status = ew_json_config_specials(found->config, parts, error);
    }
    return status == EW_OK ? ew_parts_finish(parts, out, error) : status;
}

static ew_status from_tokenizer_json(const folder *found, const char *text, size_t length, const char *name,
                                     ew_tokenizer **out, ew_error *error) {
    json_t *root = NULL;
    ew_tokenizer_parts parts;
    ew_parts_begin(&parts, name);
    ew_status status = ew_json_parse((ew_string){text, length}, name, &root, error);
    if (status == EW_OK) {
        status = ew_json_tokenizer(root, &parts, error);
    }
    if (status == EW_OK && found->config) {
        status = ew_json_config_added(found->config, &parts, error);
    }
    if (status == EW_OK) {
        status = finish(found, &parts, out, error);
    }
    json_decref(root);
    ew_parts_free(&parts);
    return status;
}

/* vocab.json says nothing of the pre-tokenizer: it follows from the model type, where that is sure. */
static ew_status steps_by_model_type(const folder *found, ew_tokenizer_parts *parts, ew_error *error) {
    json_t *config = NULL;
    size_t length = 0;
    bool llama3 = false;
    ew_status status = read_optional_json(found->path, "config.json", &config, error);
    if (status != EW_OK) {
        return status;
    }
    const char *type = ew_json_text(config, "model_type", &length);
    if (type && (strcmp(type, "qwen2") == 0 || strcmp(type, "qwen3") == 0)) {
        parts->flags |= EW_BLOB_NFC;
        ew_known_steps(parts, "qwen2", 5, &llama3, &status, error);
    } else if (type && strcmp(type, "gpt2") == 0) {
        ew_known_steps(parts, "gpt-2", 5, &llama3, &status, error);
    } else {
        status =
            ew_fail(error, EW_ERROR_UNSUPPORTED,
                    "%s: vocab.json does not say how text is cut, and for the model type \"%.40s\" it is not "
                    "known; tokenizer.json would say it",
                    found->path, type ? type : "");
    }
    json_decref(config);
    return status;
}

static ew_status read_vocab_json(const char *path, ew_tokenizer_parts *parts, bool added, ew_error *error) {
    json_t *root = NULL, *id = NULL;
    const char *text = NULL;
    ew_status status = read_optional_json(path, added ? "added_tokens.json" : "vocab.json", &root, error);
    if (status == EW_OK && !root && !added) {
        status = ew_fail(error, EW_ERROR_FORMAT,
                         "%s holds no tokenizer: neither tokenizer.json nor vocab.json", path);
    }
    json_object_foreach(root, text, id) {
        if (status != EW_OK) {
            break;
        }
        int64_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        status = added ? ew_parts_added(parts, number, text, strlen(text), true, 0, error)
                       : ew_parts_token(parts, number, text, strlen(text), error);
    }
    json_decref(root);
    return status;
}

static ew_status read_merges_txt(const char *path, ew_tokenizer_parts *parts, ew_error *error) {
    static const char version[] = "#version";
    char *text = NULL;
    size_t length = 0, at = 0;
    ew_status status = read_optional(path, "merges.txt", &text, &length, error);
    if (status == EW_OK && !text) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s holds vocab.json but no merges.txt", path);
    }
    while (status == EW_OK && at < length) {
        const char *line = text + at, *end = memchr(line, '\n', length - at);
        size_t bytes = end ? (size_t)(end - line) : length - at;
        at += bytes + 1;
        bytes -= bytes > 0 && line[bytes - 1] == '\r';
        bool comment = bytes >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0;
        if (bytes > 0 && !comment) {
            status = ew_parts_merge_line(parts, line, bytes, error);
        }
    }
    free(text);
    return status;
}

static ew_status from_vocab_json(const folder *found, ew_tokenizer **out, ew_error *error) {
    ew_tokenizer_parts parts;
    ew_parts_begin(&parts, found->path);
    ew_status status = read_vocab_json(found->path, &parts, false, error);
    if (status == EW_OK) {
        status = steps_by_model_type(found, &parts, error);
    }
    if (status == EW_OK && found->config) {
        status = ew_json_config_added(found->config, &parts, error);
    }
    if (status == EW_OK) {
        status = read_vocab_json(found->path, &parts, true, error);
    }
    if (status == EW_OK) {
        status = ew_parts_index(&parts, error);
    }
    if (status == EW_OK) {
        status = read_merges_txt(found->path, &parts, error);
    }
    if (status == EW_OK) {
        status = finish(found, &parts, out, error);
    }
    ew_parts_free(&parts);
    return status;
}

ew_status ew_tokenizer_open_folder(const char *path, ew_tokenizer **out, ew_error *error) {
    folder found;
    char *text = NULL, *name = ew_join_path(path, "tokenizer.json");
    size_t length = 0;
    if (!name) {
        return ew_fail_memory(error, strlen(path), "a file name");
    }
    ew_status status = read_surroundings(path, &found, error);
    if (status == EW_OK) {
        status = read_optional(path, "tokenizer.json", &text, &length, error);
    }
    if (status == EW_OK) {
        status = text ? from_tokenizer_json(&found, text, length, name, out, error)
                      : from_vocab_json(&found, out, error);
    }
    free(text);
    free(name);
    free(found.template);
    json_decref(found.config);
    return status;
}

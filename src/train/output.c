#include "train/output.h"
#include "base/file.h"
#include "base/float16.h"
#include "base/memory.h"
#include "format/checkpoint_internal.h"
#include "format/json.h"
#include "text/reply_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ew_train_is_file(const char *path) {
    static const char extension[] = ".gguf";
    size_t length = strlen(path), tail = sizeof extension - 1;
    return length > tail && strcmp(path + length - tail, extension) == 0;
}

/* ---- Adapters ---- */

#ifndef EW_TRAIN_DOUBLE

/* The template's reply header: where the adapter of a masked run begins. */
static ew_status header_tokens(const ew_train_base *base, ew_tokens *tokens, size_t *header, ew_error *error) {
    const ew_message question = {"user", "?", 1};
    return ew_prompt_encode(base->chat, base->tokenizer, &question, 1, true, tokens, header, error);
}

static ew_status write_lora(const ew_train_base *base, const ew_lora *lora, ew_adapter_storage storage,
                            const char *path, ew_error *error) {
    return ew_train_is_file(path) ? ew_adapter_write_gguf(lora, &base->network->config, storage, path, error)
                                  : ew_adapter_write_peft(lora, &base->network->config, storage, path, error);
}

ew_status ew_train_write_adapter(const ew_train_base *base, bool masked, ew_adapter_storage storage, const char *path,
                                 ew_error *error) {
    ew_lora_view view;
    ew_tokens tokens = {0};
    size_t header = 0;
    char source[65];
    ew_status status = ew_lora_view_open(base->network, &view, error);
    if (status == EW_OK && masked && base->chat) {
        status = header_tokens(base, &tokens, &header, error);
        view.lora.invocation_tokens = tokens.ids + header;
        view.lora.n_invocation_tokens = tokens.count - header;
    }
    if (status == EW_OK) {
        status =
            ew_checkpoint_source_fingerprint(base->model ? base->model->checkpoint : base->checkpoint, source, error);
    }
    if (status == EW_OK) {
        view.lora.base_name = base->path;
        view.lora.source_fingerprint = source;
        view.lora.weights_fingerprint = base->model ? base->model->file.weights_fingerprint : NULL;
        status = write_lora(base, &view.lora, storage, path, error);
    }
    ew_tokens_free(&tokens);
    ew_lora_view_close(&view);
    return status;
}

#endif

/* ---- Whole models ---- */

static ew_status make_folder(const char *folder, ew_error *error) {
    struct stat status;
    if (mkdir(folder, 0777) == 0 || (errno == EEXIST && stat(folder, &status) == 0 && S_ISDIR(status.st_mode))) {
        return EW_OK;
    }
    return ew_fail(error, EW_ERROR_IO, "cannot make the folder %s: %s", folder, strerror(errno));
}

static ew_status write_file(const char *path, const void *bytes, size_t length, ew_error *error) {
    ew_output output;
    ew_status status = ew_output_open(path, &output, error);
    if (status != EW_OK) {
        return status;
    }
    status = ew_output_write(&output, bytes, length, error);
    if (status != EW_OK) {
        ew_output_abandon(&output);
        return status;
    }
    return ew_output_commit(&output, error);
}

/* Copies a file that need not be there. */
static ew_status copy_file(const char *from, const char *to, ew_error *error) {
    ew_mapping mapping;
    struct stat a, b;
    if (stat(from, &a) != 0 || (stat(to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)) {
        return EW_OK;
    }
    ew_status status = ew_map_file(from, &mapping, error);
    if (status == EW_OK) {
        status = write_file(to, mapping.data, mapping.size, error);
        ew_unmap(&mapping);
    }
    return status;
}

/* config.json with the element type of the new weights. */
static ew_status copy_config(const char *from, const char *to, bool bf16, ew_error *error) {
    ew_mapping mapping;
    json_t *config = NULL;
    ew_status status = ew_map_file(from, &mapping, error);
    if (status != EW_OK) {
        return status;
    }
    status = ew_json_parse((ew_string){(const char *)mapping.data, mapping.size}, from, &config, error);
    ew_unmap(&mapping);
    if (status != EW_OK) {
        return status;
    }
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    json_object_set_new(config, key, json_string(bf16 ? "bfloat16" : "float32"));
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    json_decref(config);
    status = text ? write_file(to, text, strlen(text), error) : ew_fail_memory(error, 0, "a configuration");
    free(text);
    return status;
}

static ew_status copy_texts(const char *base, const char *folder, bool bf16, ew_error *error) {
    static const char *const names[] = {"config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "generation_config.json",
                                        "special_tokens_map.json"};
    ew_status status = EW_OK;
    for (size_t i = 0; status == EW_OK && i < sizeof names / sizeof *names; i++) {
        char *from = ew_join_path(base, names[i]), *to = ew_join_path(folder, names[i]);
        if (!from || !to) {
            status = ew_fail_memory(error, strlen(folder), "a file name");
        } else {
            status = i == 0 ? copy_config(from, to, bf16, error) : copy_file(from, to, error);
        }
        free(from);
        free(to);
    }
    return status;
}

/* One row of a tensor as the file has it. */
static ew_status write_row(ew_safetensors_writer *writer, const real *values, size_t cols, bool bf16, void *row,
                           ew_error *error) {
    for (size_t i = 0; i < cols; i++) {
        if (bf16) {
            ((uint16_t *)row)[i] = ew_f32_to_bf16((float)values[i]);
        } else {
            ((float *)row)[i] = (float)values[i];
        }
    }
    return ew_safetensors_writer_data(writer, row, cols * (bf16 ? 2 : 4), error);
}

static ew_status write_tensors(const ew_network *network, const ew_expected *expected, size_t count, bool bf16,
                               ew_safetensors_writer *writer, ew_error *error) {
    float *row = ew_allocate(EW_CONFIG_MAX_WIDTH, sizeof *row);
    ew_status status = row ? EW_OK : ew_fail_memory(error, EW_CONFIG_MAX_WIDTH * sizeof *row, "a row");
    ew_safetensors_write_metadata(writer, "format", "pt");
    for (size_t i = 0; i < count; i++) {
        const uint64_t shape[] = {expected[i].rows, expected[i].cols};
        ew_safetensors_write_tensor(writer, expected[i].folder_name, bf16 ? EW_DTYPE_BF16 : EW_DTYPE_F32,
                                    expected[i].vector ? 1 : 2, expected[i].vector ? shape + 1 : shape);
    }
    if (status == EW_OK) {
        status = ew_safetensors_writer_begin(writer, error);
    }
    for (size_t i = 0; status == EW_OK && i < count; i++) {
        const ew_parameter *item = ew_parameters_find(&network->parameters, expected[i].name);
        if (!item) {
            status = ew_fail(error, EW_ERROR_FORMAT, "%s is not trained", expected[i].name);
        }
        for (size_t r = 0; status == EW_OK && r < item->rows; r++) {
            status =
                write_row(writer, network->parameters.values + item->at + r * item->cols, item->cols, bf16, row, error);
        }
    }
    free(row);
    return status;
}

static ew_status write_weights(const ew_network *network, bool bf16, const char *path, ew_error *error) {
    ew_expected *expected;
    size_t count;
    ew_safetensors_writer writer;
    ew_status status = ew_expect_tensors(&network->config, &expected, &count, error);
    if (status != EW_OK) {
        return status;
    }
    status = ew_safetensors_writer_open(path, &writer, error);
    if (status == EW_OK) {
        status = write_tensors(network, expected, count, bf16, &writer, error);
        if (status == EW_OK) {
            status = ew_safetensors_writer_commit(&writer, error);
        } else {
            ew_safetensors_writer_abandon(&writer);
        }
    }
    free(expected);
    return status;
}

ew_status ew_train_write_model(const ew_train_base *base, bool bf16, const char *folder, ew_error *error) {
    ew_status status = make_folder(folder, error);
    if (status == EW_OK) {
        status = copy_texts(base->path, folder, bf16, error);
    }
    char *path = ew_join_path(folder, "model.safetensors");
    if (status == EW_OK && !path) {
        status = ew_fail_memory(error, strlen(folder), "a file name");
    }
    if (status == EW_OK) {
        status = write_weights(base->network, bf16, path, error);
    }
    free(path);
    return status;
}

ew_status ew_train_check_output(const ew_train_base *base, const char *path, ew_error *error) {
    struct stat status;
    bool exists = stat(path, &status) == 0, folder = exists && S_ISDIR(status.st_mode);
    bool gguf = !base->network->dense && ew_train_is_file(path);
    if (exists && folder == gguf) {
        return ew_fail(error, EW_ERROR_IO,
                       gguf ? "%s is a folder; a file is to be written there"
                            : "%s is a file; a folder is to be made there",
                       path);
    }
    return EW_OK;
}

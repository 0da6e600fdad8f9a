/* A llama model of random weights as a GGUF file, its matrices in any of the plain and the lossless block
 * types. Its tokenizer is that of the golden llama-tiny. */
#ifndef EW_TEST_TINY_MODEL_H
#define EW_TEST_TINY_MODEL_H

#include "status.h"

#include "base/float16.h"
#include "format/checkpoint.h"

#include <dirent.h>
#include <unistd.h>

enum {
    TINY_WIDTH = 64,
    TINY_FEED = 96,
    TINY_HEADS = 2,
    TINY_HEAD_DIM = 32,
    TINY_LAYERS = 2,
    TINY_VOCAB = 272
};

typedef struct tiny_model {
    ew_dtype layers, down, embedding, head; /* head EW_DTYPE_COUNT: tied */
    const char *poison; /* the tensor whose last value is NaN (scale of the last block), or NULL */
    const char *huge;   /* the tensor whose first value is 1e9, or NULL; plain types only */
} tiny_model;

static inline uint32_t tiny_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline float tiny_weight(uint64_t *state) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (double)tiny_random(state) * 0x1p-31 - 0.5;
    }
    return (float)(sum * 0.1);
}

static inline void put_half_bytes(ew_buffer *out, uint16_t half) {
    const uint8_t bytes[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
    ew_buffer_append(out, bytes, 2);
}

/* Blocks need no values behind them: any codes under any finite scale are a matrix. Some scales are negative.
 */
static inline void tiny_encode(ew_buffer *out, ew_dtype type, size_t count, uint64_t *state) {
    size_t block = ew_dtype_block_elements(type);
    for (size_t i = 0; i < count; i += block) {
        float w = tiny_weight(state);
        if (type == EW_DTYPE_F32) {
            ew_buffer_append(out, &w, sizeof w);
        } else if (type == EW_DTYPE_F16) {
            put_half_bytes(out, ew_f32_to_f16(w));
        } else if (type == EW_DTYPE_BF16) {
            put_half_bytes(out, ew_f32_to_bf16(w));
        } else {
            size_t halves = type == EW_DTYPE_Q4_1 ? 2 : 1;
            for (size_t k = 0; k < halves; k++) {
                put_half_bytes(out, ew_f32_to_f16(tiny_weight(state) * 0.2f));
            }
            for (size_t k = 2 * halves; k < ew_dtype_block_bytes(type); k++) {
                uint8_t byte = (uint8_t)tiny_random(state);
                ew_buffer_append(out, &byte, 1);
            }
        }
    }
}

typedef struct tiny_writer {
    const tiny_model *model;
    ew_gguf_writer writer;
    bool declaring;
    uint64_t seed;
} tiny_writer;

static inline void tiny_tensor(tiny_writer *w, const char *name, ew_dtype type, size_t rows, size_t cols) {
    if (w->declaring) {
        const uint64_t shape[2] = {cols, rows};
        ew_gguf_write_tensor(&w->writer, name, type, rows == 1 ? 1 : 2, shape);
        return;
    }
    ew_buffer bytes = {0};
    tiny_encode(&bytes, type, rows * cols, &w->seed);
    if (w->model->poison && strcmp(w->model->poison, name) == 0) {
        size_t last = bytes.length - ew_dtype_block_bytes(type);
        const uint8_t nan[4] = {0x00, 0x7e, 0xc0,
                                0x7f}; /* NaN as F16 in the first half, as F32 in the whole */
        memcpy(bytes.data + last, nan, type == EW_DTYPE_F32 ? 4 : 2);
    }
    if (w->model->huge && strcmp(w->model->huge, name) == 0) {
        const float huge = 1e9f;
        memcpy(bytes.data, &huge, sizeof huge);
    }
    EW_ASSERT_OK(ew_gguf_writer_data(&w->writer, bytes.data, bytes.length, error));
    ew_buffer_free(&bytes);
}

static inline void tiny_tensors(tiny_writer *w) {
    const tiny_model *m = w->model;
    size_t queries = TINY_HEADS * TINY_HEAD_DIM, keys = TINY_HEAD_DIM;
    const struct {
        const char *name;
        ew_dtype type;
        size_t rows, cols;
    } parts[] = {{"attn_norm.weight", EW_DTYPE_F32, 1, TINY_WIDTH},
                 {"attn_q.weight", m->layers, queries, TINY_WIDTH},
                 {"attn_k.weight", m->layers, keys, TINY_WIDTH},
                 {"attn_v.weight", m->layers, keys, TINY_WIDTH},
                 {"attn_output.weight", m->layers, TINY_WIDTH, queries},
                 {"ffn_norm.weight", EW_DTYPE_F32, 1, TINY_WIDTH},
                 {"ffn_gate.weight", m->layers, TINY_FEED, TINY_WIDTH},
                 {"ffn_up.weight", m->layers, TINY_FEED, TINY_WIDTH},
                 {"ffn_down.weight", m->down, TINY_WIDTH, TINY_FEED}};
    tiny_tensor(w, "token_embd.weight", m->embedding, TINY_VOCAB, TINY_WIDTH);
    for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%zu.%s", layer, parts[i].name);
            tiny_tensor(w, name, parts[i].type, parts[i].rows, parts[i].cols);
        }
    }
    tiny_tensor(w, "output_norm.weight", EW_DTYPE_F32, 1, TINY_WIDTH);
    if (m->head != EW_DTYPE_COUNT) {
        tiny_tensor(w, "output.weight", m->head, TINY_VOCAB, TINY_WIDTH);
    }
}

static inline void tiny_metadata(ew_gguf_writer *writer) {
    char path[1024];
    assert_non_null(ew_test_shared("goldens/models/llama-tiny.gguf", path, sizeof path));
    ew_gguf *golden = NULL;
    EW_ASSERT_OK(ew_gguf_open(path, &golden, error));
    ew_gguf_write_text(writer, "general.architecture", "llama");
    ew_gguf_write_text(writer, "general.license", "mit");
    ew_gguf_write_u32(writer, "llama.block_count", TINY_LAYERS);
    ew_gguf_write_u32(writer, "llama.context_length", 256);
    ew_gguf_write_u32(writer, "llama.embedding_length", TINY_WIDTH);
    ew_gguf_write_u32(writer, "llama.feed_forward_length", TINY_FEED);
    ew_gguf_write_u32(writer, "llama.attention.head_count", TINY_HEADS);
    ew_gguf_write_u32(writer, "llama.attention.head_count_kv", 1);
    ew_gguf_write_u32(writer, "llama.rope.dimension_count", TINY_HEAD_DIM);
    ew_gguf_write_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    ew_gguf_write_f32(writer, "llama.rope.freq_base", 10000.0f);
    for (size_t i = 0; i < ew_gguf_value_count(golden); i++) {
        const ew_gguf_value *value = ew_gguf_value_at(golden, i);
        if (value->key.length > 10 && memcmp(value->key.data, "tokenizer.", 10) == 0) {
            ew_gguf_write_copy(writer, value);
        }
    }
    ew_gguf_close(golden);
}

static inline void write_tiny_model(const char *path, const tiny_model *model) {
    tiny_writer w = {.model = model, .declaring = true, .seed = 11};
    EW_ASSERT_OK(ew_gguf_writer_open(path, &w.writer, error));
    tiny_metadata(&w.writer);
    tiny_tensors(&w);
    EW_ASSERT_OK(ew_gguf_writer_begin(&w.writer, error));
    w.declaring = false;
    tiny_tensors(&w);
    EW_ASSERT_OK(ew_gguf_writer_commit(&w.writer, error));
}

/* ---- a folder of its own for each test ---- */

typedef struct tiny_folder {
    char path[64];
    char input[96], output[96], other[96]; /* files in it */
} tiny_folder;

static inline tiny_folder make_folder(void) {
    tiny_folder folder = {.path = "/tmp/ew-quantize-XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    snprintf(folder.input, sizeof folder.input, "%s/in.gguf", folder.path);
    snprintf(folder.output, sizeof folder.output, "%s/out.gguf", folder.path);
    snprintf(folder.other, sizeof folder.other, "%s/other.gguf", folder.path);
    return folder;
}

static inline size_t count_files(const char *path) {
    DIR *directory = opendir(path);
    assert_non_null(directory);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static inline void remove_folder(const tiny_folder *folder) {
    unlink(folder->input);
    unlink(folder->output);
    unlink(folder->other);
    assert_int_equal(rmdir(folder->path), 0);
}

#endif

/* GGUF files built by hand in memory, for tests that must be able to lie. */
#ifndef EW_TEST_GGUF_BUILDER_H
#define EW_TEST_GGUF_BUILDER_H

#include "base/buffer.h"
#include "format/gguf.h"

#include <string.h>

static inline void put_u32(ew_buffer *b, uint32_t value) {
    ew_buffer_append(b, &value, sizeof value);
}
static inline void put_u64(ew_buffer *b, uint64_t value) {
    ew_buffer_append(b, &value, sizeof value);
}
static inline void put_text(ew_buffer *b, const char *text) {
    put_u64(b, strlen(text));
    ew_buffer_append_text(b, text);
}
static inline void put_header(ew_buffer *b, uint32_t version, uint64_t n_tensors, uint64_t n_values) {
    ew_buffer_append_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_values);
}
static inline void put_key_u32(ew_buffer *b, const char *key, uint32_t value) {
    put_text(b, key);
    put_u32(b, EW_GGUF_UINT32);
    put_u32(b, value);
}
static inline void put_key_f32(ew_buffer *b, const char *key, float value) {
    put_text(b, key);
    put_u32(b, EW_GGUF_FLOAT32);
    ew_buffer_append(b, &value, sizeof value);
}
static inline void put_key_text(ew_buffer *b, const char *key, const char *value) {
    put_text(b, key);
    put_u32(b, EW_GGUF_STRING);
    put_text(b, value);
}
static inline void put_tensor(ew_buffer *b, const char *name, uint32_t type, uint64_t cols, uint64_t rows,
                              uint64_t offset) {
    put_text(b, name);
    put_u32(b, 2);
    put_u64(b, cols);
    put_u64(b, rows);
    put_u32(b, type);
    put_u64(b, offset);
}
static inline void put_data(ew_buffer *b, size_t bytes) {
    while (b->length % 32 != 0) {
        ew_buffer_append(b, "", 1);
    }
    for (size_t i = 0; i < bytes; i++) {
        ew_buffer_append(b, "\1", 1);
    }
}

#endif

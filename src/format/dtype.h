/* The element types of tensors in GGUF and safetensors files: names, numbers, block sizes. A block is the
 * smallest unit that is stored: one element of the plain types, 32 or 256 elements of the quantized ones. */
#ifndef EW_FORMAT_DTYPE_H
#define EW_FORMAT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ew_dtype {
    EW_DTYPE_F32,
    EW_DTYPE_F16,
    EW_DTYPE_BF16,
    EW_DTYPE_F64,
    EW_DTYPE_I8,
    EW_DTYPE_I16,
    EW_DTYPE_I32,
    EW_DTYPE_I64,
    EW_DTYPE_U8, /* this one and the four below: safetensors only */
    EW_DTYPE_U16,
    EW_DTYPE_U32,
    EW_DTYPE_U64,
    EW_DTYPE_BOOL,
    EW_DTYPE_Q4_0, /* from here on: GGUF only */
    EW_DTYPE_Q4_1,
    EW_DTYPE_Q5_0,
    EW_DTYPE_Q5_1,
    EW_DTYPE_Q8_0,
    EW_DTYPE_Q2_K,
    EW_DTYPE_Q3_K,
    EW_DTYPE_Q4_K,
    EW_DTYPE_Q5_K,
    EW_DTYPE_Q6_K,
    EW_DTYPE_COUNT
} ew_dtype;

const char *ew_dtype_name(ew_dtype type); /* "F32", "Q4_1", ... */
size_t ew_dtype_block_elements(ew_dtype type);
size_t ew_dtype_block_bytes(ew_dtype type);

/* Whether ew_dequantize_row reads it: F32, F16, BF16 and the quantized types. */
bool ew_dtype_is_weight(ew_dtype type);

/* Bytes of `elements` consecutive elements; false when they are no whole number of blocks or the size
 * overflows. */
bool ew_dtype_size(ew_dtype type, uint64_t elements, size_t *bytes);

/* The numbers of GGUF (enum ggml_type); false for a number or type that the other side does not have. */
bool ew_dtype_from_ggml(uint32_t number, ew_dtype *type);
bool ew_dtype_to_ggml(ew_dtype type, uint32_t *number);

/* The name that ggml has for a type number, also for types that Edgewise does not read; "type N" is up to the
 * caller when NULL is returned. */
const char *ew_ggml_type_name(uint32_t number);

/* The names of safetensors ("F32", "BF16", ...); false for an unknown one. Plain types only. */
bool ew_dtype_from_safetensors(const char *name, ew_dtype *type);
bool ew_dtype_is_safetensors(ew_dtype type);

#endif

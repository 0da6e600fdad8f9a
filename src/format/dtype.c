#include "format/dtype.h"
#include "base/memory.h"

#include <string.h>

enum { NO_GGML = 0xffff };

static const struct {
    const char *name; /* also safetensors' name for the plain types */
    uint16_t elements, bytes;
    uint16_t ggml;
} types[EW_DTYPE_COUNT] = {
    [EW_DTYPE_F32] = {"F32", 1, 4, 0},         [EW_DTYPE_F16] = {"F16", 1, 2, 1},
    [EW_DTYPE_BF16] = {"BF16", 1, 2, 30},      [EW_DTYPE_F64] = {"F64", 1, 8, 28},
    [EW_DTYPE_I8] = {"I8", 1, 1, 24},          [EW_DTYPE_I16] = {"I16", 1, 2, 25},
    [EW_DTYPE_I32] = {"I32", 1, 4, 26},        [EW_DTYPE_I64] = {"I64", 1, 8, 27},
    [EW_DTYPE_U8] = {"U8", 1, 1, NO_GGML},     [EW_DTYPE_U16] = {"U16", 1, 2, NO_GGML},
    [EW_DTYPE_U32] = {"U32", 1, 4, NO_GGML},   [EW_DTYPE_U64] = {"U64", 1, 8, NO_GGML},
    [EW_DTYPE_BOOL] = {"BOOL", 1, 1, NO_GGML}, [EW_DTYPE_Q4_0] = {"Q4_0", 32, 18, 2},
    [EW_DTYPE_Q4_1] = {"Q4_1", 32, 20, 3},     [EW_DTYPE_Q5_0] = {"Q5_0", 32, 22, 6},
    [EW_DTYPE_Q5_1] = {"Q5_1", 32, 24, 7},     [EW_DTYPE_Q8_0] = {"Q8_0", 32, 34, 8},
    [EW_DTYPE_Q2_K] = {"Q2_K", 256, 84, 10},   [EW_DTYPE_Q3_K] = {"Q3_K", 256, 110, 11},
    [EW_DTYPE_Q4_K] = {"Q4_K", 256, 144, 12},  [EW_DTYPE_Q5_K] = {"Q5_K", 256, 176, 13},
    [EW_DTYPE_Q6_K] = {"Q6_K", 256, 210, 14},
};

const char *ew_dtype_name(ew_dtype type) {
    return types[type].name;
}

size_t ew_dtype_block_elements(ew_dtype type) {
    return types[type].elements;
}

size_t ew_dtype_block_bytes(ew_dtype type) {
    return types[type].bytes;
}

bool ew_dtype_is_weight(ew_dtype type) {
    return type <= EW_DTYPE_BF16 || type >= EW_DTYPE_Q4_0;
}

bool ew_dtype_size(ew_dtype type, uint64_t elements, size_t *bytes) {
    uint64_t blocks = elements / types[type].elements;
    return elements % types[type].elements == 0 && blocks <= SIZE_MAX &&
           ew_multiply_size((size_t)blocks, types[type].bytes, bytes);
}

bool ew_dtype_from_ggml(uint32_t number, ew_dtype *type) {
    for (int i = 0; i < EW_DTYPE_COUNT; i++) {
        if (types[i].ggml == number && number != NO_GGML) {
            *type = (ew_dtype)i;
            return true;
        }
    }
    return false;
}

bool ew_dtype_to_ggml(ew_dtype type, uint32_t *number) {
    *number = types[type].ggml;
    return types[type].ggml != NO_GGML;
}

const char *ew_ggml_type_name(uint32_t number) {
    static const struct {
        uint32_t number;
        const char *name;
    } others[] = {{9, "Q8_1"},   {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
                  {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
                  {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"}};
    ew_dtype type;
    if (ew_dtype_from_ggml(number, &type)) {
        return types[type].name;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].number == number) {
            return others[i].name;
        }
    }
    return NULL;
}

bool ew_dtype_is_safetensors(ew_dtype type) {
    return type < EW_DTYPE_Q4_0;
}

bool ew_dtype_from_safetensors(const char *name, ew_dtype *type) {
    for (int i = 0; ew_dtype_is_safetensors((ew_dtype)i); i++) {
        if (strcmp(types[i].name, name) == 0) {
            *type = (ew_dtype)i;
            return true;
        }
    }
    return false;
}

/* The whole kernel set in virtual lanes; define LANES_TABLE (its variable) and LANES_NAME before. */
#include "kernel/lanes/attention_ops.h"
#include "kernel/lanes/float_ops.h"
#include "kernel/lanes/matmul_float_ops.h"
#include "kernel/lanes/matmul_ops.h"
#include "kernel/lanes/quantize_ops.h"

const ew_kernels LANES_TABLE = {
    .name = LANES_NAME,
    .rms_norm = rms_norm,
    .add = add,
    .swiglu = swiglu,
    .rope = rope,
    .quantize = quantize,
    .matmul = matmul,
    .matmul_float = matmul_float,
    .store_kv = store_kv,
    .attend = attend,
    .attend_float = attend_float,
};

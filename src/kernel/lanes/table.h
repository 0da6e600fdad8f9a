/* The whole kernel set in virtual lanes; define LANES_TABLE (its variable) and LANES_NAME before, and
 * LANES_MATMUL where matmul is not the one of matmul_ops.h. */
#include "kernel/lanes/attention_float_ops.h"
#include "kernel/lanes/float_ops.h"
#include "kernel/lanes/matmul_float_ops.h"
#include "kernel/lanes/matmul_ops.h"
#include "kernel/lanes/peak_ops.h"
#include "kernel/lanes/quantize_ops.h"

#ifndef LANES_MATMUL
#define LANES_MATMUL matmul
#endif

const ew_kernels LANES_TABLE = {
    .name = LANES_NAME,
    .rms_norm = rms_norm,
    .add = add,
    .add_scaled = add_scaled,
    .swiglu = swiglu,
    .rope = rope,
    .quantize = quantize,
    .dequantize = dequantize,
    .matmul = LANES_MATMUL,
    .matmul_float = matmul_float,
    .store_kv = store_kv,
    .attend = attend,
    .attend_runs = attend_runs,
    .merge_runs = merge_runs,
    .attend_float = attend_float,
    .dot_peak = dot_peak,
};

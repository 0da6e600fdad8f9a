/* One page of the KV cache for one layer and one KV head: 32 positions of keys and values.
 *
 * INT8 (docs/arithmetic.md, "Cache"):
 *   K codes   int8  [padded_dim / 4][32 positions][4 channels]   lanes of a score product are positions
 *   K scales  f32   [n_scales][32 positions]
 *   V codes   int8  [32 positions][padded_dim]
 *   V scales  f32   [32 positions][n_scales]
 * F32 (the unquantized reference):
 *   K         f32   [32 positions][head_dim]
 *   V         f32   [32 positions][head_dim]
 *
 * padded_dim = head_dim rounded up to 16 (codes 0), n_scales = ceil(head_dim / grain). Pages start zeroed. */
#ifndef EW_KERNEL_KV_PAGE_H
#define EW_KERNEL_KV_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EW_PAGE_POSITIONS = 32 };

typedef struct ew_kv_layout {
    bool quantized;    /* INT8, else F32 */
    size_t head_dim;   /* channels; at most 256 */
    size_t padded_dim; /* channels stored */
    size_t grain;      /* channels under one scale, a multiple of 4 */
    size_t n_scales;
    size_t k_scales_at, v_codes_at, v_scales_at; /* byte offsets in the page (F32: v_codes_at is where V starts) */
    size_t page_bytes;                           /* a multiple of 64 */
} ew_kv_layout;

/* grain 0 means one scale for the whole head. */
static inline ew_kv_layout ew_kv_layout_make(bool quantized, size_t head_dim, size_t grain) {
    ew_kv_layout layout = {.quantized = quantized, .head_dim = head_dim};
    layout.padded_dim = (head_dim + 15) / 16 * 16;
    layout.grain = grain == 0 || grain > head_dim ? head_dim : grain;
    layout.n_scales = (head_dim + layout.grain - 1) / layout.grain;
    if (quantized) {
        size_t codes = layout.padded_dim * EW_PAGE_POSITIONS;
        size_t scales = layout.n_scales * EW_PAGE_POSITIONS * sizeof(float);
        layout.k_scales_at = codes;
        layout.v_codes_at = codes + scales;
        layout.v_scales_at = 2 * codes + scales;
        layout.page_bytes = (2 * codes + 2 * scales + 63) / 64 * 64;
    } else {
        layout.v_codes_at = head_dim * EW_PAGE_POSITIONS * sizeof(float);
        layout.page_bytes = (2 * layout.v_codes_at + 63) / 64 * 64;
    }
    return layout;
}

#endif

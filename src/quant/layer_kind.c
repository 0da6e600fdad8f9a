#include "quant/layer_kind.h"

#include <string.h>

static const struct {
    const char *name, *tensor; /* the tensor's name, in layers what follows "blk.N." */
} kinds[] = {
    [EW_LAYER_EMBEDDING] = {"embedding", "token_embd.weight"},
    [EW_LAYER_Q] = {"q", "attn_q.weight"},
    [EW_LAYER_K] = {"k", "attn_k.weight"},
    [EW_LAYER_V] = {"v", "attn_v.weight"},
    [EW_LAYER_O] = {"o", "attn_output.weight"},
    [EW_LAYER_GATE] = {"gate", "ffn_gate.weight"},
    [EW_LAYER_UP] = {"up", "ffn_up.weight"},
    [EW_LAYER_DOWN] = {"down", "ffn_down.weight"},
    [EW_LAYER_HEAD] = {"head", "output.weight"},
    [EW_LAYER_VECTOR] = {"norm or bias", ""},
};

const char *ew_layer_kind_name(ew_layer_kind kind) {
    return kinds[kind].name;
}

ew_layer_kind ew_layer_kind_of(const char *name) {
    if (strncmp(name, "blk.", 4) == 0) {
        name += 4 + strspn(name + 4, "0123456789");
        name += *name == '.';
    }
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        if (strcmp(name, kinds[kind].tensor) == 0) {
            return (ew_layer_kind)kind;
        }
    }
    return EW_LAYER_VECTOR;
}

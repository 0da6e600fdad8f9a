/* A model's configuration, whatever file it comes from. Every value is checked when it is read: sizes are
 * positive and bounded (EW_CONFIG_MAX_*), so that products of two of them fit a size_t with room to spare. */
#ifndef EW_FORMAT_CONFIG_H
#define EW_FORMAT_CONFIG_H

#include "base/buffer.h"
#include "format/gguf.h"
#include "format/gguf_write.h"

enum {
    EW_CONFIG_MAX_HEAD_DIM = 256,
    EW_CONFIG_MAX_EOS = 16,
    EW_CONFIG_MAX_LAYERS = 1024,
    EW_CONFIG_MAX_WIDTH = 1 << 18, /* d_model, d_ff, n_heads * head_dim */
    EW_CONFIG_MAX_VOCAB = 1 << 22,
    EW_CONFIG_MAX_CONTEXT = 1 << 24
};

typedef enum ew_architecture {
    EW_ARCHITECTURE_QWEN2,
    EW_ARCHITECTURE_QWEN3,
    EW_ARCHITECTURE_LLAMA
} ew_architecture;

typedef enum ew_rope_scaling {
    EW_ROPE_NONE,
    EW_ROPE_LINEAR,  /* every frequency divided by `factor` */
    EW_ROPE_LLAMA3,  /* factor, low_freq_factor, high_freq_factor, original_context */
    EW_ROPE_YARN,    /* factor, original_context, beta_fast, beta_slow, truncate, and the attention factor's
                        parts */
    EW_ROPE_DIVISORS /* frequency i is divided by divisors[i] (rope_freqs.weight of llama files) */
} ew_rope_scaling;

typedef struct ew_rope {
    double theta;
    ew_rope_scaling scaling;
    double factor;
    size_t original_context;
    double low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow; /* YaRN; 32 and 1 unless given */
    bool truncate; /* YaRN: the correction range is rounded outwards to integers (the default) */
    /* YaRN, cos and sin are multiplied by: attention_factor if it is > 0; else m(mscale) / m(mscale_all_dim)
     * if both are > 0; else m(1), where m(s) = 0.1 s ln(factor) + 1 for factor > 1 and 1 otherwise. */
    double attention_factor, mscale, mscale_all_dim;
    float divisors[EW_CONFIG_MAX_HEAD_DIM / 2]; /* EW_ROPE_DIVISORS: head_dim / 2 of them */
} ew_rope;

/* Defaults for sampling that the model's authors give. What is not given is neutral: temperature 1, top_k 0
 * (off), top_p 1, min_p 0, repetition_penalty 1. */
typedef struct ew_sampling_defaults {
    bool given;     /* the file says anything at all */
    bool do_sample; /* false: greedy */
    double temperature;
    uint32_t top_k;
    double top_p, min_p, repetition_penalty;
} ew_sampling_defaults;

typedef struct ew_config {
    ew_architecture architecture;
    size_t n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, vocab_size, context_length;
    float rms_norm_eps;
    bool qkv_bias;        /* attn_q.bias, attn_k.bias, attn_v.bias */
    bool o_bias;          /* attn_output.bias */
    bool qk_norm;         /* attn_q_norm.weight, attn_k_norm.weight, one row of head_dim for all heads */
    bool tied_embeddings; /* no output.weight: the head is token_embd.weight */
    ew_rope rope;
    int32_t bos_id;                     /* -1: none */
    bool add_bos;                       /* the tokenizer puts bos_id before a text */
    int32_t eos_ids[EW_CONFIG_MAX_EOS]; /* any of them ends a reply; ascending */
    size_t n_eos;
    ew_sampling_defaults sampling;
} ew_config;

const char *ew_architecture_name(ew_architecture architecture); /* "qwen2", "qwen3", "llama" */
const char *
ew_rope_scaling_name(ew_rope_scaling scaling); /* "none", "linear", "llama3", "yarn", "divisors" */

/* From a Hugging Face folder's texts. `generation`, `tokenizer_config` and `tokenizer`
 * (generation_config.json, tokenizer_config.json, tokenizer.json) may be NULL; of the last only the
 * post-processor is looked at. `where` names the folder in messages. EW_ERROR_UNSUPPORTED names what is not
 * supported: another architecture, sliding windows in use, another scaling or activation, biases of the MLP,
 * quantized checkpoints. */
typedef struct ew_config_texts {
    ew_string config, generation, tokenizer_config, tokenizer; /* data NULL: not there */
} ew_config_texts;
ew_status ew_config_from_texts(const ew_config_texts *texts, const char *where, ew_config *config,
                               ew_error *error);
ew_status ew_config_from_folder(const char *folder, ew_config *config, ew_error *error);

/* From GGUF metadata, llama.cpp's keys. Whether the head is tied and biases exist follows from the tensors'
 * names, end tokens also from the texts of special tokens. A file with edgewise.version has all that in
 * edgewise.config.*. */
ew_status ew_config_from_gguf(const ew_gguf *gguf, ew_config *config, ew_error *error);

/* Writes the configuration of an Edgewise file: llama.cpp's keys and edgewise.config.*. Beside
 * general.architecture and ARCHITECTURE.* these are tokenizer.ggml.bos_token_id, add_bos_token and
 * eos_token_id, so do not copy those. Together with edgewise.version (the caller's) they read back to the
 * same ew_config, field by field. */
void ew_config_write_gguf(const ew_config *config, ew_gguf_writer *writer);

/* Appends what determines the logits as text, one `key=value` a line in a fixed order (the configuration's
 * part of the source fingerprint, docs/formats.md). */
void ew_config_describe(const ew_config *config, ew_buffer *text);

#endif

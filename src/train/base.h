/* What is trained on: a model's weights as a network, with the tokenizer and the template that its data needs. */
#ifndef EW_TRAIN_BASE_H
#define EW_TRAIN_BASE_H

#include "train/network.h"

typedef struct ew_train_base_options {
    bool full;          /* all weights are trained; the model must be unquantized */
    bool from_nothing;  /* random weights: the path is a folder with a configuration and a tokenizer; implies full */
    bool float_weights; /* adapters on the unquantized (or dequantized) model */
    const char *chat_template; /* NULL: recognised */
    const char *adapter;       /* an adapter to go on from; NULL: a new one by `plan` */
    ew_lora_plan plan;
    uint64_t seed; /* of random weights */
} ew_train_base_options;

typedef struct ew_train_base {
    const char *path;
    ew_network *network;
    ew_model *model;           /* the quantized base; NULL: float weights */
    ew_checkpoint *checkpoint; /* of float weights; NULL: from nothing, or quantized */
    ew_adapter_file *adapter;  /* that was gone on from */
    const ew_tokenizer *tokenizer;
    const ew_chat_template *chat; /* NULL: none that is known; template_error says why */
    ew_error template_error;
    ew_tokenizer *own_tokenizer;
    ew_chat_template own_chat;
} ew_train_base;

/* `path` must outlive the base. Closed by ew_train_base_close whatever comes of it. Float build only. */
ew_status ew_train_base_open(const char *path, const ew_train_base_options *options, ew_train_base *base,
                             ew_error *error);
void ew_train_base_close(ew_train_base *base); /* safe on {0} */

#endif

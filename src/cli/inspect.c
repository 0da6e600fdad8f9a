/* edgewise inspect: what is in a model, and what it will cost in memory; or in an adapter or a head. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/inspect_adapter.h"
#include "cli/inspect_head.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "format/adapter.h"
#include "quant/inspect.h"
#include "text/chat_template.h"

#include <stdio.h>
#include <string.h>

/* Everything that is known about one model. */
typedef struct subject {
    ew_checkpoint *checkpoint;
    ew_edgewise_file file; /* {0} unless it is an Edgewise file */
    bool is_edgewise;
    ew_inspection inspection;
    ew_tokenizer *tokenizer;
    const char *chat_template;   /* the name of the recognised one, or NULL */
    char source_fingerprint[65]; /* empty where it was not computed */
    size_t context;
    bool checked;
} subject;

static ew_status open_tokenizer(subject *s, ew_error *error) {
    const ew_gguf *gguf = ew_checkpoint_gguf(s->checkpoint);
    ew_status status =
        gguf ? ew_tokenizer_open_gguf(gguf, &s->tokenizer, error)
             : ew_tokenizer_open_folder(ew_checkpoint_path(s->checkpoint), &s->tokenizer, error);
    ew_chat_template chat = {0};
    if (status == EW_OK && ew_chat_template_open(s->tokenizer, NULL, &chat, NULL) == EW_OK) {
        s->chat_template = chat.name;
        ew_chat_template_free(&chat);
    }
    return status;
}

static ew_status check_values(subject *s, ew_error *error) {
    ew_pool *pool = NULL;
    ew_interrupt_install();
    ew_status status = ew_pool_create(0, NULL, &pool, error);
    if (status == EW_OK) {
        status =
            ew_check_values(s->checkpoint, s->is_edgewise ? &s->file : NULL, pool, &ew_interrupted, error);
    }
    ew_pool_destroy(pool);
    if (status == EW_OK && !s->is_edgewise) {
        status = ew_checkpoint_source_fingerprint(s->checkpoint, s->source_fingerprint, error);
    }
    s->checked = status == EW_OK;
    return status;
}

static ew_status open_subject(const char *path, subject *s, bool check, ew_error *error) {
    ew_status status = ew_checkpoint_open(path, &s->checkpoint, error);
    if (status != EW_OK) {
        return status;
    }
    if (ew_checkpoint_kind(s->checkpoint) == EW_CHECKPOINT_EDGEWISE) {
        status = ew_edgewise_file_read(s->checkpoint, &s->file, error);
        s->is_edgewise = status == EW_OK;
        if (status != EW_OK) {
            return status;
        }
        memcpy(s->source_fingerprint, s->file.source_fingerprint, sizeof s->source_fingerprint);
    }
    status = ew_inspect(s->checkpoint, s->is_edgewise ? &s->file : NULL, &s->inspection, error);
    if (status == EW_OK) {
        status = open_tokenizer(s, error);
    }
    return status == EW_OK && check ? check_values(s, error) : status;
}

static void close_subject(subject *s) {
    ew_tokenizer_close(s->tokenizer);
    ew_edgewise_file_free(&s->file);
    ew_checkpoint_close(s->checkpoint);
}

static const char *source_name(const subject *s) {
    switch (ew_checkpoint_kind(s->checkpoint)) {
    case EW_CHECKPOINT_HUGGING_FACE:
        return "Hugging Face folder";
    case EW_CHECKPOINT_GGUF:
        return "GGUF file";
    default:
        return "Edgewise file";
    }
}

static const char *activation_name(const subject *s) {
    return s->file.activations == EW_ACTIVATION_INT8 ? "INT8" : "INT16";
}

/* ---- text ---- */

static void print_config(const subject *s) {
    const ew_config *c = ew_checkpoint_config(s->checkpoint);
    printf("%s: %s", ew_checkpoint_path(s->checkpoint), source_name(s));
    if (s->is_edgewise) {
        printf(", %s activations", activation_name(s));
    }
    printf(
        "\n\narchitecture   %s: %zu layers, width %zu, feed-forward %zu, %zu heads and %zu KV heads of %zu\n",
        ew_architecture_name(c->architecture), c->n_layers, c->d_model, c->d_ff, c->n_heads, c->n_kv_heads,
        c->head_dim);
    printf("vocabulary     %zu rows, %zu tokens, %s\n", c->vocab_size, ew_tokenizer_vocab_size(s->tokenizer),
           c->tied_embeddings ? "head tied to the embedding" : "head of its own");
    printf("context        %zu positions, RoPE theta %g, scaling %s\n", c->context_length, c->rope.theta,
           ew_rope_scaling_name(c->rope.scaling));
    printf("end tokens    ");
    for (size_t i = 0; i < c->n_eos; i++) {
        printf(" %d", (int)c->eos_ids[i]);
    }
    printf("%s\nchat template  %s\n", c->n_eos == 0 ? " none" : "",
           s->chat_template ? s->chat_template : "none that is recognised");
    if (s->source_fingerprint[0]) {
        printf("source         %s\n", s->source_fingerprint);
    }
    if (s->is_edgewise) {
        printf("weights        %s\n", s->file.weights_fingerprint);
        ew_print_bundle(ew_checkpoint_gguf(s->checkpoint));
    }
}

static void print_weights(const subject *s) {
    printf("\n%-13s %8s %12s %7s  %s\n", "weights", "tensors", "values", "bits", "format");
    for (int kind = 0; kind <= EW_LAYER_KINDS; kind++) {
        const ew_inspected_kind *sum = &s->inspection.kinds[kind];
        if (sum->n_tensors > 0) {
            printf("%-13s %8zu %12zu %7.3f  %s\n", ew_layer_kind_name((ew_layer_kind)kind), sum->n_tensors,
                   sum->n_weights, 8.0 * (double)sum->stored_bytes / (double)sum->n_weights, sum->formats);
        }
    }
    printf("\n%zu parameters, matrices at %.3f bits a weight\n", s->inspection.n_parameters,
           s->inspection.bits_per_weight);
}

static void print_memory(const subject *s) {
    const ew_inspection *i = &s->inspection;
    double weights = (double)i->weight_bytes, cache = (double)ew_inspect_kv_bytes(i, s->context);
    if (!i->quantized) {
        printf("not made by `edgewise quantize`: runs unquantized, weights and KV cache as F32\n");
    }
    printf("KV cache: %zu bytes a token%s", i->kv_bytes_per_token, i->quantized ? "" : "\n");
    if (i->quantized) {
        printf(" (INT8, %zu channels a scale)\n", i->kv_grain);
    }
    printf("memory at %zu positions: %.1f MB weights + %.1f MB KV cache = %.1f MB\n", s->context,
           weights / 1e6, cache / 1e6, (weights + cache) / 1e6);
    if (s->checked) {
        printf("checked: every value is finite%s\n",
               s->is_edgewise ? ", the weights have their fingerprint" : "");
    }
}

/* ---- JSON ---- */

static json_t *kinds_json(const subject *s) {
    json_t *kinds = json_object();
    for (int kind = 0; kind <= EW_LAYER_KINDS; kind++) {
        const ew_inspected_kind *sum = &s->inspection.kinds[kind];
        if (sum->n_tensors > 0) {
            json_t *entry = json_object();
            ew_json_put(&entry, "tensors", json_integer((json_int_t)sum->n_tensors));
            ew_json_put(&entry, "values", json_integer((json_int_t)sum->n_weights));
            ew_json_put(&entry, "bytes", json_integer((json_int_t)sum->stored_bytes));
            ew_json_put(&entry, "format", json_string(sum->formats));
            ew_json_put(&kinds, ew_layer_kind_name((ew_layer_kind)kind), entry);
        }
    }
    return kinds;
}

static json_t *config_json(const ew_config *c) {
    const struct {
        const char *key;
        size_t value;
    } sizes[] = {{"n_layers", c->n_layers},
                 {"d_model", c->d_model},
                 {"d_ff", c->d_ff},
                 {"n_heads", c->n_heads},
                 {"n_kv_heads", c->n_kv_heads},
                 {"head_dim", c->head_dim},
                 {"vocab_size", c->vocab_size},
                 {"context_length", c->context_length}};
    json_t *object = json_object();
    ew_json_put(&object, "architecture", json_string(ew_architecture_name(c->architecture)));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ew_json_put(&object, sizes[i].key, json_integer((json_int_t)sizes[i].value));
    }
    ew_json_put(&object, "tied_embeddings", json_boolean(c->tied_embeddings));
    ew_json_put(&object, "rope_theta", json_real(c->rope.theta));
    ew_json_put(&object, "rope_scaling", json_string(ew_rope_scaling_name(c->rope.scaling)));
    ew_json_put(&object, "eos_ids", ew_json_ids(c->eos_ids, c->n_eos));
    return object;
}

static ew_status print_json(const subject *s, ew_error *error) {
    const ew_inspection *i = &s->inspection;
    const char *path = ew_checkpoint_path(s->checkpoint);
    size_t cache = ew_inspect_kv_bytes(i, s->context);
    json_t *object = json_object();
    ew_json_put(&object, "path", ew_json_repaired(path, strlen(path)));
    ew_json_put(&object, "kind", json_string(source_name(s)));
    ew_json_put(&object, "config", config_json(ew_checkpoint_config(s->checkpoint)));
    ew_json_put(&object, "tokens", json_integer((json_int_t)ew_tokenizer_vocab_size(s->tokenizer)));
    ew_json_put(&object, "chat_template", s->chat_template ? json_string(s->chat_template) : json_null());
    ew_json_put(&object, "weights", kinds_json(s));
    ew_json_put(&object, "parameters", json_integer((json_int_t)i->n_parameters));
    ew_json_put(&object, "bits_per_weight", json_real(i->bits_per_weight));
    ew_json_put(&object, "kv_bytes_per_token", json_integer((json_int_t)i->kv_bytes_per_token));
    ew_json_put(&object, "context", json_integer((json_int_t)s->context));
    ew_json_put(&object, "weight_bytes", json_integer((json_int_t)i->weight_bytes));
    ew_json_put(&object, "kv_bytes", json_integer((json_int_t)cache));
    if (s->is_edgewise) {
        ew_json_put(&object, "activations", json_string(activation_name(s)));
        ew_json_put(&object, "kv_grain", json_integer((json_int_t)i->kv_grain));
        ew_json_put(&object, "fingerprint_weights", json_string(s->file.weights_fingerprint));
        ew_json_put(&object, "bundle", ew_bundle_json(ew_checkpoint_gguf(s->checkpoint)));
    }
    if (s->source_fingerprint[0]) {
        ew_json_put(&object, "fingerprint_source", json_string(s->source_fingerprint));
    }
    ew_json_put(&object, "checked", json_boolean(s->checked));
    return ew_json_print(object, error);
}

/* ---- the command ---- */

static size_t context;
static bool check, as_json;
static const char *base;

static const ew_option option_table[] = {
    {"context", 0, EW_OPTION_COUNT, &context, .argument = "N",
     .help = "positions to count the KV cache for (the model's own by default)", .least = 1,
     .most = EW_CONFIG_MAX_CONTEXT},
    {"check", 0, EW_OPTION_FLAG, &check,
     .help = "read every value: NaN, infinity and damaged files are errors; also computes the source "
             "fingerprint"},
    {"base", 0, EW_OPTION_TEXT, &base, .argument = "MODEL",
     .help = "of an adapter: the model that it must fit"},
    {"json", 0, EW_OPTION_FLAG, &as_json, .help = "print one JSON object"},
};

static const char examples[] = "  edgewise inspect smollm2.gguf --context 4096\n"
                               "  edgewise inspect smollm2.gguf --check\n"
                               "  edgewise inspect Qwen2.5-1.5B-Instruct --json\n"
                               "  edgewise inspect reasoning-adapter.gguf --base smollm2.gguf\n";

static const ew_command command = {"inspect",
                                   "MODEL|ADAPTER|HEAD",
                                   "Tell what is in an Edgewise file, another GGUF file or a Hugging Face "
                                   "folder, and the memory that it\n"
                                   "needs; or in a LoRA adapter (a PEFT folder, a LoRA GGUF file), or in a head.",
                                   examples,
                                   option_table,
                                   sizeof option_table / sizeof *option_table,
                                   1,
                                   1};

int ew_cli_inspect(int argc, char **argv) {
    const char *positionals[1];
    int exit_code;
    if (!ew_arguments_parse(&command, argc, argv, positionals, &exit_code)) {
        return exit_code;
    }
    subject s = {0};
    ew_error error;
    if (ew_adapter_is(positionals[0])) {
        bool told = ew_inspect_adapter(positionals[0], base, as_json, &error) == EW_OK;
        return ew_cli_finish(told ? EW_EXIT_OK : ew_cli_fail(&error));
    }
    if (ew_is_head(positionals[0])) {
        bool told = ew_inspect_head(positionals[0], as_json, &error) == EW_OK;
        return ew_cli_finish(told ? EW_EXIT_OK : ew_cli_fail(&error));
    }
    if (base) {
        return ew_usage_error(&command, "--base goes with an adapter, which %s is not", positionals[0]);
    }
    ew_status status = open_subject(positionals[0], &s, check, &error);
    if (status == EW_OK) {
        s.context = context > 0 ? context : ew_checkpoint_config(s.checkpoint)->context_length;
        if (as_json) {
            status = print_json(&s, &error);
        } else {
            print_config(&s);
            print_weights(&s);
            print_memory(&s);
        }
    }
    exit_code = status == EW_OK ? EW_EXIT_OK : ew_cli_fail(&error);
    close_subject(&s);
    return ew_cli_finish(exit_code);
}

#include "cli/inspect_adapter.h"
#include "cli/json_output.h"
#include "format/adapter.h"
#include "quant/edgewise_file.h"
#include "quant/layer_kind.h"

#include <stdio.h>
#include <string.h>

/* The adapters of one kind of layer. */
typedef struct kind_sum {
    size_t n_matrices, n_values, rank_least, rank_most;
    double scale_least, scale_most;
    const char *type; /* of A of the first; NULL where they differ */
} kind_sum;

typedef struct subject {
    ew_adapter_file *file;
    const ew_lora *lora;
    kind_sum kinds[EW_LAYER_KINDS];
    kind_sum all;
    const char *base;
    bool other_weights;
} subject;

static void add_target(kind_sum *sum, const ew_lora *lora, const ew_lora_target *target) {
    const char *type = ew_dtype_name(target->a.values.type);
    double scale = ew_lora_scale(lora, target);
    bool first = sum->n_matrices++ == 0;
    sum->n_values += target->rank * (target->a.values.cols + target->b.values.rows);
    sum->rank_least = first || target->rank < sum->rank_least ? target->rank : sum->rank_least;
    sum->rank_most = target->rank > sum->rank_most ? target->rank : sum->rank_most;
    sum->scale_least = first || scale < sum->scale_least ? scale : sum->scale_least;
    sum->scale_most = scale > sum->scale_most ? scale : sum->scale_most;
    sum->type = first || (sum->type && strcmp(sum->type, type) == 0) ? type : NULL;
}

static void sum_up(subject *s) {
    for (size_t i = 0; i < s->lora->n_targets; i++) {
        const ew_lora_target *target = &s->lora->targets[i];
        add_target(&s->kinds[ew_layer_kind_of(target->name)], s->lora, target);
        add_target(&s->all, s->lora, target);
    }
}

static ew_status match_base(subject *s, const ew_checkpoint *checkpoint, ew_error *error) {
    ew_edgewise_file own = {0};
    ew_status status = EW_OK;
    bool known = ew_checkpoint_kind(checkpoint) == EW_CHECKPOINT_EDGEWISE;
    if (known) {
        status = ew_edgewise_file_read(checkpoint, &own, error);
    }
    if (status == EW_OK && known) {
        status =
            ew_adapter_match_base(s->file, own.source_fingerprint, own.weights_fingerprint, &s->other_weights, error);
    }
    ew_edgewise_file_free(&own);
    return status;
}

static ew_status open_subject(const char *path, const char *base, subject *s, ew_error *error) {
    ew_checkpoint *checkpoint = NULL;
    ew_status status = base ? ew_checkpoint_open(base, &checkpoint, error) : EW_OK;
    if (status == EW_OK) {
        status = ew_adapter_open(path, checkpoint ? ew_checkpoint_config(checkpoint) : NULL, &s->file, error);
    }
    if (status == EW_OK) {
        s->lora = ew_adapter_file_content(s->file);
        s->base = base;
        sum_up(s);
        status = checkpoint ? match_base(s, checkpoint, error) : EW_OK;
    }
    ew_checkpoint_close(checkpoint);
    return status;
}

static const char *source_name(const subject *s) {
    return ew_adapter_file_kind(s->file) == EW_ADAPTER_PEFT ? "PEFT folder" : "LoRA GGUF file";
}

/* ---- text ---- */

/* "4", or "2-6" where they differ. */
static const char *range_text(double least, double most, char text[48]) {
    int length = snprintf(text, 48, "%.4g", least);
    if (least < most) {
        snprintf(text + length, 48 - (size_t)length, "-%.4g", most);
    }
    return text;
}

static void print_sum(const char *name, const kind_sum *sum) {
    char ranks[48], scales[48];
    if (sum->n_matrices > 0) {
        printf("%-10s %8zu %12zu %8s %12s  %s\n", name, sum->n_matrices, sum->n_values,
               range_text((double)sum->rank_least, (double)sum->rank_most, ranks),
               range_text(sum->scale_least, sum->scale_most, scales), sum->type ? sum->type : "several");
    }
}

static void print_text(const subject *s) {
    const ew_lora *lora = s->lora;
    printf("%s: LoRA adapter, %s\n\n", ew_adapter_file_path(s->file), source_name(s));
    printf("name           %s\n", lora->name ? lora->name : "none");
    printf("scale          alpha / %s\n", lora->rslora ? "sqrt(rank)" : "rank");
    printf("begins at     ");
    for (size_t i = 0; i < lora->n_invocation_tokens; i++) {
        printf(" %d", (int)lora->invocation_tokens[i]);
    }
    printf("%s\n", lora->n_invocation_tokens == 0 ? " no invocation tokens are named" : "");
    printf("base           %s\n", lora->base_name ? lora->base_name : "not named");
    if (lora->source_fingerprint) {
        printf("source         %s\n", lora->source_fingerprint);
    }
    if (lora->weights_fingerprint) {
        printf("weights        %s\n", lora->weights_fingerprint);
    }
    printf("\n%-10s %8s %12s %8s %12s  %s\n", "layer", "matrices", "values", "rank", "scale", "type");
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        print_sum(ew_layer_kind_name((ew_layer_kind)kind), &s->kinds[kind]);
    }
    print_sum("all", &s->all);
    if (s->base) {
        printf("\nfits %s%s\n", s->base,
               s->other_weights ? ", though it was trained on other weights of it (another quantization)" : "");
    }
}

/* ---- JSON ---- */

static json_t *sum_json(const kind_sum *sum) {
    json_t *object = json_object();
    ew_json_put(&object, "matrices", json_integer((json_int_t)sum->n_matrices));
    ew_json_put(&object, "values", json_integer((json_int_t)sum->n_values));
    ew_json_put(&object, "rank_least", json_integer((json_int_t)sum->rank_least));
    ew_json_put(&object, "rank_most", json_integer((json_int_t)sum->rank_most));
    ew_json_put(&object, "scale_least", json_real(sum->scale_least));
    ew_json_put(&object, "scale_most", json_real(sum->scale_most));
    ew_json_put(&object, "type", sum->type ? json_string(sum->type) : json_null());
    return object;
}

static json_t *text_or_null(const char *text) {
    return text ? ew_json_repaired(text, strlen(text)) : json_null();
}

static ew_status print_json(const subject *s, ew_error *error) {
    const ew_lora *lora = s->lora;
    json_t *object = json_object(), *layers = json_object();
    for (int kind = 0; kind < EW_LAYER_KINDS; kind++) {
        if (s->kinds[kind].n_matrices > 0) {
            ew_json_put(&layers, ew_layer_kind_name((ew_layer_kind)kind), sum_json(&s->kinds[kind]));
        }
    }
    ew_json_put(&object, "path", text_or_null(ew_adapter_file_path(s->file)));
    ew_json_put(&object, "kind", json_string("LoRA adapter"));
    ew_json_put(&object, "format", json_string(source_name(s)));
    ew_json_put(&object, "name", text_or_null(lora->name));
    ew_json_put(&object, "rslora", json_boolean(lora->rslora));
    ew_json_put(&object, "invocation_tokens", ew_json_ids(lora->invocation_tokens, lora->n_invocation_tokens));
    ew_json_put(&object, "base_name", text_or_null(lora->base_name));
    ew_json_put(&object, "fingerprint_source", text_or_null(lora->source_fingerprint));
    ew_json_put(&object, "fingerprint_weights", text_or_null(lora->weights_fingerprint));
    ew_json_put(&object, "layers", layers);
    ew_json_put(&object, "all", sum_json(&s->all));
    ew_json_put(&object, "base", text_or_null(s->base));
    ew_json_put(&object, "other_weights", s->base ? json_boolean(s->other_weights) : json_null());
    return ew_json_print(object, error);
}

ew_status ew_inspect_adapter(const char *path, const char *base, bool as_json, ew_error *error) {
    subject s = {0};
    ew_status status = open_subject(path, base, &s, error);
    if (status == EW_OK && as_json) {
        status = print_json(&s, error);
    } else if (status == EW_OK) {
        print_text(&s);
    }
    ew_adapter_close(s.file);
    return status;
}

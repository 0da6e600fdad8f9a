#include "train/dataset_internal.h"

#include "base/file.h"
#include "base/memory.h"
#include "format/lines.h"

#include <stdlib.h>
#include <string.h>

const char *ew_drop_reason_name(ew_drop_reason reason) {
    static const char *const names[EW_DROP_REASONS] = {"no JSON object",
                                                       "of no known form",
                                                       "with an unknown role",
                                                       "without a reply to learn",
                                                       "with wrong ids or labels",
                                                       "with a text that is refused",
                                                       "too long"};
    return (size_t)reason < EW_DROP_REASONS ? names[reason] : "unknown";
}

ew_status ew_dataset_append(ew_dataset *dataset, size_t line, const int32_t *ids, const float *weights, size_t length,
                            size_t prompt_length, ew_error *error) {
    size_t total = 0, begin = dataset->n_tokens;
    if (!ew_add_size(begin, length, &total) ||
        !ew_grow((void **)&dataset->ids, &dataset->id_capacity, total, sizeof *dataset->ids) ||
        !ew_grow((void **)&dataset->weights, &dataset->weight_capacity, total, sizeof *dataset->weights) ||
        !ew_grow((void **)&dataset->examples, &dataset->example_capacity, dataset->n_examples + 1,
                 sizeof *dataset->examples)) {
        return ew_fail_memory(error, length * (sizeof *dataset->ids + sizeof *dataset->weights), "an example");
    }
    ew_example example = {.length = length, .prompt_length = prompt_length, .line = line};
    memcpy(dataset->ids + begin, ids, length * sizeof *ids);
    for (size_t t = 0; t < length; t++) {
        float weight = t == 0 ? 0.0f : weights ? weights[t] : 1.0f;
        dataset->weights[begin + t] = weight;
        example.n_targets += weight == 1.0f;
        example.total_weight += (double)weight;
    }
    dataset->n_tokens = total;
    dataset->n_targets += example.n_targets;
    dataset->examples[dataset->n_examples++] = example;
    return EW_OK;
}

/* The memory moves no more: examples get their places in it. */
static void settle(ew_dataset *dataset) {
    size_t begin = 0;
    for (size_t i = 0; i < dataset->n_examples; i++) {
        dataset->examples[i].ids = dataset->ids + begin;
        dataset->examples[i].weights = dataset->weights + begin;
        begin += dataset->examples[i].length;
    }
}

static void note_drop(ew_dataset *dataset, ew_drop_reason reason, size_t line, const ew_error *why) {
    ew_drops *drops = &dataset->drops[reason];
    if (drops->count == 0) {
        drops->first = *why;
    }
    if (drops->count < EW_DROPS_SHOWN) {
        drops->lines[drops->count] = line;
    }
    drops->count++;
    dataset->n_dropped++;
}

static ew_status fail_empty(const ew_dataset *dataset, const char *name, ew_error *error) {
    const ew_drops *most = &dataset->drops[0];
    size_t reason = 0;
    for (size_t i = 1; i < EW_DROP_REASONS; i++) {
        if (dataset->drops[i].count > most->count) {
            most = &dataset->drops[i];
            reason = i;
        }
    }
    if (dataset->n_dropped == 0) {
        return ew_fail(error, EW_ERROR_FORMAT, "%s: there is no line in it", name);
    }
    return ew_fail(error, EW_ERROR_FORMAT, "%s: none of its lines makes an example; %zu of %zu are %s, the first: %s",
                   name, most->count, dataset->n_dropped, ew_drop_reason_name((ew_drop_reason)reason),
                   most->first.message);
}

ew_status ew_dataset_read_text(ew_string text, const char *name, const ew_dataset_options *options, ew_dataset *out,
                               ew_error *error) {
    ew_string line;
    ew_status status = EW_OK;
    *out = (ew_dataset){0};
    while (status == EW_OK && ew_next_line(&text, &line, &out->n_lines)) {
        ew_drop_reason reason = EW_DROP_FORM;
        ew_error why = {0};
        status = ew_dataset_line(out, options, line, out->n_lines, &reason, &why);
        if (status == EW_ERROR_FORMAT) {
            note_drop(out, reason, out->n_lines, &why);
            status = EW_OK;
        } else if (status != EW_OK && error) {
            *error = why;
        }
    }
    if (status == EW_OK && out->n_examples == 0) {
        status = fail_empty(out, name, error);
    }
    if (status != EW_OK) {
        ew_dataset_free(out);
        return status;
    }
    settle(out);
    return EW_OK;
}

ew_status ew_dataset_read(const char *path, const ew_dataset_options *options, ew_dataset *out, ew_error *error) {
    ew_mapping mapping;
    *out = (ew_dataset){0};
    ew_status status = ew_map_file(path, &mapping, error);
    if (status == EW_OK) {
        const char *data = mapping.data ? (const char *)mapping.data : "";
        status = ew_dataset_read_text((ew_string){data, mapping.size}, path, options, out, error);
        ew_unmap(&mapping);
    }
    return status;
}

void ew_dataset_free(ew_dataset *dataset) {
    free(dataset->examples);
    free(dataset->ids);
    free(dataset->weights);
    *dataset = (ew_dataset){0};
}

void ew_dataset_describe_drops(const ew_dataset *dataset, ew_buffer *text) {
    const char *before = ": ";
    if (dataset->n_dropped == 0) {
        return;
    }
    ew_buffer_append_format(text, "%zu of %zu lines dropped", dataset->n_dropped, dataset->n_lines);
    for (size_t i = 0; i < EW_DROP_REASONS; i++) {
        const ew_drops *drops = &dataset->drops[i];
        if (drops->count == 0) {
            continue;
        }
        ew_buffer_append_format(text, "%s%zu %s (line%s", before, drops->count, ew_drop_reason_name((ew_drop_reason)i),
                                drops->count > 1 ? "s" : "");
        for (size_t k = 0; k < drops->count && k < EW_DROPS_SHOWN; k++) {
            ew_buffer_append_format(text, "%s %zu", k > 0 ? "," : "", drops->lines[k]);
        }
        ew_buffer_append_text(text, drops->count > EW_DROPS_SHOWN ? ", ...)" : ")");
        before = ", ";
    }
}

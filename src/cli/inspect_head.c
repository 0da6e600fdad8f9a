#include "cli/inspect_head.h"

#include <stdio.h>
#include <string.h>

bool ew_is_head(const char *path) {
    ew_gguf *gguf = NULL;
    if (ew_gguf_open(path, &gguf, NULL) != EW_OK) {
        return false;
    }
    bool head = ew_gguf_find(gguf, "edgewise.head.version") != NULL;
    ew_gguf_close(gguf);
    return head;
}

static void print_head(const char *path, const ew_head *head) {
    bool switcher = head->kind == EW_HEAD_SWITCHER;
    printf("%s: %s\n\n", path, switcher ? "switcher" : "verifier");
    printf("states         %zu numbers\n", head->d_model);
    if (switcher) {
        printf("form           Linear(%zu -> %zu), ReLU, Linear(%zu -> 1)\n", head->d_model, head->n_hidden,
               head->n_hidden);
        printf("pooling        chunks of %zu, the newest counts %g\n", head->chunk, head->mix);
        printf("threshold      %g\n", head->threshold);
    } else {
        printf("form           Linear(%zu -> 1), INT8\n", head->d_model);
        printf("prompt         %s\n", head->text);
    }
    printf("calibration    sigmoid(%.6g * logit %+.6g)\n", head->calibration_scale, head->calibration_offset);
    printf("weights        %s\n",
           head->weights_fingerprint[0] ? head->weights_fingerprint : "of a model without a fingerprint");
    printf("adapter        %s\n", head->adapter_fingerprint[0] ? head->adapter_fingerprint : "none");
}

static json_t *text_or_null(const char *text) {
    return text && text[0] ? json_string(text) : json_null();
}

static ew_status print_head_json(const char *path, const ew_head *head, ew_error *error) {
    bool switcher = head->kind == EW_HEAD_SWITCHER;
    json_t *object = json_object();
    ew_json_put(&object, "path", ew_json_repaired(path, strlen(path)));
    ew_json_put(&object, "kind", json_string(switcher ? "switcher" : "verifier"));
    ew_json_put(&object, "d_model", json_integer((json_int_t)head->d_model));
    if (switcher) {
        ew_json_put(&object, "n_hidden", json_integer((json_int_t)head->n_hidden));
        ew_json_put(&object, "chunk", json_integer((json_int_t)head->chunk));
        ew_json_put(&object, "mix", json_real(head->mix));
        ew_json_put(&object, "threshold", json_real(head->threshold));
    } else {
        ew_json_put(&object, "text", json_string(head->text));
    }
    ew_json_put(&object, "calibration_scale", json_real(head->calibration_scale));
    ew_json_put(&object, "calibration_offset", json_real(head->calibration_offset));
    ew_json_put(&object, "weights", text_or_null(head->weights_fingerprint));
    ew_json_put(&object, "adapter", text_or_null(head->adapter_fingerprint));
    return ew_json_print(object, error);
}

ew_status ew_inspect_head(const char *path, bool as_json, ew_error *error) {
    ew_head head = {0};
    ew_status status = ew_head_open(path, &head, error);
    if (status == EW_OK && as_json) {
        status = print_head_json(path, &head, error);
    } else if (status == EW_OK) {
        print_head(path, &head);
    }
    ew_head_free(&head);
    return status;
}

/* ---- Bundles ---- */

void ew_print_bundle(const ew_gguf *gguf) {
    const char *before = "bundle         ";
    ew_string policy = {"", 0};
    bool found = false;
    for (size_t i = 0; gguf && i < ew_gguf_tensor_count(gguf); i++) {
        const char *name = ew_bundle_name_at(gguf, i);
        if (name) {
            printf("%s%s (%zu bytes)\n", before, name, ew_gguf_tensor_at(gguf, i)->bytes);
            before = "               ";
        }
    }
    if (gguf && ew_gguf_get_string(gguf, EW_BUNDLE_POLICY, &found, &policy, NULL) == EW_OK && found) {
        printf("policy         %.*s\n", (int)policy.length, policy.data);
    }
}

json_t *ew_bundle_json(const ew_gguf *gguf) {
    json_t *parts = json_object(), *bundle = json_object();
    ew_string policy = {"", 0};
    bool found = false, any = false;
    for (size_t i = 0; gguf && i < ew_gguf_tensor_count(gguf); i++) {
        const char *name = ew_bundle_name_at(gguf, i);
        if (name) {
            ew_json_put(&parts, name, json_integer((json_int_t)ew_gguf_tensor_at(gguf, i)->bytes));
            any = true;
        }
    }
    if (gguf && ew_gguf_get_string(gguf, EW_BUNDLE_POLICY, &found, &policy, NULL) == EW_OK && found) {
        ew_json_put(&bundle, "policy", ew_json_repaired(policy.data, policy.length));
        any = true;
    }
    ew_json_put(&bundle, "parts", parts);
    if (!any) {
        json_decref(bundle);
        return json_null();
    }
    return bundle;
}

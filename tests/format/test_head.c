/* Heads as files: what is written is read again; what is wrong is refused. */
#include "files.h"

#include "format/head.h"

static const char fingerprint[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static void fill(float *values, size_t n, float first) {
    for (size_t i = 0; i < n; i++) {
        values[i] = first + (float)i;
    }
}

static void make_head(ew_head_kind kind, ew_head *head) {
    EW_ASSERT_OK(ew_head_allocate(kind, 6, kind == EW_HEAD_SWITCHER ? 3 : 0, head, error));
    fill(head->mean, 6, -2.0f);
    fill(head->inverse_std, 6, 0.5f);
    head->output_bias = 0.25;
    head->calibration_scale = 1.5;
    head->calibration_offset = -0.125;
    snprintf(head->weights_fingerprint, 65, "%s", fingerprint);
    if (kind == EW_HEAD_SWITCHER) {
        fill(head->hidden_weight, 18, 1.0f);
        fill(head->hidden_bias, 3, 2.0f);
        fill(head->output_weight, 3, 3.0f);
        head->threshold = 0.375;
        head->chunk = 64;
        head->mix = 0.25;
    } else {
        for (int i = 0; i < 6; i++) {
            head->codes[i] = (int8_t)(i * 50 - 127);
        }
        head->code_scale = 0.01;
        head->text = strdup("Is this right?");
        snprintf(head->adapter_fingerprint, 65, "%s", fingerprint);
    }
}

static void temporary(char path[64]) {
    snprintf(path, 64, "/tmp/edgewise-head-XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    fclose(fdopen(file, "w"));
}

static void test_round_trip(void **state) {
    (void)state;
    char path[64], again[64];
    temporary(path);
    temporary(again);
    for (ew_head_kind kind = EW_HEAD_SWITCHER; kind <= EW_HEAD_VERIFIER; kind++) {
        ew_head head, read;
        make_head(kind, &head);
        EW_ASSERT_OK(ew_head_write(path, &head, error));
        EW_ASSERT_OK(ew_head_open(path, &read, error));
        assert_int_equal(read.kind, kind);
        assert_true(read.calibration_scale == 1.5 && read.calibration_offset == -0.125 && read.output_bias == 0.25);
        assert_string_equal(read.weights_fingerprint, fingerprint);
        if (kind == EW_HEAD_SWITCHER) {
            assert_true(read.threshold == 0.375 && read.mix == 0.25 && read.chunk == 64 && read.n_hidden == 3);
            assert_memory_equal(read.hidden_weight, head.hidden_weight, 18 * sizeof(float));
        } else {
            assert_string_equal(read.text, "Is this right?");
            assert_memory_equal(read.codes, head.codes, 6);
        }
        EW_ASSERT_OK(ew_head_write(again, &read, error));
        assert_same_files(path, again);
        ew_head_free(&head);
        ew_head_free(&read);
    }
    remove(path);
    remove(again);
}

/* Writes a head after `spoil`, and expects that opening it fails with these words. */
static void refuse(ew_head_kind kind, void (*spoil)(ew_head *), ew_status status, const char *words) {
    char path[64];
    ew_head head, read;
    ew_error error = {0};
    temporary(path);
    make_head(kind, &head);
    spoil(&head);
    EW_ASSERT_OK(ew_head_write(path, &head, error));
    assert_int_equal(ew_head_open(path, &read, &error), status);
    if (!strstr(error.message, words)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
    }
    ew_head_free(&head);
    remove(path);
}

static void spoil_nan(ew_head *head) {
    head->hidden_weight[7] = 0.0f / 0.0f;
}
static void spoil_std(ew_head *head) {
    head->inverse_std[1] = -1.0f;
}
static void spoil_threshold(ew_head *head) {
    head->threshold = 1.5;
}
static void spoil_scale(ew_head *head) {
    head->code_scale = -1.0;
}
static void spoil_fingerprint(ew_head *head) {
    head->weights_fingerprint[63] = 'X';
}
static void spoil_short(ew_head *head) {
    head->adapter_fingerprint[12] = '\0';
}
static void spoil_text(ew_head *head) {
    head->text[0] = (char)0xff;
}
static void spoil_no_text(ew_head *head) {
    head->text[0] = '\0';
}
static void spoil_chunk(ew_head *head) {
    head->chunk = 0;
}

static void test_refusals(void **state) {
    (void)state;
    refuse(EW_HEAD_SWITCHER, spoil_nan, EW_ERROR_NUMERIC, "head.hidden.weight has the value");
    refuse(EW_HEAD_SWITCHER, spoil_std, EW_ERROR_NUMERIC, "head.inverse_std");
    refuse(EW_HEAD_SWITCHER, spoil_threshold, EW_ERROR_NUMERIC, "threshold is 1.5");
    refuse(EW_HEAD_SWITCHER, spoil_chunk, EW_ERROR_FORMAT, "chunk is 0");
    refuse(EW_HEAD_VERIFIER, spoil_scale, EW_ERROR_NUMERIC, "code_scale");
    refuse(EW_HEAD_VERIFIER, spoil_fingerprint, EW_ERROR_FORMAT, "64 hexadecimal");
    refuse(EW_HEAD_VERIFIER, spoil_short, EW_ERROR_FORMAT, "64 hexadecimal");
    refuse(EW_HEAD_VERIFIER, spoil_text, EW_ERROR_FORMAT, "UTF-8");
    refuse(EW_HEAD_VERIFIER, spoil_no_text, EW_ERROR_FORMAT, "1 to");
    char path[512];
    ew_head head;
    ew_error error;
    if (ew_test_shared("goldens/models/qwen2-tiny.gguf", path, sizeof path)) {
        assert_int_equal(ew_head_open(path, &head, &error), EW_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "is no head"));
    }
    assert_int_equal(ew_head_allocate(EW_HEAD_SWITCHER, 8, 0, &head, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_head_allocate(EW_HEAD_VERIFIER, 0, 0, &head, &error), EW_ERROR_ARGUMENT);
}

/* Every prefix of a file, and files with a byte changed: an answer, never an access outside. */
static void test_damaged(void **state) {
    (void)state;
    char path[64], other[64];
    char *bytes = NULL;
    size_t length = 0;
    ew_head head;
    temporary(path);
    temporary(other);
    make_head(EW_HEAD_VERIFIER, &head);
    EW_ASSERT_OK(ew_head_write(path, &head, error));
    ew_head_free(&head);
    EW_ASSERT_OK(ew_read_file(path, 1 << 20, &bytes, &length, error));
    size_t refused = 0, tried = 0;
    for (size_t at = 0; at < length; at += 3, tried++) {
        ew_error error;
        bytes[at] ^= 0x55;
        FILE *out = fopen(other, "wb");
        assert_int_equal(fwrite(bytes, 1, at % 2 ? at : length, out), at % 2 ? at : length);
        fclose(out);
        bytes[at] ^= 0x55;
        if (ew_head_open(other, &head, &error) == EW_OK) {
            ew_head_free(&head);
        } else {
            refused++;
        }
    }
    assert_true(refused > tried / 2);
    free(bytes);
    remove(path);
    remove(other);
}

static void test_match(void **state) {
    (void)state;
    ew_head head;
    ew_error error;
    make_head(EW_HEAD_VERIFIER, &head);
    EW_ASSERT_OK(ew_head_match(&head, 6, fingerprint, fingerprint, error));
    assert_int_equal(ew_head_match(&head, 7, fingerprint, fingerprint, &error), EW_ERROR_ARGUMENT);
    assert_int_equal(ew_head_match(&head, 6, NULL, fingerprint, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "weights"));
    assert_int_equal(ew_head_match(&head, 6, fingerprint, NULL, &error), EW_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "adapter"));
    ew_head_free(&head);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_damaged), cmocka_unit_test(test_match)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

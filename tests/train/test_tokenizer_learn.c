/* A learned tokenizer: the merges of a plain count, whatever the order of the texts, in files that open again. */
#include "status.h"

#include "base/random.h"
#include "text/chat_template.h"
#include "train/tokenizer_learn.h"

/* ---- A plain count: everything is counted anew before each merge ---- */

typedef struct plain {
    int32_t symbols[64][64];
    size_t lengths[64], counts[64], n;
    uint8_t bytes[400][64]; /* of tokens */
    size_t token_lengths[400], n_tokens;
} plain;

static int64_t plain_pair(const plain *p, int32_t left, int32_t right) {
    int64_t count = 0;
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 1; k < p->lengths[i]; k++) {
            count += p->symbols[i][k - 1] == left && p->symbols[i][k] == right ? (int64_t)p->counts[i] : 0;
        }
    }
    return count;
}

static int32_t plain_join(plain *p, int32_t left, int32_t right) {
    size_t n = p->token_lengths[left] + p->token_lengths[right];
    uint8_t *bytes = p->bytes[p->n_tokens];
    memcpy(bytes, p->bytes[left], p->token_lengths[left]);
    memcpy(bytes + p->token_lengths[left], p->bytes[right], p->token_lengths[right]);
    for (size_t id = 0; id < p->n_tokens; id++) {
        if (p->token_lengths[id] == n && memcmp(p->bytes[id], bytes, n) == 0) {
            return (int32_t)id;
        }
    }
    p->token_lengths[p->n_tokens] = n;
    return (int32_t)p->n_tokens++;
}

static bool plain_merge(plain *p, ew_learned_merge *merge) {
    int64_t best = 1;
    int32_t n = (int32_t)p->n_tokens;
    for (int32_t left = 0; left < n; left++) {
        for (int32_t right = 0; right < n; right++) {
            int64_t count = plain_pair(p, left, right);
            if (count > best) {
                best = count;
                *merge = (ew_learned_merge){left, right, 0};
            }
        }
    }
    if (best < 2) {
        return false;
    }
    merge->result = plain_join(p, merge->left, merge->right);
    for (size_t i = 0; i < p->n; i++) {
        size_t length = 0;
        for (size_t k = 0; k < p->lengths[i]; k++) {
            bool merges =
                k + 1 < p->lengths[i] && p->symbols[i][k] == merge->left && p->symbols[i][k + 1] == merge->right;
            p->symbols[i][length++] = merges ? merge->result : p->symbols[i][k];
            k += merges;
        }
        p->lengths[i] = length;
    }
    return true;
}

/* Pieces of few letters, in which pairs overlap, tie, and make the same bytes in two ways. The plain count knows only
 * ids below 30, so that its loops stay short: letters a .. d are moved to 0 .. 3. */
static void compare_with_plain(uint64_t seed) {
    static plain p;
    ew_bpe_learner learner;
    memset(&p, 0, sizeof p);
    EW_ASSERT_OK(ew_bpe_learner_open(&learner, error));
    int32_t first = learner.byte_ids['a'];
    for (int32_t id = 0; id < 4; id++) {
        assert_int_equal(learner.byte_ids['a' + id], first + id);
        p.bytes[id][0] = (uint8_t)('a' + id);
        p.token_lengths[id] = 1;
    }
    p.n_tokens = 4;
    for (; p.n < 12; p.n++) {
        uint8_t bytes[16];
        p.lengths[p.n] = 1 + (size_t)(ew_random_bits(seed, p.n, 0) % 15);
        p.counts[p.n] = 1 + (size_t)(ew_random_bits(seed, p.n, 1) % 3);
        for (size_t k = 0; k < p.lengths[p.n]; k++) {
            p.symbols[p.n][k] = (int32_t)(ew_random_bits(seed, p.n, 2 + k) % (2 + seed % 3));
            bytes[k] = (uint8_t)('a' + p.symbols[p.n][k]);
        }
        for (size_t c = 0; c < p.counts[p.n]; c++) {
            EW_ASSERT_OK(ew_bpe_count(&learner, bytes, p.lengths[p.n], error));
        }
    }
    EW_ASSERT_OK(ew_bpe_learn(&learner, 256 + 20, 2, error));
    size_t n = 0;
    ew_learned_merge merge = {0};
    while (p.n_tokens < 4 + 20 && plain_merge(&p, &merge)) {
        assert_true(n < learner.n_merges);
        int32_t shift[] = {merge.left, merge.right, merge.result};
        for (size_t i = 0; i < 3; i++) {
            shift[i] += shift[i] < 4 ? first : 256 - 4;
        }
        assert_int_equal(learner.merges[n].left, shift[0]);
        assert_int_equal(learner.merges[n].right, shift[1]);
        assert_int_equal(learner.merges[n].result, shift[2]);
        n++;
    }
    assert_int_equal(n, learner.n_merges);
    ew_bpe_learner_free(&learner);
}

static void test_merges(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        compare_with_plain(seed);
    }
}

/* ---- Files ---- */

static const char *const added[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"};
static const char first_text[] =
    "Ann has 12 pens. She gets 125 pens more.\n<think>12+125=137</think>\nAnn has 137 pens.\n";
static const char second_text[] = "Bob has 12 eggs; he gives 4 eggs to Ann. \xff\xfe Caf\xc3\xa9!\n\n";

static void learn(const char *a, const char *b, size_t vocab_size, ew_buffer *json, ew_buffer *config) {
    ew_tokenizer_learner learner;
    const ew_learn_options options = {.vocab_size = vocab_size, .added = added, .n_added = 5};
    EW_ASSERT_OK(ew_tokenizer_learner_open(&options, &learner, error));
    EW_ASSERT_OK(ew_tokenizer_learner_add(&learner, (ew_string){a, strlen(a)}, error));
    EW_ASSERT_OK(ew_tokenizer_learner_add(&learner, (ew_string){b, strlen(b)}, error));
    EW_ASSERT_OK(ew_tokenizer_learner_finish(&learner, json, config, error));
    ew_tokenizer_learner_close(&learner);
}

static void test_files(void **state) {
    (void)state;
    ew_buffer json = {0}, config = {0}, again = {0}, decoded = {0};
    ew_tokenizer *tokenizer = NULL;
    ew_tokens tokens = {0};
    ew_chat_template chat = {0};
    char every[256];
    learn(first_text, second_text, 275, &json, &config);
    EW_ASSERT_OK(
        ew_tokenizer_from_json(json.data, json.length, config.data, config.length, "learned", &tokenizer, error));
    assert_int_equal(ew_tokenizer_vocab_size(tokenizer), 275);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(ew_tokenizer_find(tokenizer, added[i]), 270 + i);
        assert_int_equal(ew_tokenizer_is_special(tokenizer, 270 + (int32_t)i), i < 3);
    }
    assert_int_equal(ew_tokenizer_eos(tokenizer), 272);
    EW_ASSERT_OK(ew_chat_template_open(tokenizer, NULL, &chat, error));
    assert_string_equal(chat.name, "chatml");

    for (int i = 0; i < 256; i++) {
        every[i] = (char)i;
    }
    EW_ASSERT_OK(ew_tokenizer_encode(tokenizer, every, sizeof every, EW_ENCODE_TEXT, &tokens, error));
    EW_ASSERT_OK(ew_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, &decoded, error));
    assert_int_equal(decoded.length, sizeof every);
    assert_memory_equal(decoded.data, every, sizeof every);

    tokens.count = 0;
    EW_ASSERT_OK(ew_tokenizer_encode(tokenizer, " 125", 4, EW_ENCODE_TEXT, &tokens, error));
    assert_int_equal(tokens.count, 4);

    learn(second_text, first_text, 275, &again, &decoded);
    assert_string_equal(again.data, json.data); /* a function of the counts */
    ew_tokens_free(&tokens);
    ew_chat_template_free(&chat);
    ew_tokenizer_close(tokenizer);
    ew_buffer_free(&json);
    ew_buffer_free(&config);
    ew_buffer_free(&again);
    ew_buffer_free(&decoded);
}

/* Strings of JSONL count where they are text, and fewer tokens come out when there is nothing left to merge. */
static void test_lines(void **state) {
    (void)state;
    char path[] = "/tmp/edgewise-learn-XXXXXX.jsonl";
    int file = mkstemps(path, 6);
    assert_true(file >= 0);
    FILE *out = fdopen(file, "w");
    fputs("{\"id\": \"zzzz zzzz\", \"problem\": \"abab\", \"choices\": [\"abab\"]}\n\n"
          "{\"messages\": [{\"role\": \"zzzz\", \"content\": \"abab\"}]}\n",
          out);
    fclose(out);
    ew_tokenizer_learner learner;
    ew_buffer json = {0}, config = {0};
    const ew_learn_options options = {.vocab_size = 1000};
    EW_ASSERT_OK(ew_tokenizer_learner_open(&options, &learner, error));
    EW_ASSERT_OK(ew_tokenizer_learner_add_file(&learner, path, error));
    assert_int_equal(learner.learner.n_counted, 3);
    EW_ASSERT_OK(ew_tokenizer_learner_finish(&learner, &json, &config, error));
    assert_int_equal(learner.learner.n_merges, 2); /* ab, abab */
    assert_null(strstr(config.data, "chat_template"));
    ew_tokenizer_learner_close(&learner);
    ew_buffer_free(&json);
    ew_buffer_free(&config);

    ew_error error;
    out = fopen(path, "w");
    fputs("{}\n{\"a\": \n", out);
    fclose(out);
    EW_ASSERT_OK(ew_tokenizer_learner_open(&options, &learner, error));
    assert_int_equal(ew_tokenizer_learner_add_file(&learner, path, &error), EW_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "line 2"));
    assert_int_equal(ew_tokenizer_learner_finish(&learner, &json, &config, &error), EW_ERROR_ARGUMENT);
    ew_tokenizer_learner_close(&learner);
    remove(path);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const twice[] = {"<a>", "<a>"}, *const broken[] = {"\xff"}, *const empty[] = {""};
    const ew_learn_options refused[] = {{.vocab_size = 255},
                                        {.vocab_size = 256, .added = added, .n_added = 1},
                                        {.vocab_size = (size_t)EW_LEARN_MAX_VOCAB + 1},
                                        {.vocab_size = 300, .added = twice, .n_added = 2},
                                        {.vocab_size = 300, .added = broken, .n_added = 1},
                                        {.vocab_size = 300, .added = empty, .n_added = 1}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ew_tokenizer_learner learner;
        ew_error error;
        assert_int_equal(ew_tokenizer_learner_open(&refused[i], &learner, &error), EW_ERROR_ARGUMENT);
        ew_tokenizer_learner_close(&learner);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_merges), cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_lines), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

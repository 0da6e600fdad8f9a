/* Lines of every form become examples, wrong ones are dropped and counted. */
#include "status.h"

#include "dataset_support.h"
#include "train/dataset.h"

typedef struct fixture {
    ew_tokenizer *tokenizer;
    ew_chat_template chat;
    ew_dataset_options options;
} fixture;

static void open_fixture(fixture *f) {
    EW_ASSERT_OK(open_ascii(&f->tokenizer, &f->chat, error));
    f->options =
        (ew_dataset_options){.tokenizer = f->tokenizer, .chat = &f->chat, .vocab_size = ASCII_VOCAB, .max_tokens = 200};
}

static void close_fixture(fixture *f) {
    ew_chat_template_free(&f->chat);
    ew_tokenizer_close(f->tokenizer);
}

static void read_lines(const fixture *f, const char *lines, ew_dataset *set) {
    EW_ASSERT_OK(ew_dataset_read_text((ew_string){lines, strlen(lines)}, "test", &f->options, set, error));
}

/* An example as text: what is no target in lower brackets, targets plain, '^' where the adapter begins. */
static void assert_example(const fixture *f, const ew_example *example, const char *expected) {
    ew_buffer text = {0};
    bool target = true;
    size_t n_targets = 0;
    for (size_t t = 0; t < example->length; t++) {
        bool now = example->weights[t] == 1.0f;
        if (now != target) {
            ew_buffer_append_text(&text, now ? "]" : "[");
        }
        target = now;
        n_targets += now;
        if (t == example->prompt_length) {
            ew_buffer_append_text(&text, "^");
        }
        EW_ASSERT_OK(ew_tokenizer_decode(f->tokenizer, example->ids + t, 1, false, &text, error));
    }
    assert_string_equal(text.data, expected);
    assert_int_equal(n_targets, example->n_targets);
    ew_buffer_free(&text);
}

#define HEADER "<|im_start|>assistant\n"
#define USER(text) "<|im_start|>user\n" text "<|im_end|>\n"

static void test_forms(void **state) {
    (void)state;
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \" a \"}]}",
         "[" USER("q") "^" HEADER "]a<|im_end|>"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "
         "\"<think>t</think>a\"}], \"budget\": 50}",
         "[" USER("q") "^" HEADER "Budget: 50 tokens\n<think>\n]t\n</think>\n\na<|im_end|>"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", "
         "\"reasoning_content\": \"\\nt\\n\"}]}",
         "[" USER("q") "^" HEADER "<think>\n]t\n</think>\n\na<|im_end|>"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\", "
         "\"reasoning_content\": null, \"thinking\": \"t\"}, {\"role\": \"user\", \"content\": \"more\"}]}",
         "[" USER("q") "^" HEADER "<think>\n]t\n</think>\n\na<|im_end|>"},
        {"{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", \"value\": "
         "\"<think>x</think>a\"}, {\"from\": \"human\", \"value\": \"r\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}",
         "[" USER("q") HEADER "a<|im_end|>\n" USER("r") "^" HEADER "]b<|im_end|>"},
        {"{\"problem\": \"1+1\", \"solution\": \"It is 2.\", \"answer\": 2}",
         "[" USER("1+1") "^" HEADER "<think>\n]It is 2.\n</think>\n\n\\boxed{2}<|im_end|>"},
        {"{\"problem\": \"1+1\", \"choices\": [\"1\", \"2\"], \"answer\": \"B\"}",
         "[" USER("1+1\n\nA. 1\nB. 2") "^" HEADER "]\\boxed{B}<|im_end|>"},
        {"{\"input_ids\": [97, 98, 99, 100], \"labels\": [-100, -100, 99, 100]}", "[a^b]cd"},
        {"{\"input_ids\": [97, 98, 99, 100], \"labels\": [97, -100, -100, 100], \"prompt_length\": 1}", "[a^bc]d"},
        {"{\"input_ids\": [97, 98, 99], \"prompt_length\": 1}", "[a^b]c"},
        {"{\"input_ids\": [97, 98, 99]}", "[^a]bc"},
        {"{\"text\": \"ab\"}", "[^a]b<|endoftext|>"},
    };
    fixture f;
    open_fixture(&f);
    f.options.plain_text = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_dataset set;
        read_lines(&f, cases[i].line, &set);
        assert_int_equal(set.n_examples, 1);
        assert_example(&f, &set.examples[0], cases[i].expected);
        assert_int_equal(set.n_tokens, set.examples[0].length);
        ew_dataset_free(&set);
    }
    close_fixture(&f);
}

static void test_options(void **state) {
    (void)state;
    static const char turns[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "
        "\"<think>t</think>a\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}]}\n";
    static const char solved[] = "{\"problem\": \"1+1\", \"solution\": \"It is 2.\", \"answer\": \"2\"}";
    fixture f;
    ew_dataset set;
    open_fixture(&f);
    f.options.all_turns = true;
    read_lines(&f, turns, &set);
    assert_int_equal(set.n_examples, 2);
    assert_example(&f, &set.examples[0], "[" USER("q") "^" HEADER "<think>\n]t\n</think>\n\na<|im_end|>");
    assert_example(&f, &set.examples[1], "[" USER("q") HEADER "a<|im_end|>\n" USER("r") "^" HEADER "]b<|im_end|>");
    assert_int_equal(set.examples[0].line, set.examples[1].line);
    ew_dataset_free(&set);

    f.options.no_think = true;
    read_lines(&f, solved, &set);
    assert_example(&f, &set.examples[0], "[" USER("1+1") "^" HEADER "]It is 2.\n\n\\boxed{2}<|im_end|>");
    ew_dataset_free(&set);

    f.options.prompt_weight = 0.25f;
    read_lines(&f, solved, &set);
    const ew_example *example = &set.examples[0];
    assert_true(example->weights[0] == 0.0f && example->weights[1] == 0.25f);
    double rest = (double)(example->length - example->n_targets - 1) * 0.25;
    assert_true(example->total_weight == (double)example->n_targets + rest);
    ew_dataset_free(&set);
    close_fixture(&f);
}

static void test_drops(void **state) {
    (void)state;
    static const struct {
        const char *line;
        ew_drop_reason reason;
    } cases[] = {
        {"not json", EW_DROP_JSON},
        {"[1, 2]", EW_DROP_JSON},
        {"{\"problem\": \"\xff\", \"answer\": \"1\"}", EW_DROP_JSON},
        {"{\"a\": 1, \"a\": 2}", EW_DROP_JSON},
        {"{}", EW_DROP_FORM},
        {"{\"text\": \"plain text is not asked for\"}", EW_DROP_FORM},
        {"{\"messages\": \"x\"}", EW_DROP_FORM},
        {"{\"messages\": [\"x\"]}", EW_DROP_FORM},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}", EW_DROP_FORM},
        {"{\"problem\": \"x\"}", EW_DROP_FORM},
        {"{\"problem\": 1, \"answer\": \"x\"}", EW_DROP_FORM},
        {"{\"problem\": \"x\", \"answer\": [1]}", EW_DROP_FORM},
        {"{\"problem\": \"x\", \"answer\": \"1\", \"budget\": -1}", EW_DROP_FORM},
        {"{\"problem\": \"x\", \"answer\": \"1\", \"choices\": \"y\"}", EW_DROP_FORM},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}", EW_DROP_ROLE},
        {"{\"messages\": []}", EW_DROP_REPLY},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", EW_DROP_REPLY},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}", EW_DROP_REPLY},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\"}]}", EW_DROP_REPLY},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": "
         "\"<think>and so\"}]}",
         EW_DROP_REPLY},
        {"{\"input_ids\": []}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 135]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, -1]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2.0]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2], \"labels\": [1]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2], \"labels\": [1, 3]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2], \"labels\": [1, -100]}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2], \"prompt_length\": 2}", EW_DROP_IDS},
        {"{\"input_ids\": [1, 2], \"prompt_length\": 18446744073709551615}", EW_DROP_JSON},
        {"{\"input_ids\": [1, 2], \"prompt_length\": \"x\"}", EW_DROP_FORM},
        {"{\"problem\": "
         "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
         "4567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567\", "
         "\"answer\": "
         "\"1\"}",
         EW_DROP_LONG},
    };
    fixture f;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char lines[1024];
        ew_dataset set;
        snprintf(lines, sizeof lines, "\n%s\r\n{\"problem\": \"x\", \"answer\": \"1\"}\n", cases[i].line);
        read_lines(&f, lines, &set);
        if (set.drops[cases[i].reason].count != 1) {
            fail_msg("line \"%s\" was not dropped as %s", cases[i].line, ew_drop_reason_name(cases[i].reason));
        }
        assert_int_equal(set.n_dropped, 1);
        assert_int_equal(set.drops[cases[i].reason].lines[0], 2);
        assert_int_equal(set.n_examples, 1);
        assert_int_equal(set.examples[0].line, 3);
        assert_true(strncmp(set.drops[cases[i].reason].first.message, "line 2: ", 8) == 0);
        ew_dataset_free(&set);
    }
    f.options.chat = NULL; /* a model that cannot chat */
    ew_dataset set;
    read_lines(&f, "{\"problem\": \"x\", \"answer\": \"1\"}\n{\"input_ids\": [1, 2]}", &set);
    assert_int_equal(set.drops[EW_DROP_TEXT].count, 1);
    ew_dataset_free(&set);
    close_fixture(&f);
}

static void test_all_dropped(void **state) {
    (void)state;
    fixture f;
    ew_dataset set;
    ew_error error;
    ew_buffer text = {0};
    open_fixture(&f);
    static const char wrong[] = "{}\nx\n{}\n{\"input_ids\": [0, 1]}";
    assert_int_equal(ew_dataset_read_text((ew_string){wrong, 7}, "FILE", &f.options, &set, &error), EW_ERROR_FORMAT);
    assert_string_equal(
        error.message, "FILE: none of its lines makes an example; 2 of 3 are of no known form, the first: line 1: none "
                       "of input_ids, messages, conversations and problem is there");
    assert_int_equal(ew_dataset_read_text((ew_string){"\n \n", 3}, "FILE", &f.options, &set, &error), EW_ERROR_FORMAT);
    assert_string_equal(error.message, "FILE: there is no line in it");
    assert_int_equal(ew_dataset_read("/nowhere/at/all", &f.options, &set, &error), EW_ERROR_IO);
    read_lines(&f, wrong, &set);
    ew_dataset_describe_drops(&set, &text);
    assert_string_equal(text.data, "3 of 4 lines dropped: 1 no JSON object (line 2), 2 of no known form (lines 1, 3)");
    ew_buffer_free(&text);
    ew_dataset_free(&set);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_drops), cmocka_unit_test(test_all_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a reply is: its parts, its targets, and texts with tags in them. */
#include "text_support.h"

#include "text/reply_parts.h"

#define S(literal) ((ew_string){literal, sizeof(literal) - 1})

static void assert_string(ew_string string, const char *expected) {
    if (!ew_string_is(string, expected)) {
        fail_msg("got \"%.*s\", expected \"%s\"", (int)string.length, string.data, expected);
    }
}

static void test_split(void **state) {
    (void)state;
    static const struct {
        const char *text, *thinking, *answer;
        bool open;
    } cases[] = {
        {"<think>\nOne.\n</think>\n\nTwo.", "One.", "Two.", false},
        {"  <think>One.</think>Two. ", "One.", "Two.", false},
        {"One.\n</think>\n\nTwo.", "One.", "Two.", false}, /* the template wrote the opening tag */
        {"<think>a</think>b</think>c", "a", "b</think>c", false},
        {"<think>a<think>b</think>c", "a<think>b", "c", false},
        {"<think>\n\n</think>\n\nTwo.", "", "Two.", false},
        {"<think>\nstill going ", "still going", "", true},
        {"<think>", "", "", true},
        {"  plain \n", "", "plain", false},
        {"see <think>", "", "see <think>", false},
        {"</think>", "", "", false},
        {"", "", "", false},
        {"\xe2\x80\xa8 <think>\xc2\xa0x\xe3\x80\x80</think>\xc2\xa0y", "x", "y", false}, /* Unicode's white space */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ew_reply_content content;
        ew_reply_split((ew_string){cases[i].text, strlen(cases[i].text)}, &content);
        assert_string(content.thinking, cases[i].thinking);
        assert_string(content.answer, cases[i].answer);
        assert_int_equal(content.open, cases[i].open);
    }
    ew_reply_content content;
    ew_reply_split((ew_string){NULL, 0}, &content);
    assert_int_equal(content.answer.length + content.thinking.length, 0);
}

static void test_earlier_replies(void **state) {
    (void)state;
    assert_string(ew_reply_without_thinking(S("<think>\na\n</think>\n\nb ")), "b");
    assert_string(ew_reply_without_thinking(S(" b ")), " b "); /* nothing to take off: verbatim */
    assert_string(ew_reply_without_thinking(S("<think>a")), "");
    assert_string(ew_reply_without_thinking(S("</think>")), "");
    const ew_message messages[] = {{"user", "<think>u</think>q", 17}, {"assistant", "<think>t</think>r", 17}};
    ew_message copied[2];
    ew_messages_without_thinking(messages, 2, copied);
    assert_int_equal(copied[0].length, 17); /* what the user wrote stays */
    assert_int_equal(copied[1].length, 1);
    assert_int_equal(copied[1].content[0], 'r');
}

typedef struct fixture {
    ew_tokenizer *tokenizer;
    ew_chat_template chat;
} fixture;

static bool open_fixture(fixture *f, const char *folder, const char *template) {
    ew_error error = {0};
    f->tokenizer = open_folder(folder);
    if (!f->tokenizer) {
        return false;
    }
    assert_ok(ew_chat_template_open(f->tokenizer, template, &f->chat, &error), &error);
    return true;
}

static void close_fixture(fixture *f) {
    ew_chat_template_free(&f->chat);
    ew_tokenizer_close(f->tokenizer);
}

static void assert_part(const fixture *f, const ew_reply_tokens *reply, ew_reply_part part, const char *expected) {
    ew_buffer text = {0};
    ew_error error = {0};
    size_t begin = reply->begin[part], end = reply->begin[part + 1];
    assert_ok(ew_tokenizer_decode(f->tokenizer, reply->tokens.ids + begin, end - begin, false, &text, &error), &error);
    assert_string((ew_string){text.data ? text.data : "", text.length}, expected);
    ew_buffer_free(&text);
}

static void encode(const fixture *f, const ew_message *messages, size_t n, const ew_reply_content *content,
                   ew_reply_tokens *reply) {
    ew_error error = {0};
    assert_ok(ew_reply_encode(&f->chat, f->tokenizer, messages, n, content, reply, &error), &error);
}

/* The parts of a reply that thinks; ids of header and tags are those of goldens/alora. */
static void test_parts(void **state) {
    (void)state;
    fixture f;
    ew_reply_tokens reply = {0};
    if (!open_fixture(&f, "goldens/models/qwen2-tiny", NULL)) {
        skip();
    }
    const ew_message question = {"user", "What?", 5};
    ew_reply_content content = {.thinking = S("  ab\n"), .answer = S("\ncd<|im_end|> "), .budget = 1000};
    encode(&f, &question, 1, &content, &reply);
    static const char *const texts[] = {"<|im_start|>assistant\n", "Budget: 1000 tokens\n", "<think>\n", "ab",
                                        "\n</think>\n\n",          "cd<|im_end|>",          "<|im_end|>"};
    static const bool targets[] = {false, false, false, true, true, true, true};
    for (ew_reply_part part = 0; part < EW_REPLY_PARTS; part++) {
        assert_part(&f, &reply, part, texts[part]);
        assert_int_equal(reply.target[part], targets[part]);
    }
    static const int32_t header[] = {318, 280, 198}, open_tag[] = {299, 284}, close_tag[] = {198, 298, 282, 284, 198};
    const int32_t *ids = reply.tokens.ids;
    assert_memory_equal(ids + reply.begin[EW_PART_HEADER], header, sizeof header);
    assert_memory_equal(ids + reply.begin[EW_PART_THINK_OPEN], open_tag, sizeof open_tag);
    assert_memory_equal(ids + reply.begin[EW_PART_THINK_CLOSE], close_tag, sizeof close_tag);
    assert_int_equal(ids[reply.tokens.count - 1], 319);
    for (size_t i = reply.begin[EW_PART_ANSWER]; i < reply.begin[EW_PART_END]; i++) {
        assert_int_not_equal(ids[i], 319); /* what the reply says is text */
    }
    assert_int_equal(reply.begin[EW_REPLY_PARTS], reply.tokens.count);

    content.close_forced = true;
    encode(&f, &question, 1, &content, &reply);
    assert_false(reply.target[EW_PART_THINK_CLOSE]);
    assert_true(reply.target[EW_PART_ANSWER]);

    content.open = true; /* cut while thinking */
    encode(&f, &question, 1, &content, &reply);
    assert_int_equal(reply.begin[EW_PART_THINK_CLOSE], reply.tokens.count);

    content = (ew_reply_content){.thinking = S(" \n"), .answer = S("cd"), .budget = 7}; /* without thinking */
    encode(&f, &question, 1, &content, &reply);
    assert_part(&f, &reply, EW_PART_HEADER, "<|im_start|>assistant\n");
    assert_int_equal(reply.begin[EW_PART_BUDGET], reply.begin[EW_PART_ANSWER]);
    assert_part(&f, &reply, EW_PART_ANSWER, "cd");
    ew_reply_tokens_free(&reply);
    close_fixture(&f);
}

/* A conversation whose earlier reply thought has the same prompt as one whose earlier reply did not. */
static void test_prompt(void **state) {
    (void)state;
    fixture f;
    ew_tokens thought = {0}, plain = {0};
    size_t header = 0, same = 0;
    ew_error error = {0};
    if (!open_fixture(&f, "goldens/models/qwen2-tiny", NULL)) {
        skip();
    }
    ew_message messages[] = {{"user", "a", 1}, {"assistant", "<think>t</think>r", 17}, {"user", "b", 1}};
    assert_ok(ew_prompt_encode(&f.chat, f.tokenizer, messages, 3, true, &thought, &header, &error), &error);
    messages[1] = (ew_message){"assistant", "r", 1};
    assert_ok(ew_prompt_encode(&f.chat, f.tokenizer, messages, 3, true, &plain, &same, &error), &error);
    assert_int_equal(thought.count, plain.count);
    assert_memory_equal(thought.ids, plain.ids, plain.count * sizeof *plain.ids);
    assert_int_equal(header, same);
    assert_int_equal(header + 3, plain.count);
    ew_tokens_free(&thought);
    ew_tokens_free(&plain);
    close_fixture(&f);
}

/* What stands behind a candidate's end of turn is what the template writes there. */
static void test_verification(void **state) {
    (void)state;
    fixture f;
    ew_error error = {0};
    ew_tokens tokens = {0}, whole = {0};
    static const char *const templates[] = {"qwen2.5", "qwen3", "smollm2", "chatml"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        if (!open_fixture(&f, "goldens/models/qwen2-tiny", templates[i])) {
            skip();
        }
        tokens.count = whole.count = 0;
        const ew_message messages[] = {{"user", "a", 1}, {"assistant", "r", 1}, {"user", "Right?", 6}};
        assert_ok(ew_verification_encode(&f.chat, f.tokenizer, S("Right?"), &tokens, &error), &error);
        assert_ok(ew_prompt_encode(&f.chat, f.tokenizer, messages, 3, true, &whole, NULL, &error), &error);
        assert_true(tokens.count > 0 && tokens.count < whole.count);
        size_t first = whole.count - tokens.count;
        assert_memory_equal(whole.ids + first, tokens.ids, tokens.count * sizeof *tokens.ids);
        assert_int_equal(whole.ids[first - 1], f.chat.turn_end);
        close_fixture(&f);
    }
    ew_tokens_free(&tokens);
    ew_tokens_free(&whole);
}

/* Tags that are tokens, and Qwen3's way to say that there is no thinking. */
static void test_tag_tokens(void **state) {
    (void)state;
    static const char json[] =
        "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": ["
        "{\"id\": 40, \"content\": \"<|im_start|>\", \"special\": true}, {\"id\": 41, \"content\": \"<|im_end|>\", "
        "\"special\": true}, {\"id\": 42, \"content\": \"<think>\"}, {\"id\": 43, \"content\": \"</think>\"}], "
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"\\u010a\": 2, \"\\u010a\\u010a\": 3}, "
        "\"merges\": [\"\\u010a \\u010a\"]}}";
    static const int32_t close_tag[] = {2, 43, 3}, header[] = {42, 3, 43, 3};
    fixture f = {0};
    ew_error error = {0};
    ew_reply_tokens reply = {0};
    assert_ok(ew_tokenizer_from_json(json, sizeof json - 1, NULL, 0, "test", &f.tokenizer, &error), &error);
    assert_ok(ew_chat_template_open(f.tokenizer, "qwen3", &f.chat, &error), &error);
    const ew_message question = {"user", "a", 1};
    ew_reply_content content = {.thinking = S("a</think>b"), .answer = S("b")};
    encode(&f, &question, 1, &content, &reply);
    assert_part(&f, &reply, EW_PART_THINK_OPEN, "<think>\n");
    assert_int_equal(reply.begin[EW_PART_THINK_CLOSE] + 3, reply.begin[EW_PART_ANSWER]);
    assert_memory_equal(reply.tokens.ids + reply.begin[EW_PART_THINK_CLOSE], close_tag, sizeof close_tag);
    for (size_t i = reply.begin[EW_PART_THINKING]; i < reply.begin[EW_PART_THINK_CLOSE]; i++) {
        assert_int_not_equal(reply.tokens.ids[i], 43);
    }
    content.thinking.length = 0;
    encode(&f, &question, 1, &content, &reply);
    assert_memory_equal(reply.tokens.ids + reply.begin[EW_PART_ANSWER] - 4, header, sizeof header);
    assert_int_equal(ew_reply_encode_part(&f.chat, f.tokenizer, EW_PART_HEADER, S(""), &reply.tokens, &error),
                     EW_ERROR_ARGUMENT);
    assert_int_equal(ew_reply_encode_part(&f.chat, f.tokenizer, EW_PART_BUDGET, S("1\n2"), &reply.tokens, &error),
                     EW_ERROR_ARGUMENT);
    ew_reply_tokens_free(&reply);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split),        cmocka_unit_test(test_earlier_replies),
                                       cmocka_unit_test(test_parts),        cmocka_unit_test(test_prompt),
                                       cmocka_unit_test(test_verification), cmocka_unit_test(test_tag_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

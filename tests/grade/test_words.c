/* The tables of names and characters are sorted, since they are searched by halving: every entry must be found. */
#include "support.h"

#define find find_word
#include "grade/words.c"
#undef find
#define find find_character
#include "grade/unicode.c"
#undef find

static void test_names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_ptr_equal(ew_find_command(commands[i].name, strlen(commands[i].name)), &commands[i]);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_ptr_equal(ew_find_word(words[i].name, strlen(words[i].name)), &words[i]);
    }
    assert_null(ew_find_command("fra", 3));
    assert_null(ew_find_command("fracs", 5));
    assert_null(ew_find_word("", 0));
}

static void test_characters(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) {
        assert_ptr_equal(find_character(mappings[i].code), mappings[i].latex);
        /* the room that ew_to_ascii sets aside */
        assert_true(strlen(mappings[i].latex) <= 9 * (mappings[i].code < 0x800 ? 2 : 3));
    }
    assert_null(find_character('x'));
}

static void test_conversion(void **state) {
    static const char *const pairs[][2] = {
        {"x² ≤ 3", "x^{2} \\leq  3"}, {"10⁻¹²", "10^{-12}"},      {"½", "\\frac{1}{2}"}, {"𝑥＋１", "x+1"},
        {"a\xC2", "a\xC2"},           {"\xFF\xA2z", "\xFF\xA2z"}, {"plain", "plain"}};
    static ew_work work;
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t length = strlen(pairs[i][0]);
        ew_work_begin(&work);
        const char *text = ew_to_ascii(&work, pairs[i][0], &length);
        assert_int_equal(length, strlen(pairs[i][1]));
        assert_memory_equal(text, pairs[i][1], length);
        ew_work_end(&work);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_characters),
                                       cmocka_unit_test(test_conversion)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "support.h"

#include "base/utf8.h"

static void test_round_trip(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char bytes[EW_UTF8_MAX];
        size_t n = ew_utf8_encode(c, bytes);
        uint32_t back = 0;
        bool character = c <= 0x10ffff && !(c >= 0xd800 && c < 0xe000);
        assert_int_equal(ew_utf8_decode(bytes, n, &back), n);
        assert_int_equal(back, character ? c : 0xfffd);
        assert_int_equal(ew_utf8_decode(bytes, n - 1, NULL), 0);
    }
}

/* Ill-formed sequences, how many bytes one replacement stands for, and whether more bytes could mend it. */
static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length, broken;
        bool cut;
    } cases[] = {{"\x80", 1, 1, false},          {"\xc0\xaf", 2, 1, false},     {"\xc1\xbf", 2, 1, false},
                 {"\xe0\x80\xaf", 3, 1, false},  {"\xed\xa0\x80", 3, 1, false}, {"\xf4\x90\x80\x80", 4, 1, false},
                 {"\xf5", 1, 1, false},          {"\xff", 1, 1, false},         {"\xc3", 1, 1, true},
                 {"\xe6\x97", 2, 2, true},       {"\xe6\x97x", 3, 2, false},    {"\xf0\x9f\x91", 3, 3, true},
                 {"\xf0\x9f\x91x", 4, 3, false}, {"\xf0\x80", 2, 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool cut = false;
        assert_int_equal(ew_utf8_decode(cases[i].bytes, cases[i].length, NULL), 0);
        assert_int_equal(ew_utf8_broken(cases[i].bytes, cases[i].length, &cut), cases[i].broken);
        assert_int_equal(cut, cases[i].cut);
        assert_int_equal(ew_utf8_valid_prefix(cases[i].bytes, cases[i].length), 0);
    }
    assert_int_equal(ew_utf8_decode("", 0, NULL), 0);
    assert_int_equal(ew_utf8_valid_prefix("a\xc3\xa9\xe6\x97\xa5z\xff", 8), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

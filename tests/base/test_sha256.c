#include "support.h"

#include "base/sha256.h"

/* FIPS 180-4's examples, and the million 'a' of its predecessor. */
static void the_standards_examples(void **state) {
    (void)state;
    static const struct {
        const char *text, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "pqrst"
         "nopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[65];
    ew_sha256 hash;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        ew_sha256_begin(&hash);
        ew_sha256_add(&hash, examples[i].text, strlen(examples[i].text));
        ew_sha256_end_hex(&hash, hex);
        assert_string_equal(hex, examples[i].digest);
    }
    char block[1000];
    memset(block, 'a', sizeof block);
    ew_sha256_begin(&hash);
    for (int i = 0; i < 1000; i++) {
        ew_sha256_add(&hash, block, sizeof block);
    }
    ew_sha256_end_hex(&hash, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* However the bytes are cut, the digest is the same. */
static void pieces_do_not_matter(void **state) {
    (void)state;
    char bytes[300], whole[65], pieces[65];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 7);
    }
    for (size_t length = 0; length < sizeof bytes; length++) {
        ew_sha256 hash;
        ew_sha256_begin(&hash);
        ew_sha256_add(&hash, bytes, length);
        ew_sha256_end_hex(&hash, whole);
        for (size_t step = 1; step < 130; step += 43) {
            ew_sha256_begin(&hash);
            for (size_t at = 0; at < length; at += step) {
                ew_sha256_add(&hash, bytes + at, length - at < step ? length - at : step);
            }
            ew_sha256_end_hex(&hash, pieces);
            assert_string_equal(whole, pieces);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_examples),
        cmocka_unit_test(pieces_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

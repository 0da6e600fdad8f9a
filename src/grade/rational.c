#include "grade/rational.h"

#include <string.h>

enum { LIMBS = EW_RATIONAL_LIMBS };

static const mp_limb_t small_integers[33] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                             17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

static int trimmed(const mp_limb_t *limbs, int n) {
    while (n > 0 && limbs[n - 1] == 0) {
        n--;
    }
    return n;
}

static mp_limb_t *new_limbs(ew_work *work, int n) {
    return ew_work_spend(work, n) ? ew_work_allocate(work, (size_t)n * sizeof(mp_limb_t)) : NULL;
}

ew_rational ew_rational_small(int64_t value) {
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    return (ew_rational){&small_integers[magnitude], &small_integers[1], value != 0, 1, value < 0};
}

bool ew_rational_integer(ew_work *work, int64_t value, ew_rational *result) {
    mp_limb_t *limb = new_limbs(work, 1);
    if (!limb) {
        return false;
    }
    limb[0] = value < 0 ? -(uint64_t)value : (uint64_t)value;
    *result = (ew_rational){limb, &small_integers[1], value != 0, 1, value < 0};
    return true;
}

ew_rational ew_rational_negate(ew_rational a) {
    a.negative = a.numerator_limbs != 0 && !a.negative;
    return a;
}

bool ew_rational_equal(ew_rational a, ew_rational b) {
    return a.negative == b.negative && a.numerator_limbs == b.numerator_limbs &&
           a.denominator_limbs == b.denominator_limbs &&
           (a.numerator_limbs == 0 || mpn_cmp(a.numerator, b.numerator, a.numerator_limbs) == 0) &&
           mpn_cmp(a.denominator, b.denominator, a.denominator_limbs) == 0;
}

bool ew_rational_to_int64(ew_rational a, int64_t *value) {
    if (!ew_rational_is_integer(a) || a.numerator_limbs > 1) {
        return false;
    }
    uint64_t magnitude = a.numerator_limbs ? a.numerator[0] : 0;
    if (magnitude > (UINT64_C(1) << 62)) {
        return false;
    }
    *value = a.negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* Product of two numbers of an and bn limbs; the length without leading zeros. */
static mp_limb_t *product(ew_work *work, const mp_limb_t *a, int an, const mp_limb_t *b, int bn, int *length) {
    if (an > LIMBS || bn > LIMBS || an + bn > LIMBS + 1 || !ew_work_spend(work, (int64_t)an * bn)) {
        return NULL;
    }
    mp_limb_t *result = new_limbs(work, an + bn);
    if (!result) {
        return NULL;
    }
    if (an >= bn) {
        mpn_mul(result, a, an, b, bn);
    } else {
        mpn_mul(result, b, bn, a, an);
    }
    *length = trimmed(result, an + bn);
    return *length <= LIMBS ? result : NULL;
}

static int strip_twos(mp_limb_t *a, int n) {
    int skip = 0;
    while (a[skip] == 0) {
        skip++;
    }
    int bits = __builtin_ctzll(a[skip]);
    n -= skip;
    if (bits) {
        mpn_rshift(a, a + skip, n, (unsigned)bits);
    } else if (skip) {
        memmove(a, a + skip, (size_t)n * sizeof *a);
    }
    return trimmed(a, n);
}

/* Greatest common divisor of the odd parts of a and b (both not 0) into `divisor`; its length. */
static int odd_gcd(ew_work *work, const mp_limb_t *a, int an, const mp_limb_t *b, int bn, mp_limb_t *divisor) {
    mp_limb_t x[LIMBS], y[LIMBS];
    int64_t cost = (int64_t)(an > bn ? an : bn);
    if (!ew_work_spend(work, 50 * cost * (cost + 4))) {
        return 0;
    }
    memcpy(x, a, (size_t)an * sizeof *x);
    memcpy(y, b, (size_t)bn * sizeof *y);
    an = strip_twos(x, an);
    bn = strip_twos(y, bn);
    if (an == 1) {
        divisor[0] = mpn_gcd_1(y, bn, x[0]);
        return 1;
    }
    if (bn == 1) {
        divisor[0] = mpn_gcd_1(x, an, y[0]);
        return 1;
    }
    if (an > bn || (an == bn && mpn_cmp(x, y, an) >= 0)) {
        return (int)mpn_gcd(divisor, x, an, y, bn);
    }
    return (int)mpn_gcd(divisor, y, bn, x, an);
}

static int trailing_twos(const mp_limb_t *a) {
    int limb = 0;
    while (a[limb] == 0) {
        limb++;
    }
    return limb * 64 + __builtin_ctzll(a[limb]);
}

/* n limbs of `a` over an exact divisor and then over 2^twos. */
static mp_limb_t *reduced(ew_work *work, const mp_limb_t *a, int n, const mp_limb_t *divisor, int divisor_limbs,
                          int twos, int *length) {
    mp_limb_t remainder[LIMBS];
    mp_limb_t *quotient = new_limbs(work, n - divisor_limbs + 1);
    if (!quotient) {
        return NULL;
    }
    mpn_tdiv_qr(quotient, remainder, 0, a, n, divisor, divisor_limbs);
    int limbs = trimmed(quotient, n - divisor_limbs + 1), skip = twos / 64;
    if (twos % 64) {
        mpn_rshift(quotient, quotient + skip, limbs - skip, (unsigned)(twos % 64));
    } else if (skip) {
        memmove(quotient, quotient + skip, (size_t)(limbs - skip) * sizeof *quotient);
    }
    *length = trimmed(quotient, limbs - skip);
    return quotient;
}

/* numerator / denominator (not 0) brought to lowest terms. */
static bool lowest_terms(ew_work *work, ew_rational *value) {
    if (value->numerator_limbs == 0) {
        *value = ew_rational_small(0);
        return true;
    }
    if (ew_rational_is_integer(*value)) {
        return true;
    }
    mp_limb_t divisor[LIMBS];
    int n =
        odd_gcd(work, value->numerator, value->numerator_limbs, value->denominator, value->denominator_limbs, divisor);
    if (n == 0) {
        return false;
    }
    int a = trailing_twos(value->numerator), b = trailing_twos(value->denominator), twos = a < b ? a : b;
    if (n == 1 && divisor[0] == 1 && twos == 0) {
        return true;
    }
    mp_limb_t *top = reduced(work, value->numerator, value->numerator_limbs, divisor, n, twos, &value->numerator_limbs);
    mp_limb_t *bottom =
        reduced(work, value->denominator, value->denominator_limbs, divisor, n, twos, &value->denominator_limbs);
    value->numerator = top;
    value->denominator = bottom;
    return top && bottom;
}

bool ew_rational_multiply(ew_work *work, ew_rational a, ew_rational b, ew_rational *result) {
    if (a.numerator_limbs == 0 || b.numerator_limbs == 0) {
        *result = ew_rational_small(0);
        return true;
    }
    ew_rational value = {.negative = a.negative != b.negative};
    value.numerator =
        product(work, a.numerator, a.numerator_limbs, b.numerator, b.numerator_limbs, &value.numerator_limbs);
    value.denominator =
        product(work, a.denominator, a.denominator_limbs, b.denominator, b.denominator_limbs, &value.denominator_limbs);
    *result = value;
    return value.numerator && value.denominator && lowest_terms(work, result);
}

bool ew_rational_divide(ew_work *work, ew_rational a, ew_rational b, ew_rational *result) {
    if (b.numerator_limbs == 0) {
        return false;
    }
    ew_rational inverse = {b.denominator, b.numerator, b.denominator_limbs, b.numerator_limbs, b.negative};
    return ew_rational_multiply(work, a, inverse, result);
}

/* |a| + |b| or |a| - |b| over one denominator, for products already made. */
static bool combine(ew_work *work, const mp_limb_t *a, int an, bool a_negative, const mp_limb_t *b, int bn,
                    bool b_negative, ew_rational *value) {
    bool swap = an < bn || (an == bn && an > 0 && mpn_cmp(a, b, an) < 0);
    const mp_limb_t *large = swap ? b : a, *little = swap ? a : b;
    int large_limbs = swap ? bn : an, little_limbs = swap ? an : bn;
    mp_limb_t *result = new_limbs(work, large_limbs + 1);
    if (!result) {
        return false;
    }
    value->negative = swap ? b_negative : a_negative;
    if (little_limbs == 0) {
        memcpy(result, large, (size_t)large_limbs * sizeof *result);
        result[large_limbs] = 0;
    } else if (a_negative == b_negative) {
        result[large_limbs] = mpn_add(result, large, large_limbs, little, little_limbs);
    } else {
        mpn_sub(result, large, large_limbs, little, little_limbs);
        result[large_limbs] = 0;
    }
    value->numerator = result;
    value->numerator_limbs = trimmed(result, large_limbs + 1);
    return value->numerator_limbs <= LIMBS;
}

bool ew_rational_add(ew_work *work, ew_rational a, ew_rational b, ew_rational *result) {
    int an, bn;
    if (a.numerator_limbs == 0 || b.numerator_limbs == 0) {
        *result = a.numerator_limbs == 0 ? b : a;
        return true;
    }
    const mp_limb_t *x = product(work, a.numerator, a.numerator_limbs, b.denominator, b.denominator_limbs, &an);
    const mp_limb_t *y = product(work, b.numerator, b.numerator_limbs, a.denominator, a.denominator_limbs, &bn);
    ew_rational value = {0};
    value.denominator =
        product(work, a.denominator, a.denominator_limbs, b.denominator, b.denominator_limbs, &value.denominator_limbs);
    if (!x || !y || !value.denominator || !combine(work, x, an, a.negative, y, bn, b.negative, &value)) {
        return false;
    }
    *result = value;
    return lowest_terms(work, result);
}

int ew_rational_compare(ew_work *work, ew_rational a, ew_rational b) {
    ew_rational difference;
    if (ew_rational_equal(a, b)) {
        return 0;
    }
    if (a.negative != b.negative) {
        return a.negative ? -1 : 1;
    }
    if (!ew_rational_add(work, a, ew_rational_negate(b), &difference)) {
        return a.numerator_limbs > b.numerator_limbs ? 1 : -1;
    }
    return difference.negative ? -1 : 1;
}

bool ew_rational_power(ew_work *work, ew_rational a, int64_t exponent, ew_rational *result) {
    ew_rational power = ew_rational_small(1);
    if (exponent < 0 && !ew_rational_divide(work, power, a, &a)) {
        return false;
    }
    uint64_t left = exponent < 0 ? -(uint64_t)exponent : (uint64_t)exponent;
    if (left > 20000 &&
        !(a.numerator_limbs <= 1 && ew_rational_is_integer(a) && (a.numerator_limbs == 0 || a.numerator[0] == 1))) {
        return false;
    }
    while (left) {
        if ((left & 1) && !ew_rational_multiply(work, power, a, &power)) {
            return false;
        }
        left >>= 1;
        if (left && !ew_rational_multiply(work, a, a, &a)) {
            return false;
        }
    }
    *result = power;
    return true;
}

bool ew_rational_floor(ew_work *work, ew_rational a, ew_rational *result) {
    mp_limb_t remainder[LIMBS];
    if (ew_rational_is_integer(a)) {
        *result = a;
        return true;
    }
    ew_rational quotient = ew_rational_small(0);
    if (a.numerator_limbs >= a.denominator_limbs) {
        int n = a.numerator_limbs - a.denominator_limbs + 1;
        mp_limb_t *limbs = new_limbs(work, n);
        if (!limbs || !ew_work_spend(work, (int64_t)n * a.denominator_limbs)) {
            return false;
        }
        mpn_tdiv_qr(limbs, remainder, 0, a.numerator, a.numerator_limbs, a.denominator, a.denominator_limbs);
        quotient.numerator = limbs;
        quotient.numerator_limbs = trimmed(limbs, n);
        quotient.negative = a.negative && quotient.numerator_limbs > 0;
    }
    /* Truncation rounds towards zero; a negative that is no integer goes one further. */
    return a.negative ? ew_rational_add(work, quotient, ew_rational_small(-1), result) : (*result = quotient, true);
}

static const mp_limb_t *integer_sqrt(ew_work *work, const mp_limb_t *a, int n, int *length) {
    mp_limb_t *root = new_limbs(work, (n + 1) / 2);
    if (!root || !ew_work_spend(work, (int64_t)n * n) || mpn_sqrtrem(root, NULL, a, n) != 0) {
        return NULL;
    }
    *length = (n + 1) / 2;
    return root;
}

bool ew_rational_sqrt(ew_work *work, ew_rational a, ew_rational *result) {
    if (a.numerator_limbs == 0) {
        *result = a;
        return true;
    }
    ew_rational root = {0};
    /* The square test is cheap and refuses nearly all; mpn_sqrtrem with a NULL remainder returns 0 for
     * squares only. */
    if (a.negative || !mpn_perfect_square_p(a.numerator, a.numerator_limbs) ||
        !mpn_perfect_square_p(a.denominator, a.denominator_limbs)) {
        return false;
    }
    root.numerator = integer_sqrt(work, a.numerator, a.numerator_limbs, &root.numerator_limbs);
    root.denominator = integer_sqrt(work, a.denominator, a.denominator_limbs, &root.denominator_limbs);
    *result = root;
    return root.numerator && root.denominator;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                  : 99;
}

/* base^n into limbs (room for LIMBS + 1); the length, 0 when too wide. */
static int power_of(mp_limb_t *limbs, int base, size_t n) {
    int length = 1;
    limbs[0] = 1;
    while (n--) {
        limbs[length] = mpn_mul_1(limbs, limbs, length, (mp_limb_t)base);
        length += limbs[length] != 0;
        if (length > LIMBS) {
            return 0;
        }
    }
    return length;
}

bool ew_rational_digits(ew_work *work, const char *digits, size_t n, int base, size_t fraction_digits,
                        ew_rational *result) {
    mp_limb_t value[LIMBS + 1], scale[LIMBS + 1];
    int length = 0;
    while (n > fraction_digits + 1 && *digits == '0') {
        digits++, n--;
    }
    /* 4,932 decimal digits fill the limbs; no base needs more characters than base 2. */
    if (n > LIMBS * 64 || (base >= 10 && n > 5000) || !ew_work_spend(work, (int64_t)n * (int64_t)(n / 16 + 1))) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        int digit = digit_of(digits[i]);
        if (digit >= base) {
            return false;
        }
        mp_limb_t carry = length ? mpn_mul_1(value, value, length, (mp_limb_t)base) : 0;
        if (length) {
            carry += mpn_add_1(value, value, length, (mp_limb_t)digit);
        } else {
            carry = (mp_limb_t)digit;
        }
        if (carry) {
            value[length++] = carry;
        }
        if (length > LIMBS) {
            return false;
        }
    }
    int scale_length = power_of(scale, base, fraction_digits);
    mp_limb_t *limbs = new_limbs(work, length + scale_length);
    if (!limbs || scale_length == 0) {
        return false;
    }
    memcpy(limbs, value, (size_t)length * sizeof *limbs);
    memcpy(limbs + length, scale, (size_t)scale_length * sizeof *limbs);
    *result = (ew_rational){limbs, limbs + length, length, scale_length, false};
    return lowest_terms(work, result);
}

/* Decimal digits of limbs, most significant first; destroys nothing. The length, 0 if it does not fit. */
static size_t print_integer(ew_work *work, const mp_limb_t *limbs, int n, char *out, size_t size) {
    mp_limb_t rest[LIMBS];
    char reversed[LIMBS * 20];
    size_t length = 0;
    if (!ew_work_spend(work, (int64_t)n * n * 4)) {
        return 0;
    }
    memcpy(rest, limbs, (size_t)n * sizeof *rest);
    while (n > 0) {
        mp_limb_t chunk = mpn_divrem_1(rest, 0, rest, n, UINT64_C(10000000000000000000));
        n = trimmed(rest, n);
        for (int i = 0; i < 19 && (n > 0 || chunk > 0); i++, chunk /= 10) {
            reversed[length++] = (char)('0' + chunk % 10);
        }
    }
    if (length == 0) {
        reversed[length++] = '0';
    }
    if (length > size) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        out[i] = reversed[length - 1 - i];
    }
    return length;
}

size_t ew_rational_print(ew_work *work, ew_rational a, char *out, size_t size) {
    size_t used = 0;
    if (size < 2) {
        return 0;
    }
    if (a.negative) {
        out[used++] = '-';
    }
    size_t digits = print_integer(work, a.numerator, a.numerator_limbs, out + used, size - used);
    used += digits;
    if (digits == 0 || ew_rational_is_integer(a)) {
        return digits ? used : 0;
    }
    if (used + 1 >= size) {
        return 0;
    }
    out[used++] = '/';
    digits = print_integer(work, a.denominator, a.denominator_limbs, out + used, size - used);
    return digits ? used + digits : 0;
}

#include "grade/complex.h"

static ew_real zero(void) {
    return ew_real_from_int(0);
}

ew_complex ew_complex_undefined(void) {
    return (ew_complex){ew_real_undefined(), ew_real_undefined()};
}
ew_complex ew_complex_real(ew_real re) {
    return (ew_complex){re, zero()};
}

ew_complex ew_complex_add(ew_complex a, ew_complex b) {
    return (ew_complex){ew_real_add(a.re, b.re), ew_real_add(a.im, b.im)};
}
ew_complex ew_complex_negate(ew_complex a) {
    return (ew_complex){ew_real_negate(a.re), ew_real_negate(a.im)};
}
ew_complex ew_complex_subtract(ew_complex a, ew_complex b) {
    return ew_complex_add(a, ew_complex_negate(b));
}
ew_complex ew_complex_scale(ew_complex a, int64_t power) {
    return (ew_complex){ew_real_scale(a.re, power), ew_real_scale(a.im, power)};
}

ew_complex ew_complex_multiply(ew_complex a, ew_complex b) {
    if (ew_complex_is_real(a)) {
        return (ew_complex){ew_real_multiply(a.re, b.re), ew_complex_is_real(b) ? b.im : ew_real_multiply(a.re, b.im)};
    }
    if (ew_complex_is_real(b)) {
        return ew_complex_multiply(b, a);
    }
    return (ew_complex){ew_real_subtract(ew_real_multiply(a.re, b.re), ew_real_multiply(a.im, b.im)),
                        ew_real_add(ew_real_multiply(a.re, b.im), ew_real_multiply(a.im, b.re))};
}

ew_complex ew_complex_divide(ew_complex a, ew_complex b) {
    if (ew_complex_is_real(b)) {
        return (ew_complex){ew_real_divide(a.re, b.re), ew_complex_is_real(a) ? a.im : ew_real_divide(a.im, b.re)};
    }
    ew_real norm = ew_real_add(ew_real_multiply(b.re, b.re), ew_real_multiply(b.im, b.im));
    ew_complex top = ew_complex_multiply(a, (ew_complex){b.re, ew_real_negate(b.im)});
    return (ew_complex){ew_real_divide(top.re, norm), ew_real_divide(top.im, norm)};
}

ew_real ew_complex_abs(ew_complex a) {
    if (ew_complex_is_real(a)) {
        a.re.negative = false;
        return a.re;
    }
    return ew_real_sqrt(ew_real_add(ew_real_multiply(a.re, a.re), ew_real_multiply(a.im, a.im)));
}

ew_complex ew_complex_exp(ew_complex a) {
    ew_real size = ew_real_exp(a.re), sine, cosine;
    if (ew_complex_is_real(a)) {
        return ew_complex_real(size);
    }
    ew_real_sin_cos(a.im, &sine, &cosine);
    return (ew_complex){ew_real_multiply(size, cosine), ew_real_multiply(size, sine)};
}

ew_complex ew_complex_log(ew_complex a) {
    if (ew_complex_is_real(a) && !a.re.negative) {
        return ew_complex_real(ew_real_log(a.re));
    }
    return (ew_complex){ew_real_log(ew_complex_abs(a)), ew_real_atan2(a.im, a.re)};
}

ew_complex ew_complex_sqrt(ew_complex a) {
    if (ew_complex_is_real(a)) {
        if (ew_real_is_negative(a.re)) {
            return (ew_complex){zero(), ew_real_sqrt(ew_real_negate(a.re))};
        }
        return ew_complex_real(ew_real_sqrt(a.re));
    }
    /* From the larger of (|a| + re)/2 and (|a| - re)/2, where nothing cancels; the other part by division. */
    ew_real size = ew_complex_abs(a);
    if (a.re.negative) {
        ew_real im = ew_real_sqrt(ew_real_scale(ew_real_subtract(size, a.re), -1));
        ew_real re = ew_real_divide(ew_real_scale(a.im, -1), im);
        return re.negative ? (ew_complex){ew_real_negate(re), ew_real_negate(im)} : (ew_complex){re, im};
    }
    ew_real re = ew_real_sqrt(ew_real_scale(ew_real_add(size, a.re), -1));
    return (ew_complex){re, ew_real_divide(ew_real_scale(a.im, -1), re)};
}

ew_complex ew_complex_power(ew_complex a, int64_t exponent) {
    ew_complex power = ew_complex_real(ew_real_from_int(1));
    uint64_t left = exponent < 0 ? -(uint64_t)exponent : (uint64_t)exponent;
    while (left) {
        if (left & 1) {
            power = ew_complex_multiply(power, a);
        }
        left >>= 1;
        if (left) {
            a = ew_complex_multiply(a, a);
        }
    }
    return exponent < 0 ? ew_complex_divide(ew_complex_real(ew_real_from_int(1)), power) : power;
}

static ew_complex times_i(ew_complex a) {
    return (ew_complex){ew_real_negate(a.im), a.re};
}

void ew_complex_sin_cos(ew_complex a, ew_complex *sine, ew_complex *cosine) {
    if (ew_complex_is_real(a)) {
        ew_real s, c;
        ew_real_sin_cos(a.re, &s, &c);
        *sine = ew_complex_real(s);
        *cosine = ew_complex_real(c);
        return;
    }
    ew_complex up = ew_complex_exp(times_i(a)), down = ew_complex_exp(ew_complex_negate(times_i(a)));
    *cosine = ew_complex_scale(ew_complex_add(up, down), -1);
    *sine = ew_complex_negate(times_i(ew_complex_scale(ew_complex_subtract(up, down), -1)));
}

/* (i / 2) (log(1 - i a) - log(1 + i a)) */
ew_complex ew_complex_atan(ew_complex a) {
    if (ew_complex_is_real(a)) {
        return ew_complex_real(ew_real_atan(a.re));
    }
    ew_complex one = ew_complex_real(ew_real_from_int(1)), turned = times_i(a);
    ew_complex difference = ew_complex_subtract(ew_complex_log(ew_complex_subtract(one, turned)),
                                                ew_complex_log(ew_complex_add(one, turned)));
    return ew_complex_scale(times_i(difference), -1);
}

/* atan(a / sqrt(1 - a^2)) between -1 and 1, else -i log(i a + sqrt(1 - a^2)) */
ew_complex ew_complex_asin(ew_complex a) {
    ew_complex one = ew_complex_real(ew_real_from_int(1));
    ew_complex rest = ew_complex_subtract(one, ew_complex_multiply(a, a));
    if (ew_complex_is_real(a) && !ew_real_is_negative(rest.re)) {
        ew_complex root = ew_complex_sqrt(rest);
        return ew_complex_real(ew_real_atan2(a.re, root.re));
    }
    ew_complex inner = ew_complex_add(times_i(a), ew_complex_sqrt(rest));
    return ew_complex_negate(times_i(ew_complex_log(inner)));
}

ew_ternary ew_complex_equal(ew_complex a, ew_complex b) {
    ew_complex difference = ew_complex_subtract(a, b);
    if (ew_complex_is_undefined(difference)) {
        return EW_UNDECIDED;
    }
    if (!ew_real_may_be_zero(difference.re) || !ew_real_may_be_zero(difference.im)) {
        return EW_NO;
    }
    /* Each part is judged beside the larger part, as a rotation mixes their errors. */
    int64_t size = -20;
    const ew_real *parts[4] = {&a.re, &a.im, &b.re, &b.im};
    for (int i = 0; i < 4; i++) {
        if (!parts[i]->zero && parts[i]->exponent > size) {
            size = parts[i]->exponent;
        }
    }
    return ew_real_is_fine(difference.re, size) && ew_real_is_fine(difference.im, size) ? EW_YES : EW_UNDECIDED;
}

#include "grade/units.h"

#include <string.h>

typedef struct entry {
    const char *names; /* separated by spaces */
    int8_t dimension;  /* -1: a count or a remark without dimension */
    int32_t numerator, denominator;
} entry;

enum { LENGTH, MASS, TIME, MONEY, VOLUME, ANGLE };

static const entry entries[] = {
    {"mm millimeter millimeters millimetre millimetres", LENGTH, 1, 1000},
    {"cm centimeter centimeters centimetre centimetres", LENGTH, 1, 100},
    {"m meter meters metre metres", LENGTH, 1, 1},
    {"km kilometer kilometers kilometre kilometres", LENGTH, 1000, 1},
    {"in inch inches", LENGTH, 254, 10000},
    {"ft foot feet", LENGTH, 3048, 10000},
    {"yd yard yards", LENGTH, 9144, 10000},
    {"mi mile miles", LENGTH, 1609344, 1000},
    {"mg milligram milligrams", MASS, 1, 1000000},
    {"g gram grams", MASS, 1, 1000},
    {"kg kilogram kilograms kgs", MASS, 1, 1},
    {"lb lbs pound pounds", MASS, 45359237, 100000000},
    {"oz ounce ounces", MASS, 45359237, 1600000000},
    {"s sec secs second seconds", TIME, 1, 1},
    {"min mins minute minutes", TIME, 60, 1},
    {"h hr hrs hour hours", TIME, 3600, 1},
    {"day days", TIME, 86400, 1},
    {"week weeks", TIME, 604800, 1},
    {"$ dollar dollars usd bucks", MONEY, 1, 1},
    {"cent cents", MONEY, 1, 100},
    {"ml milliliter milliliters millilitre millilitres", VOLUME, 1, 1000},
    {"l liter liters litre litres", VOLUME, 1, 1},
    {"deg degree degrees", ANGLE, 1, 1},
    {"unit units", -1, 1, 1},
    {"cup cups men egg eggs box pie cow pig hen cat dog kid pen bag bus car toy hat boy "
     "rad rads radian radians yr yrs year years gal pt pts cc cu sq mol ppm mpg bpm hz ghz mhz kw kwh pa kpa "
     "ev",
     -2, 1, 1},
};

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '$';
}
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool among(const char *names, const char *word, size_t length) {
    while (*names) {
        size_t n = strcspn(names, " "), i = 0;
        while (n == length && i < n && lower(word[i]) == names[i]) {
            i++;
        }
        if (n == length && i == n) {
            return true;
        }
        names += n + (names[n] == ' ');
    }
    return false;
}

static const entry *find(const char *word, size_t length) {
    for (size_t i = 0; length && i < sizeof entries / sizeof *entries; i++) {
        if (among(entries[i].names, word, length)) {
            return &entries[i];
        }
    }
    return NULL;
}

bool ew_is_unit(const char *word, size_t length) {
    return find(word, length) != NULL || among("mph kph", word, length);
}

/* Multiplies `unit` by entry^power. */
static bool apply(ew_work *work, ew_unit *unit, const entry *e, int power) {
    ew_rational top, bottom, factor;
    if (e->dimension == -2 || unit->powers[e->dimension < 0 ? 0 : e->dimension] + power > 20 ||
        unit->powers[e->dimension < 0 ? 0 : e->dimension] + power < -20) {
        return false;
    }
    if (e->dimension < 0) {
        return true;
    }
    unit->powers[e->dimension] = (int8_t)(unit->powers[e->dimension] + power);
    return ew_rational_integer(work, e->numerator, &top) && ew_rational_integer(work, e->denominator, &bottom) &&
           ew_rational_divide(work, top, bottom, &factor) && ew_rational_power(work, factor, power, &factor) &&
           ew_rational_multiply(work, unit->factor, factor, &unit->factor);
}

/* ^2, ^{2}, squared, cubed behind a unit: 1 when there is none. */
static int power_behind(const char *text, size_t length, size_t *at) {
    size_t i = *at;
    while (i < length && (text[i] == ' ' || text[i] == '{' || text[i] == '^')) {
        i++;
    }
    if (i < length && (text[i] == '2' || text[i] == '3')) {
        int power = text[i++] - '0';
        *at = i + (i < length && text[i] == '}');
        return power;
    }
    if (length - i >= 7 && memcmp(text + i, "squared", 7) == 0) {
        *at = i + 7;
        return 2;
    }
    if (length - i >= 5 && memcmp(text + i, "cubed", 5) == 0) {
        *at = i + 5;
        return 3;
    }
    return 1;
}

bool ew_parse_unit(ew_work *work, const char *text, size_t length, ew_unit *unit) {
    int sign = 1, ahead = 1, words = 0;
    memset(unit->powers, 0, sizeof unit->powers);
    unit->factor = ew_rational_small(1);
    for (size_t at = 0; at < length && words < 8;) {
        size_t n = 0;
        while (at + n < length && letter(text[at + n])) {
            n++;
        }
        const char *word = text + at;
        if (n == 0) {
            sign = text[at] == '/' ? -1 : sign;
            if (!strchr(" ./-{}", text[at])) {
                return false;
            }
            at++;
            continue;
        }
        at += n;
        if (among("per a an each", word, n)) {
            sign = -1;
        } else if (among("square sq", word, n)) {
            ahead = 2;
        } else if (among("cubic cu", word, n)) {
            ahead = 3;
        } else if (among("mph", word, n) || among("kph kmh", word, n)) {
            if (!apply(work, unit, find(lower(word[0]) == 'm' ? "mi" : "km", 2), 1) ||
                !apply(work, unit, find("h", 1), -1)) {
                return false;
            }
            words++;
        } else {
            const entry *e = find(word, n);
            int power = power_behind(text, length, &at);
            if (!e || !apply(work, unit, e, sign * (ahead > 1 ? ahead : power))) {
                return false;
            }
            ahead = 1;
            words++;
        }
    }
    return words > 0;
}

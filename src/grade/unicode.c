/* Unicode mathematics spelled in LaTeX, so that everything behind has one alphabet to read. */
#include "grade/token.h"

#include "base/utf8.h"

#include <string.h>

typedef struct mapping {
    uint32_t code;
    const char *latex;
} mapping;

/* Sorted by code. */
static const mapping mappings[] = {
    {0xA0, " "},
    {0xA2, "\\text{ cents}"},
    {0xA3, "\\pounds "},
    {0xA5, "\\yen "},
    {0xAC, "\\lnot "},
    {0xB0, "\\degree "},
    {0xB1, "\\pm "},
    {0xB2, "^{2}"},
    {0xB3, "^{3}"},
    {0xB7, "\\cdot "},
    {0xB9, "^{1}"},
    {0xBC, "\\frac{1}{4}"},
    {0xBD, "\\frac{1}{2}"},
    {0xBE, "\\frac{3}{4}"},
    {0xD7, "\\times "},
    {0xF7, "\\div "},
    {0x391, "\\Alpha "},
    {0x393, "\\Gamma "},
    {0x394, "\\Delta "},
    {0x398, "\\Theta "},
    {0x39B, "\\Lambda "},
    {0x3A0, "\\Pi "},
    {0x3A3, "\\Sigma "},
    {0x3A6, "\\Phi "},
    {0x3A8, "\\Psi "},
    {0x3A9, "\\Omega "},
    {0x3B1, "\\alpha "},
    {0x3B2, "\\beta "},
    {0x3B3, "\\gamma "},
    {0x3B4, "\\delta "},
    {0x3B5, "\\epsilon "},
    {0x3B6, "\\zeta "},
    {0x3B7, "\\eta "},
    {0x3B8, "\\theta "},
    {0x3B9, "\\iota "},
    {0x3BA, "\\kappa "},
    {0x3BB, "\\lambda "},
    {0x3BC, "\\mu "},
    {0x3BD, "\\nu "},
    {0x3BE, "\\xi "},
    {0x3C0, "\\pi "},
    {0x3C1, "\\rho "},
    {0x3C3, "\\sigma "},
    {0x3C4, "\\tau "},
    {0x3C5, "\\upsilon "},
    {0x3C6, "\\phi "},
    {0x3C7, "\\chi "},
    {0x3C8, "\\psi "},
    {0x3C9, "\\omega "},
    {0x3D1, "\\theta "},
    {0x3D5, "\\phi "},
    {0x3F5, "\\epsilon "},
    {0x2009, "\\,"},
    {0x200A, "\\,"},
    {0x200B, ""},
    {0x200C, ""},
    {0x200D, ""},
    {0x2010, "-"},
    {0x2011, "-"},
    {0x2012, "-"},
    {0x2013, "-"},
    {0x2014, "-"},
    {0x2016, "|"},
    {0x2018, "'"},
    {0x2019, "'"},
    {0x201C, "\""},
    {0x201D, "\""},
    {0x2022, "\\cdot "},
    {0x2026, "..."},
    {0x202F, "\\,"},
    {0x2032, "'"},
    {0x2044, "/"},
    {0x2060, ""},
    {0x2061, ""},
    {0x2062, ""},
    {0x2063, ","},
    {0x2070, "^{0}"},
    {0x2071, "^{i}"},
    {0x2074, "^{4}"},
    {0x2075, "^{5}"},
    {0x2076, "^{6}"},
    {0x2077, "^{7}"},
    {0x2078, "^{8}"},
    {0x2079, "^{9}"},
    {0x207A, "^{+}"},
    {0x207B, "^{-}"},
    {0x207F, "^{n}"},
    {0x2080, "_{0}"},
    {0x2081, "_{1}"},
    {0x2082, "_{2}"},
    {0x2083, "_{3}"},
    {0x2084, "_{4}"},
    {0x2085, "_{5}"},
    {0x2086, "_{6}"},
    {0x2087, "_{7}"},
    {0x2088, "_{8}"},
    {0x2089, "_{9}"},
    {0x20AC, "\\euro "},
    {0x2102, "\\mathbb{C}"},
    {0x2107, "e"},
    {0x2115, "\\mathbb{N}"},
    {0x211A, "\\mathbb{Q}"},
    {0x211D, "\\mathbb{R}"},
    {0x2124, "\\mathbb{Z}"},
    {0x212F, "e"},
    {0x2148, "i"},
    {0x2150, "\\frac{1}{7}"},
    {0x2151, "\\frac{1}{9}"},
    {0x2153, "\\frac{1}{3}"},
    {0x2154, "\\frac{2}{3}"},
    {0x2155, "\\frac{1}{5}"},
    {0x2156, "\\frac{2}{5}"},
    {0x2157, "\\frac{3}{5}"},
    {0x2158, "\\frac{4}{5}"},
    {0x2159, "\\frac{1}{6}"},
    {0x215A, "\\frac{5}{6}"},
    {0x215B, "\\frac{1}{8}"},
    {0x215C, "\\frac{3}{8}"},
    {0x215D, "\\frac{5}{8}"},
    {0x215E, "\\frac{7}{8}"},
    {0x2205, "\\emptyset "},
    {0x2206, "\\Delta "},
    {0x2208, "\\in "},
    {0x2212, "-"},
    {0x2213, "\\mp "},
    {0x2215, "/"},
    {0x2216, "\\setminus "},
    {0x2217, "*"},
    {0x2218, "\\circ "},
    {0x2219, "\\cdot "},
    {0x221A, "\\sqrt "},
    {0x221B, "\\sqrt[3]"},
    {0x221C, "\\sqrt[4]"},
    {0x221E, "\\infty "},
    {0x2220, "\\angle "},
    {0x2223, "|"},
    {0x2227, "\\wedge "},
    {0x2228, "\\vee "},
    {0x2229, "\\cap "},
    {0x222A, "\\cup "},
    {0x2236, ":"},
    {0x223C, "\\sim "},
    {0x2245, "\\cong "},
    {0x2248, "\\approx "},
    {0x2260, "\\neq "},
    {0x2261, "\\equiv "},
    {0x2264, "\\leq "},
    {0x2265, "\\geq "},
    {0x2266, "\\leq "},
    {0x2267, "\\geq "},
    {0x22C0, "\\wedge "},
    {0x22C1, "\\vee "},
    {0x22C2, "\\cap "},
    {0x22C3, "\\cup "},
    {0x22C5, "\\cdot "},
    {0x22C6, "*"},
    {0x22EF, "..."},
    {0x2308, "\\lceil "},
    {0x2309, "\\rceil "},
    {0x230A, "\\lfloor "},
    {0x230B, "\\rfloor "},
    {0x2329, "\\langle "},
    {0x232A, "\\rangle "},
    {0x25B3, "\\triangle "},
    {0x27E8, "\\langle "},
    {0x27E9, "\\rangle "},
    {0x2A7D, "\\leq "},
    {0x2A7E, "\\geq "},
    {0x3000, " "},
    {0x3001, ","},
    {0x3002, "."},
    {0x3008, "\\langle "},
    {0x3009, "\\rangle "},
    {0xFEFF, ""},
    {0xFFE5, "\\yen "},
};

static const char *find(uint32_t code) {
    size_t low = 0, high = sizeof mappings / sizeof *mappings;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mappings[middle].code == code) {
            return mappings[middle].latex;
        }
        if (code < mappings[middle].code) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* Letters and digits of the mathematical alphabets and the full-width forms as ASCII; 0 for others. */
static char plain_letter(uint32_t code) {
    if (code >= 0xFF01 && code <= 0xFF5E) {
        return (char)(code - 0xFF01 + '!');
    }
    if (code >= 0x1D400 && code <= 0x1D6A3) {
        uint32_t letter = (code - 0x1D400) % 52;
        return (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26);
    }
    return code >= 0x1D7CE && code <= 0x1D7FF ? (char)('0' + (code - 0x1D7CE) % 10) : 0;
}

/* What has been written so far, and the sign of the script (^ or _) that it ends with, 0 for none. */
typedef struct spelling {
    char *out;
    size_t used;
    char script;
} spelling;

static void spell(spelling *s, const char *text, size_t length) {
    memcpy(s->out + s->used, text, length);
    s->used += length;
    s->script = 0;
}

/* Scripts in a row are one: 10 to the power -12 is ^{-12}, not ^{-}^{1}^{2}. */
static void spell_latex(spelling *s, const char *latex) {
    size_t length = strlen(latex);
    char script = (latex[0] == '^' || latex[0] == '_') && length >= 4 ? latex[0] : 0;
    if (script && script == s->script) {
        s->used--;
        latex += 2;
        length -= 2;
    }
    spell(s, latex, length);
    s->script = script;
}

const char *ew_to_ascii(ew_work *work, const char *text, size_t *length) {
    size_t at = 0, n = *length;
    while (at < n && !(text[at] & 0x80)) {
        at++;
    }
    if (at == n) {
        return text;
    }
    /* The longest replacement, 13 bytes, stands for a character of 2. */
    spelling s = {.out = ew_work_allocate(work, n * 9 + 16)};
    if (!s.out) {
        return NULL;
    }
    for (at = 0; at < n;) {
        uint32_t code = 0;
        size_t size = ew_utf8_decode(text + at, n - at, &code);
        const char *latex = size > 1 ? find(code) : NULL;
        char letter = size > 1 ? plain_letter(code) : 0;
        if (latex) {
            spell_latex(&s, latex);
        } else if (letter) {
            spell(&s, &letter, 1);
        } else {
            spell(&s, text + at, size ? size : 1); /* what is no character stays as it is */
        }
        at += size ? size : 1;
    }
    *length = s.used;
    return s.out;
}

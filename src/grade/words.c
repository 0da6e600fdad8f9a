#include "grade/token.h"

#include <stdlib.h>
#include <string.h>

/* Both tables are sorted by name (bytes); the tests look every entry up. An empty command is type T_END: skipped. */
static const ew_word commands[] = {
    {"Alpha", T_NAME, 0}, {"Big", T_END, 0}, {"Bigg", T_END, 0}, {"Biggl", T_END, 0}, {"Biggr", T_END, 0},
    {"Bigl", T_END, 0}, {"Bigr", T_END, 0}, {"Delta", T_NAME, 0}, {"Gamma", T_NAME, 0}, {"Im", T_FUNCTION, EW_IM},
    {"Lambda", T_NAME, 0}, {"Leftrightarrow", T_UNKNOWN, 0}, {"Omega", T_NAME, 0}, {"Phi", T_NAME, 0},
    {"Pi", T_NAME, 0}, {"Psi", T_NAME, 0}, {"Re", T_FUNCTION, EW_RE}, {"Rightarrow", T_UNKNOWN, 0},
    {"Sigma", T_NAME, 0}, {"Theta", T_NAME, 0}, {"Xi", T_NAME, 0}, {"alpha", T_NAME, 0}, {"and", T_AND, 0},
    {"angle", T_END, 0}, {"approx", T_RELATION, '~'}, {"arccos", T_FUNCTION, EW_ACOS},
    {"arccot", T_FUNCTION, EW_ACOT}, {"arccsc", T_FUNCTION, EW_ACSC}, {"arcosh", T_FUNCTION, EW_ACOSH},
    {"arcsec", T_FUNCTION, EW_ASEC}, {"arcsin", T_FUNCTION, EW_ASIN}, {"arctan", T_FUNCTION, EW_ATAN},
    {"arg", T_FUNCTION, EW_ARG}, {"arsinh", T_FUNCTION, EW_ASINH}, {"artanh", T_FUNCTION, EW_ATANH},
    {"ast", T_TIMES, 0}, {"backslash", T_DIFFERENCE, 0}, {"bar", T_OVERLINE, 0}, {"begin", T_BEGIN, 0},
    {"beta", T_NAME, 0}, {"bf", T_END, 0}, {"big", T_END, 0}, {"bigcap", T_INTERSECTION, 0}, {"bigcup", T_UNION, 0},
    {"bigg", T_END, 0}, {"biggl", T_END, 0}, {"biggr", T_END, 0}, {"bigl", T_END, 0}, {"bigr", T_END, 0},
    {"binom", T_BINOM, 0}, {"bm", T_ACCENT, 0}, {"boldsymbol", T_ACCENT, 0}, {"bot", T_UNKNOWN, 0},
    {"boxed", T_ACCENT, 0}, {"bullet", T_TIMES, 0}, {"cap", T_INTERSECTION, 0}, {"cdot", T_TIMES, 0},
    {"cdots", T_UNKNOWN, 0}, {"cfrac", T_FRAC, 0}, {"chi", T_NAME, 0}, {"choose", T_CHOOSE, 0}, {"circ", T_DEGREE, 0},
    {"colon", T_COLON, 0}, {"cong", T_UNKNOWN, 0}, {"cos", T_FUNCTION, EW_COS}, {"cosh", T_FUNCTION, EW_COSH},
    {"cot", T_FUNCTION, EW_COT}, {"coth", T_FUNCTION, EW_COTH}, {"csc", T_FUNCTION, EW_CSC},
    {"csch", T_FUNCTION, EW_CSCH}, {"cup", T_UNION, 0}, {"dbinom", T_BINOM, 0}, {"degree", T_DEGREE, 0},
    {"delta", T_NAME, 0}, {"det", T_FUNCTION, EW_DETERMINANT}, {"dfrac", T_FRAC, 0}, {"displaystyle", T_END, 0},
    {"div", T_SLASH, 0}, {"dot", T_UNKNOWN, 0}, {"dots", T_UNKNOWN, 0}, {"ell", T_NAME, 0},
    {"emptyset", T_CONSTANT, EW_EMPTY}, {"end", T_FINISH, 0}, {"enspace", T_END, 0}, {"epsilon", T_NAME, 0},
    {"eq", T_RELATION, '='}, {"equiv", T_UNKNOWN, 0}, {"eta", T_NAME, 0}, {"euro", T_MONEY, 0},
    {"exp", T_FUNCTION, EW_EXP}, {"fbox", T_ACCENT, 0}, {"flat", T_UNKNOWN, 0}, {"frac", T_FRAC, 0},
    {"gamma", T_NAME, 0}, {"gcd", T_FUNCTION, EW_GCD}, {"ge", T_RELATION, 'g'}, {"geq", T_RELATION, 'g'},
    {"geqq", T_RELATION, 'g'}, {"geqslant", T_RELATION, 'g'}, {"gt", T_RELATION, '>'}, {"hat", T_ACCENT, 0},
    {"hline", T_END, 0}, {"imath", T_CONSTANT, EW_I}, {"in", T_RELATION, 'i'}, {"infty", T_CONSTANT, EW_INFINITY},
    {"iota", T_NAME, 0}, {"kappa", T_NAME, 0}, {"lVert", T_ABS, 0}, {"lambda", T_NAME, 0}, {"land", T_AND, 0},
    {"langle", T_OPEN, '<'}, {"large", T_END, 0}, {"lbrace", T_SET, 0}, {"lbrack", T_OPEN, '['}, {"lceil", T_CEIL, 0},
    {"ldots", T_UNKNOWN, 0}, {"le", T_RELATION, 'l'}, {"leq", T_RELATION, 'l'}, {"leqq", T_RELATION, 'l'},
    {"leqslant", T_RELATION, 'l'}, {"lfloor", T_FLOOR, 0}, {"lg", T_FUNCTION, 255}, {"limits", T_END, 0},
    {"ln", T_FUNCTION, EW_LN}, {"log", T_FUNCTION, EW_LOG}, {"lor", T_OR, 0}, {"lparen", T_OPEN, '('},
    {"lt", T_RELATION, '<'}, {"lvert", T_ABS, 0}, {"mathbf", T_ACCENT, 0}, {"mathcal", T_ACCENT, 0},
    {"mathclose", T_END, 0}, {"mathit", T_ACCENT, 0}, {"mathop", T_ACCENT, 0}, {"mathopen", T_END, 0},
    {"max", T_FUNCTION, EW_MAX}, {"mid", T_SUCH_THAT, 0}, {"min", T_FUNCTION, EW_MIN}, {"mp", T_MP, 0},
    {"mu", T_NAME, 0}, {"ne", T_RELATION, 'n'}, {"neq", T_RELATION, 'n'}, {"nolimits", T_END, 0}, {"nu", T_NAME, 0},
    {"omega", T_NAME, 0}, {"operatorname", T_UNKNOWN, 0}, {"or", T_OR, 0}, {"over", T_OVER, 0},
    {"overline", T_OVERLINE, 1}, {"overrightarrow", T_ACCENT, 0}, {"parallel", T_UNKNOWN, 0}, {"perp", T_UNKNOWN, 0},
    {"phi", T_NAME, 0}, {"pi", T_CONSTANT, EW_PI}, {"pm", T_PM, 0}, {"pounds", T_MONEY, 0}, {"prime", T_PRIME, 0}, {"prod", T_BIG, EW_PRODUCT_OVER}, {"propto", T_UNKNOWN, 0},
    {"psi", T_NAME, 0}, {"qquad", T_END, 0}, {"quad", T_END, 0}, {"rVert", T_ABS_END, 0}, {"rangle", T_CLOSE, '>'},
    {"rbrace", T_SET_END, 0}, {"rbrack", T_CLOSE, ']'}, {"rceil", T_CEIL_END, 0}, {"rfloor", T_FLOOR_END, 0},
    {"rho", T_NAME, 0}, {"rm", T_END, 0}, {"rparen", T_CLOSE, ')'}, {"rvert", T_ABS_END, 0},
    {"scriptstyle", T_END, 0}, {"sec", T_FUNCTION, EW_SEC}, {"sech", T_FUNCTION, EW_SECH},
    {"setminus", T_DIFFERENCE, 0}, {"sgn", T_FUNCTION, EW_SIGN}, {"sigma", T_NAME, 0}, {"sim", T_RELATION, '~'},
    {"simeq", T_RELATION, '~'}, {"sin", T_FUNCTION, EW_SIN}, {"sinh", T_FUNCTION, EW_SINH},
    {"smallsetminus", T_DIFFERENCE, 0}, {"space", T_END, 0}, {"sqrt", T_SQRT, 0}, {"square", T_UNKNOWN, 0},
    {"star", T_TIMES, 0}, {"sum", T_BIG, EW_SUM_OVER}, {"surd", T_SQRT, 0}, {"tan", T_FUNCTION, EW_TAN}, {"tanh", T_FUNCTION, EW_TANH},
    {"tau", T_NAME, 0}, {"tbinom", T_BINOM, 0}, {"textdegree", T_DEGREE, 0}, {"textdollar", T_MONEY, 0},
    {"textstyle", T_END, 0}, {"tfrac", T_FRAC, 0}, {"theta", T_NAME, 0}, {"thinspace", T_END, 0},
    {"tilde", T_ACCENT, 0}, {"times", T_TIMES, 0}, {"triangle", T_END, 0}, {"underline", T_ACCENT, 0},
    {"uparrow", T_UNKNOWN, 0}, {"upsilon", T_NAME, 0}, {"varepsilon", T_NAME, 0},
    {"varnothing", T_CONSTANT, EW_EMPTY}, {"varphi", T_NAME, 0}, {"varrho", T_NAME, 0}, {"vartheta", T_NAME, 0},
    {"vec", T_ACCENT, 0}, {"vee", T_OR, 0}, {"vert", T_BAR, 0}, {"wedge", T_AND, 0}, {"widehat", T_ACCENT, 0},
    {"xi", T_NAME, 0}, {"yen", T_MONEY, 0}, {"zeta", T_NAME, 0},
};

static const ew_word words[] = {
    {"abs", T_FUNCTION, EW_ABS}, {"acos", T_FUNCTION, EW_ACOS}, {"alpha", T_NAME, 0}, {"and", T_AND, 0},
    {"arccos", T_FUNCTION, EW_ACOS}, {"arcsin", T_FUNCTION, EW_ASIN}, {"arctan", T_FUNCTION, EW_ATAN},
    {"asin", T_FUNCTION, EW_ASIN}, {"atan", T_FUNCTION, EW_ATAN}, {"beta", T_NAME, 0}, {"binom", T_BINOM, 0},
    {"cbrt", T_CUBE_ROOT, 0}, {"ceil", T_FUNCTION, EW_CEIL}, {"cos", T_FUNCTION, EW_COS},
    {"cosh", T_FUNCTION, EW_COSH}, {"cot", T_FUNCTION, EW_COT}, {"csc", T_FUNCTION, EW_CSC}, {"delta", T_NAME, 0},
    {"exp", T_FUNCTION, EW_EXP}, {"floor", T_FUNCTION, EW_FLOOR}, {"gamma", T_NAME, 0}, {"gcd", T_FUNCTION, EW_GCD},
    {"inf", T_CONSTANT, EW_INFINITY}, {"infinity", T_CONSTANT, EW_INFINITY}, {"infty", T_CONSTANT, EW_INFINITY},
    {"lambda", T_NAME, 0}, {"lcm", T_FUNCTION, EW_LCM}, {"lg", T_FUNCTION, 255}, {"ln", T_FUNCTION, EW_LN},
    {"log", T_FUNCTION, EW_LOG}, {"max", T_FUNCTION, EW_MAX}, {"min", T_FUNCTION, EW_MIN}, {"mu", T_NAME, 0},
    {"omega", T_NAME, 0}, {"oo", T_CONSTANT, EW_INFINITY}, {"or", T_OR, 0}, {"percent", T_PERCENT, 0},
    {"phi", T_NAME, 0}, {"pi", T_CONSTANT, EW_PI}, {"pm", T_PM, 0}, {"sec", T_FUNCTION, EW_SEC},
    {"sin", T_FUNCTION, EW_SIN}, {"sinh", T_FUNCTION, EW_SINH}, {"sqrt", T_SQRT, 0}, {"tan", T_FUNCTION, EW_TAN},
    {"tanh", T_FUNCTION, EW_TANH}, {"theta", T_NAME, 0}, {"to", T_COLON, 0},
    {"union", T_UNION, 0},
};

static int compare_name(const char *name, size_t length, const char *entry) {
    int order = strncmp(name, entry, length);
    return order ? order : entry[length] ? -1 : 0;
}

static const ew_word *find(const ew_word *table, size_t n, const char *name, size_t length) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_name(name, length, table[middle].name);
        if (order == 0) {
            return &table[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const ew_word *ew_find_command(const char *name, size_t length) {
    return find(commands, sizeof commands / sizeof *commands, name, length);
}

const ew_word *ew_find_word(const char *name, size_t length) {
    return find(words, sizeof words / sizeof *words, name, length);
}

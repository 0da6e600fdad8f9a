/* From a request to a problem: kinds of step that fit each other, numbers that fit the kinds, words. */
#include "problem.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

enum { WORD = 24, TRIES = 40, NUMBERS = 3 };

typedef struct composer {
    const tiny_request *request;
    tiny_problem *problem;
    uint64_t index, counter; /* of the random numbers */
    tiny_world world;
    int value, n_equations;
    char person[WORD], other[WORD], object[WORD];
    bool made_up;                          /* names and things that no dictionary has */
    const char *used[2 * TINY_MOST_KINDS]; /* names that had their part */
    size_t n_used;
    bool failed;
} composer;

static uint64_t random_below(composer *c, uint64_t n) {
    return ew_random_bits(c->request->seed, c->index, c->counter++) % n;
}

#define PICK(c, list) ((list)[random_below(c, sizeof(list) / sizeof *(list))])

/* least .. most; fails the attempt when that is empty. */
static int random_between(composer *c, int least, int most) {
    if (most < least) {
        c->failed = true;
        return least;
    }
    return least + (int)random_below(c, (uint64_t)(most - least) + 1);
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* ---- Words ---- */

/* One of the words that are kept from training. */
static bool is_kept(const char *word) {
    size_t n[3] = {0};
    const char *const *const lists[] = {tiny_names(true, &n[0]), tiny_objects(TINY_THINGS, true, &n[1]),
                                        tiny_objects(TINY_FOOD, true, &n[2])};
    for (size_t list = 0; list < 3; list++) {
        for (size_t i = 0; i < n[list]; i++) {
            if (strcmp(word, lists[list][i]) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* A word that no dictionary has: two or three syllables of many shapes, for names and things to come have all of them. */
static void make_up(composer *c, bool capital, const char *end, char out[WORD]) {
    static const char *const onsets[] = {"b",  "c",  "d",  "f",  "g",  "h",  "j",  "k",  "l",  "m",  "n",  "p",
                                         "r",  "s",  "t",  "v",  "w",  "y",  "z",  "br", "cl", "dr", "fl", "gr",
                                         "pl", "pr", "qu", "sh", "sk", "st", "tr", "th", "",   "",   "",   ""};
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "a", "e", "i", "o", "u", "ai", "ea", "ie", "oo"};
    static const char *const codas[] = {"", "", "", "", "l", "m", "n", "r", "s", "t", "ck", "nd", "rt", "st"};
    do {
        size_t n = 0, syllables = random_below(c, 4) == 0 ? 3 : 2;
        for (size_t i = 0; i < syllables; i++) {
            const char *onset = PICK(c, onsets), *vowel = PICK(c, vowels), *coda = PICK(c, codas);
            n += (size_t)snprintf(out + n, WORD - n, "%s%s%s", onset, vowel, coda);
        }
        snprintf(out + n, WORD - n, "%s", end);
        if (capital) {
            out[0] = (char)(out[0] - 'a' + 'A');
        }
    } while (is_kept(out));
}

static void new_name(composer *c, char out[WORD]) {
    size_t n = 0;
    const char *const *names = tiny_names(c->request->unseen & TINY_UNSEEN_NAMES, &n), *name = NULL;
    if (c->made_up && !(c->request->unseen & TINY_UNSEEN_NAMES)) {
        make_up(c, true, "", out);
        return;
    }
    for (bool again = true; again;) {
        name = names[random_below(c, n)];
        again = false;
        for (size_t i = 0; i < c->n_used; i++) {
            again = again || c->used[i] == name;
        }
    }
    c->used[c->n_used++] = name;
    snprintf(out, WORD, "%s", name);
}

static void new_object(composer *c) {
    size_t n = 0;
    bool unseen = c->request->unseen & TINY_UNSEEN_OBJECTS;
    const char *const *objects = tiny_objects(c->world, unseen, &n);
    if (c->made_up && !unseen && c->world & TINY_COUNTED) {
        make_up(c, false, "s", c->object);
    } else {
        snprintf(c->object, WORD, "%s", objects[random_below(c, n)]);
    }
}

static void say(composer *c, const char *text) {
    size_t length = strlen(c->problem->text);
    int n = snprintf(c->problem->text + length, TINY_TEXT - length, "%s%s", length > 0 ? " " : "", text);
    c->failed = c->failed || n < 0 || (size_t)n >= TINY_TEXT - length;
}

/* Words in no order, half of them of no meaning, so that what matters is learned and not which sentences may be passed
 * over. */
static void say_nonsense(composer *c) {
    static const char *const small_words[] = {"the",  "a",    "of",   "there", "was", "his",  "her",  "my",   "to",   "in",
                                              "on",   "for",  "is",   "it",    "and", "with", "from", "by",   "that", "this",
                                              "we",   "they", "you",  "are",   "not", "but",  "what", "when", "who",  "so",
                                              "very", "many", "some", "all",   "one", "two",  "no",   "here", "then", "after"};
    char text[160];
    size_t n = 0, n_words = 3 + (size_t)random_below(c, 5);
    for (size_t i = 0; i < n_words; i++) {
        char word[WORD];
        if (random_below(c, 2) == 0) {
            make_up(c, false, "", word);
        } else {
            snprintf(word, WORD, "%s", PICK(c, small_words));
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? " " : "", word);
    }
    snprintf(text + n, sizeof text - n, ".");
    text[0] = (char)(text[0] - 'a' + 'A');
    say(c, text);
}

/* A quarter of all problems begins with a sentence that has nothing to do with them. */
static void say_opening(composer *c) {
    size_t n = 0;
    bool unseen = c->request->unseen & TINY_UNSEEN_OPENINGS;
    const char *const *openings = tiny_openings(unseen, &n);
    if (!unseen && (c->request->unseen || random_below(c, 4) != 0)) {
        return;
    }
    if (unseen || random_below(c, 3) == 0) {
        say(c, openings[random_below(c, n)]);
    } else {
        say_nonsense(c);
    }
}

static void say_wording(composer *c, const char *wording, const int numbers[NUMBERS]) {
    char text[TINY_TEXT];
    size_t n = 0;
    if (strstr(wording, "{F}")) {
        new_name(c, c->other);
    }
    for (const char *at = wording; *at && n + WORD + 1 < sizeof text; at++) {
        if (*at != '{') {
            text[n++] = *at;
            continue;
        }
        char word[WORD];
        switch (at[1]) {
        case 'N':
            snprintf(word, sizeof word, "%s", c->person);
            break;
        case 'F':
            snprintf(word, sizeof word, "%s", c->other);
            break;
        case 'o':
            snprintf(word, sizeof word, "%s", c->object);
            break;
        default:
            snprintf(word, sizeof word, "%d", numbers[at[1] - 'a']);
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", word);
        at += 2;
    }
    text[n] = '\0';
    say(c, text);
}

/* ---- Numbers and equations ---- */

static int equate(composer *c, int left, char operator, int right) {
    char *out = c->problem->solution;
    size_t length = strlen(out);
    int result = operator== '+' ? left + right :
                 operator== '-' ? left - right
                 :
                 operator== '*' ? left * right
                                : left / right;
    bool exact = operator!= '/' || left % right == 0;
    c->failed = c->failed || !exact || result < 1 || result > TINY_LARGEST;
    snprintf(out + length, TINY_TEXT - length, "%s%d%c%d=%d", length > 0 ? "\n" : "", left, operator, right, result);
    c->n_equations++;
    return result;
}

static void draw_product(composer *c, int numbers[NUMBERS]) {
    bool small = random_below(c, 2) == 0;
    int a = random_between(c, 2, small ? 12 : 9);
    int b = random_between(c, 2, small ? 12 : smaller(TINY_LARGEST_OPERAND, TINY_LARGEST / a));
    bool turned = random_below(c, 2) == 0;
    numbers[0] = turned ? b : a;
    numbers[1] = turned ? a : b;
}

static void draw_start(composer *c, const tiny_kind *kind, int numbers[NUMBERS]) {
    switch (kind->action) {
    case TINY_PRODUCT:
        draw_product(c, numbers);
        break;
    case TINY_MULTIPLE:
        numbers[0] = random_between(c, 2, smaller(TINY_LARGEST_OPERAND, TINY_LARGEST / kind->factor));
        break;
    case TINY_NEST:
        for (size_t i = 0; i < NUMBERS; i++) {
            numbers[i] = random_between(c, 2, i < 2 ? 6 : 12);
        }
        break;
    default:
        numbers[0] = random_between(c, kind->action == TINY_REST ? 10 : 2, TINY_LARGEST_OPERAND);
        numbers[1] = random_between(c, 2, kind->action == TINY_REST ? numbers[0] - 1 : TINY_LARGEST_OPERAND);
    }
}

/* A divisor of v from 2 to 10 that leaves more than 1. */
static int draw_divisor(composer *c, int v) {
    int divisors[9], n = 0;
    for (int d = 2; d <= 10; d++) {
        if (v % d == 0 && v / d > 1) {
            divisors[n++] = d;
        }
    }
    return n > 0 ? divisors[random_between(c, 0, n - 1)] : random_between(c, 1, 0);
}

static void draw_numbers(composer *c, const tiny_kind *kind, int numbers[NUMBERS]) {
    int v = c->value;
    switch (kind->action) {
    case TINY_ADD:
    case TINY_BOTH_ADD:
        numbers[0] = random_between(c, 2, smaller(TINY_LARGEST_OPERAND, TINY_LARGEST - v));
        break;
    case TINY_TAKE:
    case TINY_BOTH_TAKE:
        numbers[0] = random_between(c, 2, smaller(TINY_LARGEST_OPERAND, v - 1));
        break;
    case TINY_TIMES:
    case TINY_BOTH_TIMES:
    case TINY_EXCESS_TIMES:
        numbers[0] = random_between(c, 2, smaller(10, TINY_LARGEST / v));
        break;
    case TINY_ADD_PRODUCT:
    case TINY_TAKE_PRODUCT:
        numbers[0] = random_between(c, 2, 9);
        numbers[1] = random_between(c, 2, 12);
        break;
    case TINY_DIVIDE:
        numbers[0] = draw_divisor(c, v);
        break;
    case TINY_MISSING:
        numbers[0] = random_between(c, v + 2, TINY_LARGEST_OPERAND);
        break;
    case TINY_FACTOR:
    case TINY_PART:
    case TINY_TAKE_PART:
        break; /* the words have the number */
    default:
        draw_start(c, kind, numbers);
    }
}

static void reckon(composer *c, const tiny_kind *kind, const int n[NUMBERS]) {
    static const char operators[] = {
        [TINY_PRODUCT] = '*',   [TINY_SUM] = '+',        [TINY_REST] = '-',        [TINY_MULTIPLE] = '*',
        [TINY_NEST] = '*',      [TINY_ADD] = '+',        [TINY_TAKE] = '-',        [TINY_TIMES] = '*',
        [TINY_FACTOR] = '*',    [TINY_PART] = '/',       [TINY_DIVIDE] = '/',      [TINY_BOTH_ADD] = '+',
        [TINY_BOTH_TAKE] = '-', [TINY_BOTH_TIMES] = '*', [TINY_EXCESS_TIMES] = '*'};
    int v = c->value, part;
    switch (kind->action) {
    case TINY_PLAIN:
        c->value = n[0];
        break;
    case TINY_PRODUCT:
    case TINY_SUM:
    case TINY_REST:
        c->value = equate(c, n[0], operators[kind->action], n[1]);
        break;
    case TINY_MULTIPLE:
        c->value = equate(c, n[0], '*', kind->factor);
        break;
    case TINY_NEST:
        c->value = equate(c, equate(c, n[0], '*', n[1]), '*', n[2]);
        break;
    case TINY_FACTOR:
    case TINY_PART:
        c->value = equate(c, v, operators[kind->action], kind->factor);
        break;
    case TINY_ADD_PRODUCT:
    case TINY_TAKE_PRODUCT:
        part = equate(c, n[0], '*', n[1]);
        c->value = equate(c, v, kind->action == TINY_ADD_PRODUCT ? '+' : '-', part);
        break;
    case TINY_TAKE_PART:
        part = equate(c, v, '/', kind->factor);
        c->value = equate(c, v, '-', part);
        break;
    case TINY_MISSING:
        c->value = equate(c, n[0], '-', v);
        break;
    case TINY_BOTH_ADD:
    case TINY_BOTH_TAKE:
    case TINY_BOTH_TIMES:
        part = equate(c, v, operators[kind->action], n[0]);
        c->value = equate(c, v, '+', part);
        break;
    case TINY_EXCESS_TIMES:
        part = equate(c, v, '*', n[0]);
        c->value = equate(c, part, '-', v);
        break;
    default:
        c->value = equate(c, v, operators[kind->action], n[0]);
    }
}

static int equations_of(tiny_action action) {
    switch (action) {
    case TINY_PLAIN:
        return 0;
    case TINY_NEST:
    case TINY_ADD_PRODUCT:
    case TINY_TAKE_PRODUCT:
    case TINY_TAKE_PART:
    case TINY_BOTH_ADD:
    case TINY_BOTH_TAKE:
    case TINY_BOTH_TIMES:
    case TINY_EXCESS_TIMES:
        return 2;
    default:
        return 1;
    }
}

/* ---- Composition ---- */

static bool fits(const composer *c, const tiny_kind *kind, bool first, int left) {
    int n = equations_of(kind->action);
    if (!(kind->worlds & (unsigned)c->world) || (kind->place == TINY_START) != first || n > left) {
        return false;
    }
    return kind->place == TINY_CLOSE ? n == left : true;
}

/* A kind that fits, with numbers that fit: some are drawn in vain. Closing questions, which are many, are drawn half of
 * the time where one can stand. */
static bool add_step(composer *c, bool first, int left, bool *closed) {
    bool close = random_below(c, 2) == 0;
    for (int i = 0; i < TRIES; i++) {
        const tiny_kind *kind = &tiny_kinds[random_below(c, tiny_n_kinds)];
        if (!fits(c, kind, first, left) || (i < TRIES / 2 && !first && (kind->place == TINY_CLOSE) != close)) {
            continue;
        }
        const composer before = *c;
        char solution[TINY_TEXT];
        int numbers[NUMBERS] = {0};
        memcpy(solution, c->problem->solution, sizeof solution);
        draw_numbers(c, kind, numbers);
        if (!c->failed) {
            reckon(c, kind, numbers);
        }
        if (c->failed) {
            uint64_t counter = c->counter;
            *c = before;
            c->counter = counter;
            memcpy(c->problem->solution, solution, sizeof solution);
            continue;
        }
        say_wording(c, kind->wordings[random_below(c, 3)], numbers);
        if (kind->place == TINY_RELATION) {
            memcpy(c->person, c->other, sizeof c->person);
        }
        c->problem->kinds[c->problem->n_kinds++] = kind->name;
        *closed = kind->place == TINY_CLOSE;
        return true;
    }
    return false;
}

static bool compose(composer *c) {
    static const tiny_world worlds[] = {TINY_THINGS, TINY_THINGS, TINY_THINGS,  TINY_FOOD,    TINY_FOOD,
                                        TINY_MILES,  TINY_PAGES,  TINY_DOLLARS, TINY_DOLLARS, TINY_LITRES};
    const tiny_request *request = c->request;
    bool closed = false;
    memset(c->problem, 0, sizeof *c->problem);
    c->problem->n_steps = random_between(c, request->least_steps, request->most_steps);
    bool counted = request->unseen & TINY_UNSEEN_OBJECTS;
    c->world = worlds[random_below(c, counted ? 5 : sizeof worlds / sizeof *worlds)];
    c->made_up = !request->unseen && random_below(c, 5) < 2;
    new_object(c);
    new_name(c, c->person);
    say_opening(c);
    bool sound = add_step(c, true, c->problem->n_steps, &closed);
    while (sound && c->n_equations < c->problem->n_steps) {
        sound =
            c->problem->n_kinds < TINY_MOST_KINDS && add_step(c, false, c->problem->n_steps - c->n_equations, &closed);
    }
    if (sound && !closed) {
        const int none[NUMBERS] = {0};
        say_wording(c, tiny_questions(c->world)[random_below(c, 3)], none);
    }
    c->problem->answer = c->value;
    c->problem->bare = random_below(c, 100) < (uint64_t)request->bare_percent;
    return sound && !c->failed;
}

void tiny_make(const tiny_request *request, uint64_t index, tiny_problem *problem) {
    uint64_t counter = 0;
    for (bool done = false; !done;) {
        composer c = {.request = request, .problem = problem, .index = index, .counter = counter};
        done = compose(&c) && tiny_held_out(problem) == request->test;
        counter = c.counter;
    }
}

/* FNV-1a of the equations, finished well. */
uint64_t tiny_hash(const tiny_problem *problem) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = problem->solution; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    }
    return ew_random_mix(hash);
}

bool tiny_held_out(const tiny_problem *problem) {
    return tiny_hash(problem) % 10 == 0;
}

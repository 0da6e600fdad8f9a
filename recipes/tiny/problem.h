/* Quantity problems of one to five steps, each a function of (seed, index) and of what is asked for. */
#ifndef TINY_PROBLEM_H
#define TINY_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TINY_MOST_STEPS = 5, TINY_MOST_KINDS = 8, TINY_TEXT = 1024, TINY_LARGEST = 200, TINY_LARGEST_OPERAND = 60 };

/* Worlds: what the quantity is. A kind of step says in which it makes sense. */
typedef enum tiny_world {
    TINY_THINGS = 1,
    TINY_FOOD = 2,
    TINY_MILES = 4,
    TINY_PAGES = 8,
    TINY_DOLLARS = 16,
    TINY_LITRES = 32
} tiny_world;
enum { TINY_WORLDS = 6, TINY_COUNTED = TINY_THINGS | TINY_FOOD };

/* What a kind does with the quantity v and its numbers a, b, c (those that it uses are drawn and stand in its
 * wordings); `factor` is a number that the words say (a dozen: 12). One line of the solution for each equation. */
typedef enum tiny_action {
    TINY_PLAIN,        /* v = a; no equation */
    TINY_PRODUCT,      /* v = a * b */
    TINY_SUM,          /* v = a + b */
    TINY_REST,         /* v = a - b */
    TINY_MULTIPLE,     /* v = a * factor */
    TINY_NEST,         /* v = a * b, v * c */
    TINY_ADD,          /* v + a */
    TINY_TAKE,         /* v - a */
    TINY_TIMES,        /* v * a */
    TINY_FACTOR,       /* v * factor */
    TINY_PART,         /* v / factor */
    TINY_ADD_PRODUCT,  /* a * b, v + that */
    TINY_TAKE_PRODUCT, /* a * b, v - that */
    TINY_TAKE_PART,    /* v / factor, v - that */
    TINY_BOTH_ADD,     /* v + a, v + that */
    TINY_BOTH_TAKE,    /* v - a, v + that */
    TINY_BOTH_TIMES,   /* v * a, v + that */
    TINY_EXCESS_TIMES, /* v * a, that - v */
    TINY_DIVIDE,       /* v / a */
    TINY_MISSING,      /* a - v */
} tiny_action;

/* Where in a problem a kind stands. */
typedef enum tiny_place {
    TINY_START,    /* the first sentence */
    TINY_EVENT,    /* changes the quantity */
    TINY_RELATION, /* goes over to another person's quantity */
    TINY_CLOSE     /* ends with a question of its own; without one the world asks */
} tiny_place;

/* Wordings: {N} the person, {F} another one, {o} the things, {a} {b} {c} the numbers. */
typedef struct tiny_kind {
    const char *name;
    unsigned worlds;
    tiny_place place;
    tiny_action action;
    int factor;
    const char *wordings[3];
} tiny_kind;
extern const tiny_kind tiny_kinds[];
extern const size_t tiny_n_kinds;

const char *const *tiny_questions(tiny_world world); /* three */

/* Words. `unseen`: those that no training problem has. */
const char *const *tiny_names(bool unseen, size_t *n);
const char *const *tiny_objects(tiny_world world, bool unseen, size_t *n); /* plural */
const char *const *tiny_openings(bool unseen, size_t *n);

enum { TINY_UNSEEN_NAMES = 1, TINY_UNSEEN_OBJECTS = 2, TINY_UNSEEN_OPENINGS = 4 };

typedef struct tiny_request {
    uint64_t seed;
    int least_steps, most_steps;
    bool test;        /* of the tenth of all problems, by structure and numbers, that training never sees */
    unsigned unseen;  /* TINY_UNSEEN_...; else a quarter has made-up words and a quarter an opening sentence */
    int bare_percent; /* so many have no solution */
} tiny_request;

typedef struct tiny_problem {
    char text[TINY_TEXT];
    char solution[TINY_TEXT]; /* an equation a line; all of it, also where it is not to be shown */
    int answer, n_steps;
    bool bare;
    const char *kinds[TINY_MOST_KINDS];
    size_t n_kinds;
} tiny_problem;

void tiny_make(const tiny_request *request, uint64_t index, tiny_problem *problem);

/* Of structure and numbers: the equations, in their order, and nothing of the words. */
uint64_t tiny_hash(const tiny_problem *problem);
bool tiny_held_out(const tiny_problem *problem);

#endif

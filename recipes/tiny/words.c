/* Names, things and opening sentences: those of training and those kept from it. */
#include "problem.h"

#define LIST(list) (*n = sizeof(list) / sizeof *(list), (list))

static const char *const names[] = {"Anna",   "Ben",  "Clara", "David",  "Emma",  "Felix", "Grace", "Henry",
                                    "Ida",    "Jack", "Kate",  "Leo",    "Mia",   "Noah",  "Olga",  "Paul",
                                    "Rosa",   "Sam",  "Tina",  "Victor", "Wendy", "Zoe",   "Amir",  "Bella",
                                    "Carlos", "Dina", "Elena", "Frank",  "Hana",  "Ivan",  "Jana",  "Lucas"};
static const char *const unseen_names[] = {"Quentin", "Bridget", "Oskar",  "Priya",  "Gustav", "Yvonne",
                                           "Malik",   "Hector",  "Nadine", "Tobias", "Ursula", "Fabian",
                                           "Keiko",   "Rupert",  "Sigrid", "Dmitri"};

static const char *const things[] = {"pens", "books",  "stamps", "cards", "balls", "coins", "stickers", "buttons",
                                     "toys", "shells", "stones", "cups",  "hats",  "keys",  "candles",  "ropes"};
static const char *const unseen_things[] = {"marbles",  "ribbons",  "lanterns", "magnets", "postcards",
                                            "whistles", "feathers", "spoons",   "puzzles", "bracelets"};
static const char *const foods[] = {"apples", "eggs",  "cookies", "cakes",    "nuts",   "oranges",
                                    "rolls",  "pears", "plums",   "potatoes", "lemons", "candies"};
static const char *const unseen_foods[] = {"mangoes",  "pancakes", "radishes", "muffins",
                                           "apricots", "pretzels", "walnuts",  "dumplings"};
static const char *const miles[] = {"miles"};
static const char *const pages[] = {"pages"};
static const char *const dollars[] = {"dollars"};
static const char *const litres[] = {"litres"};

static const char *const openings[] = {"It is a sunny day.",
                                       "The sky is grey today.",
                                       "School is over.",
                                       "It is late in the evening.",
                                       "The shop opens at nine.",
                                       "A dog sleeps by the door.",
                                       "It rained all night.",
                                       "The train is on time.",
                                       "Summer has come.",
                                       "Music plays in the street.",
                                       "The cat is hungry again.",
                                       "Nobody is in a hurry.",
                                       "The garden is full of flowers.",
                                       "Snow lies on the roof.",
                                       "It is the first day of spring.",
                                       "The window is open.",
                                       "Here is a little story.",
                                       "Listen to this.",
                                       "Think about this one.",
                                       "The old clock stands still."};
static const char *const unseen_openings[] = {
    "Yesterday the museum closed early.",     "A strong wind blows from the harbour.",
    "The festival begins on Saturday.",       "Grandmother tells the family a tale.",
    "Please solve the following exercise.",   "Two birds quarrel above the chimney.",
    "The bakery smells wonderful in autumn.", "Once upon a time there was a village.",
    "Everybody waits for the bus.",           "My neighbour painted his fence yellow."};

const char *const *tiny_names(bool unseen, size_t *n) {
    return unseen ? LIST(unseen_names) : LIST(names);
}

const char *const *tiny_objects(tiny_world world, bool unseen, size_t *n) {
    switch (world) {
    case TINY_THINGS:
        return unseen ? LIST(unseen_things) : LIST(things);
    case TINY_FOOD:
        return unseen ? LIST(unseen_foods) : LIST(foods);
    case TINY_MILES:
        return LIST(miles);
    case TINY_PAGES:
        return LIST(pages);
    case TINY_DOLLARS:
        return LIST(dollars);
    default:
        return LIST(litres);
    }
}

const char *const *tiny_openings(bool unseen, size_t *n) {
    return unseen ? LIST(unseen_openings) : LIST(openings);
}

/* What the halves of the parser share: parse.c (lists, relations, sums) and primary.c (factors). */
#ifndef EW_GRADE_PARSER_H
#define EW_GRADE_PARSER_H

#include "grade/token.h"

typedef struct ew_parser {
    ew_work *work;
    ew_token *tokens; /* tokens[count] is T_END; \frac12 splits a number token in place */
    size_t at, count;
    int depth;
    int bars;      /* open | ... | */
    bool building; /* inside a set builder's first half: a bar ends it */
} ew_parser;

/* The token at hand; T_END for ever behind the last, wherever a failing parse has run to. */
static inline ew_token *ew_token_at(const ew_parser *parser) {
    return &parser->tokens[parser->at < parser->count ? parser->at : parser->count];
}
static inline uint8_t ew_token_ahead(const ew_parser *parser, size_t n) {
    return parser->at + n < parser->count ? parser->tokens[parser->at + n].type : (uint8_t)T_END;
}
static inline bool ew_accept(ew_parser *parser, ew_token_type type) {
    if (ew_token_at(parser)->type == type) {
        parser->at++;
        return true;
    }
    return false;
}
/* False when nested too deeply; undone by ew_leave. */
bool ew_enter(ew_parser *parser);
void ew_leave(ew_parser *parser);

/* Each returns NULL when the tokens at hand are not what it reads; the whole parse fails then. */
ew_expr *ew_parse_list(ew_parser *parser);     /* a, b or c */
ew_expr *ew_parse_relation(ew_parser *parser); /* a < b <= c, unions */
ew_expr *ew_parse_sum(ew_parser *parser);
ew_expr *ew_parse_product(ew_parser *parser);
ew_expr *ew_parse_factor(ew_parser *parser);  /* a primary with its powers, factorials, subscripts, units */
ew_expr *ew_parse_primary(ew_parser *parser); /* without them */
ew_expr *ew_parse_suffixes(ew_parser *parser, ew_expr *value); /* what may stand behind a primary */
ew_expr *ew_parse_argument(ew_parser *parser);                 /* of a LaTeX command: {group} or one token */
bool ew_starts_factor(const ew_parser *parser);

/* A growing array of expressions. */
typedef struct ew_items {
    ew_expr **data;
    uint32_t count, capacity;
} ew_items;
bool ew_items_push(ew_work *work, ew_items *items, ew_expr *expr);
ew_expr *ew_items_expr(ew_work *work, ew_kind kind, const ew_items *items);

#endif

/* Do two answers say the same? */
#ifndef EW_GRADE_COMPARE_H
#define EW_GRADE_COMPARE_H

#include "grade/expression.h"

typedef struct ew_comparison {
    ew_work *work;
    double tolerance;
    bool symmetric; /* for votes: no leniency that would make unequal answers equal to a third */
    bool list;      /* the task says that order does not matter */
    int depth;
} ew_comparison;

bool ew_same_answer(ew_comparison *comparison, const ew_expr *answer, const ew_expr *gold);

/* What the halves of the comparison share: compare.c (structure) and equation.c (values and relations). */
bool ew_same_scalar(ew_comparison *comparison, const ew_expr *a, const ew_expr *b);
bool ew_same_relation(ew_comparison *comparison, const ew_expr *a, const ew_expr *b);
/* The value that a relation like x = 5 gives, for comparison with a bare answer; NULL when it gives none. */
const ew_expr *ew_relation_value(ew_comparison *comparison, const ew_expr *relation);
bool ew_same_symbol(const ew_expr *a, const ew_expr *b);

#endif

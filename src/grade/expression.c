#include "grade/expression.h"

#include "grade/parser.h"

#include <string.h>

ew_expr *ew_expr_new(ew_work *work, ew_kind kind, uint32_t count) {
    ew_expr *expr = ew_work_allocate(work, sizeof *expr);
    ew_expr **items = count ? ew_work_allocate(work, count * sizeof *items) : NULL;
    if (!expr || (count && !items) || !ew_work_spend(work, 10)) {
        return NULL;
    }
    *expr = (ew_expr){.kind = (uint8_t)kind, .count = count, .items = items};
    return expr;
}

enum { TREE_LIMIT = 150 };

/* Sets the depth from the items; NULL when the tree grew too deep to walk. */
static ew_expr *measured(ew_expr *expr) {
    for (uint32_t i = 0; expr && i < expr->count; i++) {
        if (expr->items[i]->depth >= expr->depth) {
            expr->depth = (uint16_t)(expr->items[i]->depth + 1);
        }
    }
    return expr && expr->depth <= TREE_LIMIT ? expr : NULL;
}

ew_expr *ew_expr_unary(ew_work *work, ew_kind kind, ew_expr *a) {
    ew_expr *expr = a ? ew_expr_new(work, kind, 1) : NULL;
    if (expr) {
        expr->items[0] = a;
    }
    return measured(expr);
}

ew_expr *ew_expr_binary(ew_work *work, ew_kind kind, ew_expr *a, ew_expr *b) {
    ew_expr *expr = a && b ? ew_expr_new(work, kind, 2) : NULL;
    if (expr) {
        expr->items[0] = a;
        expr->items[1] = b;
    }
    return measured(expr);
}

ew_expr *ew_expr_call(ew_work *work, ew_function function, ew_expr *a, ew_expr *b) {
    ew_expr *expr = b ? ew_expr_binary(work, EW_CALL, a, b) : ew_expr_unary(work, EW_CALL, a);
    if (expr) {
        expr->op = (uint8_t)function;
    }
    return expr;
}

bool ew_items_push(ew_work *work, ew_items *items, ew_expr *expr) {
    if (!expr) {
        return false;
    }
    if (items->count == items->capacity) {
        uint32_t capacity = items->capacity ? items->capacity * 2 : 4;
        ew_expr **grown = ew_work_allocate(work, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        if (items->count) {
            memcpy(grown, items->data, items->count * sizeof *grown);
        }
        items->data = grown;
        items->capacity = capacity;
    }
    items->data[items->count++] = expr;
    return true;
}

ew_expr *ew_items_expr(ew_work *work, ew_kind kind, const ew_items *items) {
    ew_expr *expr = ew_expr_new(work, kind, 0);
    if (expr) {
        expr->items = items->data;
        expr->count = items->count;
    }
    return measured(expr);
}

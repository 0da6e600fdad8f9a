/* The KV cache: pages of 32 positions, all layers and heads of a position in one page, shared between streams until
 * one of them writes. */
#ifndef EW_MODEL_KV_CACHE_H
#define EW_MODEL_KV_CACHE_H

#include "base/error.h"
#include "kernel/kv_page.h"

/* What all streams of a session share: the shape of a page and how many there are. */
typedef struct ew_page_pool {
    ew_kv_layout layout;  /* of one layer's and head's part of a page */
    size_t n_kv_heads;
    size_t page_bytes;    /* layout.page_bytes * n_layers * n_kv_heads */
    size_t n_pages;       /* in use now */
    size_t n_pages_most;  /* 0: no limit */
    struct ew_page_slab *slabs; /* memory with room for further pages; NULL when there is none */
} ew_page_pool;

/* The cells of one stream: page i holds positions 32 i .. 32 i + 31. */
typedef struct ew_page_table {
    uint8_t **pages; /* start of each page's data; kept by reference count */
    size_t n_pages;
    size_t capacity;
} ew_page_table;

/* Byte offset in a page of one layer's and head's part. */
static inline size_t ew_page_offset(const ew_page_pool *pool, size_t layer, size_t kv_head) {
    return (layer * pool->n_kv_heads + kv_head) * pool->layout.page_bytes;
}

/* Makes positions begin .. end - 1 writable: pages that are missing are added, pages that others see too are copied.
 * EW_ERROR_CONTEXT when the pool's limit is reached, EW_ERROR_MEMORY. On error the table may have gained pages beyond
 * `begin`, which ew_page_table_truncate takes off; nothing that was visible has changed. */
ew_status ew_page_table_reserve(ew_page_pool *pool, ew_page_table *table, size_t begin, size_t end, ew_error *error);

/* Keeps the pages that hold the first `length` positions. */
void ew_page_table_truncate(ew_page_pool *pool, ew_page_table *table, size_t length);

/* `copy` (empty before) sees the pages that hold the first `length` positions. */
ew_status ew_page_table_share(const ew_page_table *table, size_t length, ew_page_table *copy, ew_error *error);

/* Gives all pages back and frees the table. */
void ew_page_table_free(ew_page_pool *pool, ew_page_table *table);

#endif

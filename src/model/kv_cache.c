#include "model/kv_cache.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Stands before a page's data, one cache line, so that the data stays aligned. */
typedef struct page_header {
    size_t n_references;
} page_header;

enum { HEADER_BYTES = 64 };

static page_header *header_of(uint8_t *page) {
    return (page_header *)(void *)(page - HEADER_BYTES);
}

static ew_status add_page(ew_page_pool *pool, uint8_t **page, ew_error *error) {
    if (pool->n_pages_most > 0 && pool->n_pages >= pool->n_pages_most) {
        return ew_fail(error, EW_ERROR_CONTEXT, "the KV memory is full: %zu pages of %d positions, %zu bytes in all",
                       pool->n_pages, EW_PAGE_POSITIONS, pool->n_pages * pool->page_bytes);
    }
    size_t bytes;
    uint8_t *memory = NULL;
    if (ew_add_size(pool->page_bytes, HEADER_BYTES, &bytes)) {
        memory = ew_allocate_aligned(1, bytes);
    }
    if (!memory) {
        return ew_fail_memory(error, pool->page_bytes, "a page of the KV cache");
    }
    *page = memory + HEADER_BYTES;
    header_of(*page)->n_references = 1;
    pool->n_pages++;
    return EW_OK;
}

static void release_page(ew_page_pool *pool, uint8_t *page) {
    if (--header_of(page)->n_references == 0) {
        free(page - HEADER_BYTES);
        pool->n_pages--;
    }
}

static ew_status make_page_writable(ew_page_pool *pool, uint8_t **page, ew_error *error) {
    if (header_of(*page)->n_references == 1) {
        return EW_OK;
    }
    uint8_t *copy = NULL;
    ew_status status = add_page(pool, &copy, error);
    if (status == EW_OK) {
        memcpy(copy, *page, pool->page_bytes);
        release_page(pool, *page);
        *page = copy;
    }
    return status;
}

ew_status ew_page_table_reserve(ew_page_pool *pool, ew_page_table *table, size_t begin, size_t end, ew_error *error) {
    size_t wanted = (end + EW_PAGE_POSITIONS - 1) / EW_PAGE_POSITIONS;
    if (!ew_grow((void **)&table->pages, &table->capacity, wanted, sizeof *table->pages)) {
        return ew_fail_memory(error, wanted * sizeof *table->pages, "a table of KV pages");
    }
    for (size_t i = begin / EW_PAGE_POSITIONS; i < wanted; i++) {
        ew_status status;
        if (i < table->n_pages) {
            status = make_page_writable(pool, &table->pages[i], error);
        } else {
            status = add_page(pool, &table->pages[i], error);
            table->n_pages += status == EW_OK;
        }
        if (status != EW_OK) {
            return status;
        }
    }
    return EW_OK;
}

void ew_page_table_truncate(ew_page_pool *pool, ew_page_table *table, size_t length) {
    size_t kept = (length + EW_PAGE_POSITIONS - 1) / EW_PAGE_POSITIONS;
    while (table->n_pages > kept) {
        release_page(pool, table->pages[--table->n_pages]);
    }
}

ew_status ew_page_table_share(const ew_page_table *table, size_t length, ew_page_table *copy, ew_error *error) {
    size_t n_pages = (length + EW_PAGE_POSITIONS - 1) / EW_PAGE_POSITIONS;
    if (!ew_grow((void **)&copy->pages, &copy->capacity, n_pages, sizeof *copy->pages)) {
        return ew_fail_memory(error, n_pages * sizeof *copy->pages, "a table of KV pages");
    }
    for (size_t i = 0; i < n_pages; i++) {
        copy->pages[i] = table->pages[i];
        header_of(copy->pages[i])->n_references++;
    }
    copy->n_pages = n_pages;
    return EW_OK;
}

void ew_page_table_free(ew_page_pool *pool, ew_page_table *table) {
    ew_page_table_truncate(pool, table, 0);
    free(table->pages);
    *table = (ew_page_table){0};
}

#include "model/kv_cache.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Pages come from slabs: small ones while there is little to hold, then ones that ew_allocate_aligned makes of the system's
 * large pages. Attention reads a little of every page, and would look up an address for each of these. */
enum { SLAB_BYTES = 10 << 20, LITTLE = 2 << 20 };

/* The head of a slab. A slab with free pages is in the pool's list. */
struct ew_page_slab {
    struct ew_page_slab *previous, *next;
    size_t n_pages, n_free;
    uint8_t *free; /* a page, whose header points to the next; pages behind n_touched have never been used */
    size_t n_touched;
};

/* Stands before a page's data, one cache line, so that the data stays aligned. */
typedef struct page_header {
    size_t n_references;
    struct ew_page_slab *slab;
    uint8_t *next_free;
} page_header;

enum { HEADER_BYTES = 64 };

_Static_assert(sizeof(struct ew_page_slab) <= HEADER_BYTES && sizeof(page_header) <= HEADER_BYTES, "room for heads");

static page_header *header_of(uint8_t *page) {
    return (page_header *)(void *)(page - HEADER_BYTES);
}

static void list_slab(ew_page_pool *pool, struct ew_page_slab *slab) {
    slab->previous = NULL;
    slab->next = pool->slabs;
    if (slab->next) {
        slab->next->previous = slab;
    }
    pool->slabs = slab;
}

static void unlist_slab(ew_page_pool *pool, struct ew_page_slab *slab) {
    if (slab->next) {
        slab->next->previous = slab->previous;
    }
    if (slab->previous) {
        slab->previous->next = slab->next;
    } else {
        pool->slabs = slab->next;
    }
}

/* At first as many pages as there are already. */
static ew_status add_slab(ew_page_pool *pool, ew_error *error) {
    size_t page = pool->page_bytes + HEADER_BYTES, n = (SLAB_BYTES - HEADER_BYTES) / page, bytes;
    n = pool->n_pages >= LITTLE / page || n < pool->n_pages ? n : pool->n_pages;
    if (pool->n_pages_most > 0 && n > pool->n_pages_most - pool->n_pages) {
        n = pool->n_pages_most - pool->n_pages;
    }
    n = n > 0 ? n : 1;
    struct ew_page_slab *slab = NULL;
    if (ew_multiply_size(n, page, &bytes) && ew_add_size(bytes, HEADER_BYTES, &bytes)) {
        slab = ew_allocate_aligned(bytes, 1);
    }
    if (!slab) {
        return ew_fail_memory(error, pool->page_bytes, "a page of the KV cache");
    }
    slab->n_pages = slab->n_free = n;
    list_slab(pool, slab);
    return EW_OK;
}

/* A page of a slab that has one, zeroed. */
static uint8_t *take_page(ew_page_pool *pool, struct ew_page_slab *slab) {
    uint8_t *page = slab->free;
    if (page) {
        slab->free = header_of(page)->next_free;
        memset(page, 0, pool->page_bytes);
    } else {
        page = (uint8_t *)slab + HEADER_BYTES + slab->n_touched++ * (pool->page_bytes + HEADER_BYTES) + HEADER_BYTES;
    }
    if (--slab->n_free == 0) {
        unlist_slab(pool, slab);
    }
    *header_of(page) = (page_header){.n_references = 1, .slab = slab};
    return page;
}

static ew_status add_page(ew_page_pool *pool, uint8_t **page, ew_error *error) {
    if (pool->n_pages_most > 0 && pool->n_pages >= pool->n_pages_most) {
        return ew_fail(error, EW_ERROR_CONTEXT, "the KV memory is full: %zu pages of %d positions, %zu bytes in all",
                       pool->n_pages, EW_PAGE_POSITIONS, pool->n_pages * pool->page_bytes);
    }
    ew_status status = pool->slabs ? EW_OK : add_slab(pool, error);
    if (status == EW_OK) {
        *page = take_page(pool, pool->slabs);
        pool->n_pages++;
    }
    return status;
}

static void release_page(ew_page_pool *pool, uint8_t *page) {
    struct ew_page_slab *slab = header_of(page)->slab;
    if (--header_of(page)->n_references > 0) {
        return;
    }
    pool->n_pages--;
    header_of(page)->next_free = slab->free;
    slab->free = page;
    if (slab->n_free++ == 0) {
        list_slab(pool, slab);
    }
    if (slab->n_free == slab->n_pages) {
        unlist_slab(pool, slab);
        free(slab);
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

/* Heap: the large blocks of memory, cut from regions of address space and joined again.
 *
 * Takes: byte counts.
 * Gives: memory at multiples of 64 bytes; freed memory is kept for reuse until it is given back to
 * the system.
 * Keeps true: the spans of a region stand next to each other and cover it; a free span is in the
 * list of its bin, and either warm (the process has its pages) or cold (it has not); no two warm
 * spans stand next to each other, nor two cold ones; `warm_free` is the bytes of the warm ones.
 * A request takes the shortest warm span that the search sees, else touches new pages: the process
 * holds little more than the most that was in use at a time.
 *
 * Any thread may call (a lock, also held over a fork). Static state: include this header in exactly
 * one translation unit. The idea is the boundary tags and bins of Knuth, The Art of Computer
 * Programming 1, 2.5. */
#ifndef FK_HEAP_H
#define FK_HEAP_H
#include "fk_base.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

typedef struct fk_span {
    int64_t bytes;                   /* header included */
    struct fk_span *before;          /* ends where this one starts; NULL: the region starts here */
    struct fk_span *next, *previous; /* in the list of a bin, while free */
    int8_t free, warm, last;         /* `last`: the region ends with it */
} fk_span;

typedef struct fk_region {
    struct fk_region *next, *previous;
    int64_t bytes, advised;
} fk_region;

enum {
    FK_SPAN_HEADER = 64,
    FK_SPAN_UNIT = 256, /* all spans start at one offset to it */
    FK_REGION_HEADER = 192, /* so that a storage's data starts 128 bytes past a unit: threads that
                               share rows of 512 bytes read 15 % faster there than at 0 (Zen 4) */
    FK_SPAN_LEAST = 4096, /* a smaller rest stays with the span that is cut */
    FK_BINS = 8 * 48,     /* eight to an octave */
    FK_BIN_WORDS = (FK_BINS + 63) / 64,
    FK_SEARCH = 32, /* spans of a bin that are looked at */
};
_Static_assert(sizeof(fk_span) <= FK_SPAN_HEADER, "the header must fit before the data");
_Static_assert(sizeof(fk_region) <= FK_REGION_HEADER, "the first span must stay aligned");
#define FK_HUGE_PAGE ((int64_t)2 << 20)
#define FK_REGION_BYTES ((int64_t)1 << 30) /* of address space; its pages come when touched */

static struct {
    fk_span *bins[2][FK_BINS]; /* cold, warm */
    uint64_t filled[2][FK_BIN_WORDS];
    fk_region *regions;
    _Atomic int64_t warm_free; /* written under the lock, read also without */
    _Atomic int lock;
    int fork_handler;
} fk_heap;

FK_LOCAL void fk_heap_lock(void) { fk_lock(&fk_heap.lock); }
FK_LOCAL void fk_heap_unlock(void) { fk_unlock(&fk_heap.lock); }

FK_INLINE int64_t fk_heap_free(void) {
    return atomic_load_explicit(&fk_heap.warm_free, memory_order_relaxed);
}

FK_INLINE void fk_heap_add_free(int64_t bytes) {
    atomic_store_explicit(&fk_heap.warm_free, fk_heap_free() + bytes, memory_order_relaxed);
}

/* ---- bins ---- */

FK_INLINE int fk_bin(int64_t bytes) {
    int octave = 63 - __builtin_clzll((uint64_t)bytes);
    int bin = ((octave - 10) << 3) + (int)((bytes >> (octave - 3)) & 7);
    return bin < 0 ? 0 : bin < FK_BINS ? bin : FK_BINS - 1;
}

FK_LOCAL void fk_span_enter(fk_span *span) {
    int bin = fk_bin(span->bytes);
    fk_span **first = &fk_heap.bins[span->warm][bin];
    span->free = 1;
    span->previous = NULL;
    span->next = *first;
    if (*first) (*first)->previous = span;
    *first = span;
    fk_heap.filled[span->warm][bin >> 6] |= (uint64_t)1 << (bin & 63);
    if (span->warm) fk_heap_add_free(span->bytes);
}

FK_LOCAL void fk_span_remove(fk_span *span) {
    int bin = fk_bin(span->bytes);
    if (span->next) span->next->previous = span->previous;
    if (span->previous) {
        span->previous->next = span->next;
    } else {
        fk_heap.bins[span->warm][bin] = span->next;
        if (!span->next) fk_heap.filled[span->warm][bin >> 6] &= ~((uint64_t)1 << (bin & 63));
    }
    span->free = 0;
    if (span->warm) fk_heap_add_free(-span->bytes);
}

/* the first filled bin at or after this one; FK_BINS where there is none */
FK_LOCAL int fk_bin_filled(int warm, int bin) {
    for (int word = bin >> 6; word < FK_BIN_WORDS; word++) {
        uint64_t bits = fk_heap.filled[warm][word];
        if (word == bin >> 6) bits &= ~(uint64_t)0 << (bin & 63);
        if (bits) return (word << 6) + __builtin_ctzll(bits);
    }
    return FK_BINS;
}

FK_LOCAL fk_span *fk_bin_best(int warm, int bin, int64_t bytes) {
    fk_span *best = NULL, *span = fk_heap.bins[warm][bin];
    for (int seen = 0; span && seen < FK_SEARCH; span = span->next, seen++)
        if (span->bytes >= bytes && (!best || span->bytes < best->bytes)) best = span;
    return best;
}

FK_LOCAL fk_span *fk_heap_find(int warm, int64_t bytes) {
    for (int bin = fk_bin(bytes); (bin = fk_bin_filled(warm, bin)) < FK_BINS; bin++) {
        fk_span *best = fk_bin_best(warm, bin, bytes);
        if (best) return best;
    }
    return NULL;
}

/* ---- spans ---- */

FK_INLINE fk_span *fk_span_after(fk_span *span) {
    return span->last ? NULL : (fk_span *)((char *)span + span->bytes);
}

/* Cuts a span in two; the second part is like the first, and in no list. */
FK_LOCAL fk_span *fk_span_cut(fk_span *span, int64_t bytes) {
    fk_span *rest = (fk_span *)((char *)span + bytes), *after = fk_span_after(span);
    rest->bytes = span->bytes - bytes;
    rest->before = span;
    rest->free = 0;
    rest->warm = span->warm;
    rest->last = span->last;
    if (after) after->before = rest;
    span->bytes = bytes;
    span->last = 0;
    return rest;
}

/* Joins a span with the one after it; neither may be in a list. */
FK_LOCAL void fk_span_join(fk_span *span, fk_span *second) {
    span->bytes += second->bytes;
    span->last = second->last;
    fk_span *after = fk_span_after(span);
    if (after) after->before = span;
}

/* Puts a free span into its list, joined with its neighbours of the same kind. */
FK_LOCAL fk_span *fk_span_settle(fk_span *span) {
    fk_span *after = fk_span_after(span), *before = span->before;
    if (after && after->free && after->warm == span->warm) {
        fk_span_remove(after);
        fk_span_join(span, after);
    }
    if (before && before->free && before->warm == span->warm) {
        fk_span_remove(before);
        fk_span_join(before, span);
        span = before;
    }
    fk_span_enter(span);
    return span;
}

/* ---- regions ---- */

FK_COLD char *fk_region_pages(int64_t bytes) {
    /* what one request asks for the system may refuse; the room for later ones is only addresses */
    int reserve = bytes > FK_REGION_BYTES ? 0 : MAP_NORESERVE;
    char *base = mmap(NULL, (size_t)(bytes + FK_HUGE_PAGE), PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | reserve, -1, 0);
    if (base == MAP_FAILED) return NULL;
    char *start = (char *)(((uintptr_t)base + FK_HUGE_PAGE - 1) & ~((uintptr_t)FK_HUGE_PAGE - 1));
    if (start > base) munmap(base, (size_t)(start - base));
    munmap(start + bytes, (size_t)(base + FK_HUGE_PAGE - start));
    return start;
}

/* A new region with room for `bytes`, as one cold span in no list; NULL when there is no room. */
FK_COLD fk_span *fk_region_new(int64_t bytes) {
    int64_t least = (bytes + FK_REGION_HEADER + FK_HUGE_PAGE - 1) & ~(FK_HUGE_PAGE - 1);
    int64_t length = least > FK_REGION_BYTES ? least : FK_REGION_BYTES;
    fk_region *region = (fk_region *)fk_region_pages(length);
    if (!region && length > least) region = (fk_region *)fk_region_pages(length = least);
    if (!region) return NULL;
    if (!fk_heap.fork_handler) /* a forked child finds the lists whole */
        fk_heap.fork_handler = !pthread_atfork(fk_heap_lock, fk_heap_unlock, fk_heap_unlock);
    region->bytes = length;
    region->advised = 0;
    region->previous = NULL;
    region->next = fk_heap.regions;
    if (region->next) region->next->previous = region;
    fk_heap.regions = region;
    fk_span *span = (fk_span *)((char *)region + FK_REGION_HEADER);
    *span = (fk_span){.bytes = length - FK_REGION_HEADER, .last = 1};
    return span;
}

FK_COLD void fk_region_free(fk_region *region) {
    if (region->next) region->next->previous = region->previous;
    if (region->previous)
        region->previous->next = region->next;
    else
        fk_heap.regions = region->next;
    munmap(region, (size_t)region->bytes);
}

/* Gives the pages of a warm free span back, and its region where nothing else is in it. */
FK_COLD void fk_span_cool(fk_span *span) {
    fk_span_remove(span);
    uintptr_t begin = ((uintptr_t)span + FK_SPAN_HEADER + 4095) & ~(uintptr_t)4095;
    uintptr_t end = ((uintptr_t)span + (uintptr_t)span->bytes) & ~(uintptr_t)4095;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
    span->warm = 0;
    span = fk_span_settle(span);
    if (!span->before && span->last) {
        fk_span_remove(span);
        fk_region_free((fk_region *)((char *)span - FK_REGION_HEADER));
    }
}

/* ---- taking and giving ---- */

/* Asks for huge pages behind a long span and all that follows it in its region. */
FK_COLD void fk_span_advise(fk_span *span) {
#ifdef MADV_HUGEPAGE
    fk_region *region = fk_heap.regions;
    while ((char *)span < (char *)region || (char *)span >= (char *)region + region->bytes)
        region = region->next;
    if (region->advised) return;
    region->advised = 1;
    char *begin = (char *)((uintptr_t)span & ~((uintptr_t)FK_HUGE_PAGE - 1));
    madvise(begin, (size_t)((char *)region + region->bytes - begin), MADV_HUGEPAGE);
#else
    (void)span;
#endif
}

/* Cold memory, with the warm memory before it. The span is in no list. */
FK_COLD fk_span *fk_heap_extend(int64_t bytes) {
    fk_span *span = fk_heap_find(0, bytes);
    if (span)
        fk_span_remove(span);
    else
        span = fk_region_new(bytes);
    if (!span) return NULL;
    fk_span *before = span->before;
    if (before && before->free && before->warm) {
        fk_span_remove(before);
        if (before->bytes >= bytes) { /* the search had not come to it */
            fk_span_enter(span);
            return before;
        }
        fk_span_join(before, span);
        span = before;
        span->warm = 0;
    }
    if (bytes >= FK_HUGE_PAGE) fk_span_advise(span);
    return span;
}

/* the bytes of a span for this much memory */
FK_INLINE int64_t fk_span_need(int64_t bytes) {
    return (bytes + FK_SPAN_HEADER + FK_SPAN_UNIT - 1) & ~(int64_t)(FK_SPAN_UNIT - 1);
}

FK_LOCAL fk_span *fk_heap_cut(int64_t need, int grow) {
    fk_span *span = fk_heap_find(1, need);
    if (span)
        fk_span_remove(span);
    else if (grow)
        span = fk_heap_extend(need);
    if (!span) return NULL;
    if (span->bytes - need >= FK_SPAN_LEAST) fk_span_settle(fk_span_cut(span, need));
    span->warm = 1;
    return span;
}

/* Uninitialised memory for `bytes`; NULL when there is none. `grow`: the process may grow for it. */
FK_LOCAL void *fk_heap_take(int64_t bytes, int grow) {
    fk_heap_lock();
    fk_span *span = fk_heap_cut(fk_span_need(bytes), grow);
    fk_heap_unlock();
    return span ? (char *)span + FK_SPAN_HEADER : NULL;
}

FK_INLINE fk_span *fk_span_of(const void *memory) {
    return (fk_span *)((char *)(uintptr_t)memory - FK_SPAN_HEADER);
}

/* The bytes that memory takes, header included. */
FK_INLINE int64_t fk_heap_bytes(const void *memory) { return fk_span_of(memory)->bytes; }

FK_LOCAL void fk_heap_give(void *memory) {
    fk_heap_lock();
    fk_span_settle(fk_span_of(memory));
    fk_heap_unlock();
}

/* A warm free span of about `bytes`, or the longest; cut from the end of the longest. */
FK_COLD fk_span *fk_heap_end(int64_t bytes) {
    int bin = FK_BINS - 1;
    while (!fk_heap.bins[1][bin]) bin--;
    fk_span *span = fk_heap.bins[1][bin];
    bytes = (bytes + FK_HUGE_PAGE - 1) & ~(FK_HUGE_PAGE - 1);
    if (span->bytes - bytes < FK_SPAN_LEAST) return span;
    fk_span_remove(span);
    fk_span *rest = fk_span_cut(span, span->bytes - bytes);
    fk_span_enter(span);
    fk_span_enter(rest);
    return rest;
}

/* Gives pages back to the system until at most `bytes` of free memory are warm. */
FK_COLD void fk_heap_trim(int64_t bytes) {
    fk_heap_lock();
    while (fk_heap_free() > bytes) fk_span_cool(fk_heap_end(fk_heap_free() - bytes));
    fk_heap_unlock();
}

/* Whether everything that is promised above holds; for the tests. */
FK_COLD int fk_heap_consistent(void) {
    int64_t warm_free = 0, listed = 0;
    for (fk_region *region = fk_heap.regions; region; region = region->next) {
        fk_span *span = (fk_span *)((char *)region + FK_REGION_HEADER), *before = NULL;
        for (; span; before = span, span = fk_span_after(span)) {
            if (span->before != before || span->bytes <= 0 || span->bytes % 64) return 0;
            if (span->free && before && before->free && before->warm == span->warm) return 0;
            if (span->free) listed++;
            if (span->free && span->warm) warm_free += span->bytes;
            if (span->last && (char *)span + span->bytes != (char *)region + region->bytes)
                return 0;
        }
    }
    for (int warm = 0; warm < 2; warm++)
        for (int bin = 0; bin < FK_BINS; bin++) {
            int filled = (int)(fk_heap.filled[warm][bin >> 6] >> (bin & 63) & 1);
            if (filled != (fk_heap.bins[warm][bin] != NULL)) return 0;
            for (fk_span *span = fk_heap.bins[warm][bin]; span; span = span->next, listed--)
                if (!span->free || span->warm != warm || fk_bin(span->bytes) != bin) return 0;
        }
    return !listed && warm_free == fk_heap_free();
}
#endif

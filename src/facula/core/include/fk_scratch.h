/* Scratch memory: what a kernel needs for the time of a call.
 *
 * Takes: byte counts, from any thread, with or without the GIL.
 * Gives: 64-byte-aligned uninitialised memory.
 * Keeps true: short blocks are kept in a few slots, warm in the caches of the processor; a long one
 * comes from the heap and goes back to it, so that tensors can have its pages; with FACULA_GUARD
 * every one is a guarded block of its own.
 *
 * Static state: include this header in exactly one translation unit. */
#ifndef FK_SCRATCH_H
#define FK_SCRATCH_H
#include "fk_base.h"
#include "fk_guard.h"
#include "fk_heap.h"
#include <stdint.h>
#include <stdlib.h>

enum {
    FK_SCRATCH_SLOTS = 24,
    FK_SCRATCH_LONG = 1 << 20, /* a longer block is the heap's */
};

typedef struct fk_scratch_block {
    int64_t length; /* with the 64-byte header; says where the block belongs */
    int64_t stamp; /* when it was released */
} fk_scratch_block;

static struct {
    _Atomic int lock;
    fk_scratch_block *slots[FK_SCRATCH_SLOTS];
    int64_t clock;
} fk_scratch_cache;

/* A forked child leaves the blocks of its parent alone: another thread may have held the lock. */
FK_COLD void fk_scratch_forget(void) { memset(&fk_scratch_cache, 0, sizeof fk_scratch_cache); }

/* Gives the kept blocks back to the system; returns the bytes. */
FK_COLD int64_t fk_scratch_empty(void) {
    int64_t bytes = 0;
    for (int i = 0; i < FK_SCRATCH_SLOTS; i++) {
        fk_lock(&fk_scratch_cache.lock);
        fk_scratch_block *block = fk_scratch_cache.slots[i];
        fk_scratch_cache.slots[i] = NULL;
        fk_unlock(&fk_scratch_cache.lock);
        if (block) bytes += block->length;
        free(block);
    }
    return bytes;
}

/* Takes the shortest kept block that is long enough out of its slot. Where there is none, the
 * longest of all comes out: the new one will serve in its stead. */
FK_LOCAL fk_scratch_block *fk_scratch_find(int64_t length) {
    int best = -1;
    for (int i = 0; i < FK_SCRATCH_SLOTS; i++) {
        fk_scratch_block *block = fk_scratch_cache.slots[i];
        if (!block) continue;
        int64_t had = best < 0 ? -1 : fk_scratch_cache.slots[best]->length;
        int longer = block->length > had;
        if (block->length >= length ? had < length || !longer : longer) best = i;
    }
    if (best < 0) return NULL;
    fk_scratch_block *block = fk_scratch_cache.slots[best];
    fk_scratch_cache.slots[best] = NULL;
    return block;
}

FK_COLD fk_scratch_block *fk_scratch_allocate(int64_t length) {
    void *memory = NULL;
    for (int attempt = 0; attempt < 2 && !memory; attempt++) {
        if (length > FK_SCRATCH_LONG)
            memory = fk_heap_take(length, 1);
        else if (posix_memalign(&memory, 64, (size_t)length))
            memory = NULL;
        if (!memory && !fk_scratch_empty()) break;
    }
    fk_scratch_block *block = memory;
    if (block) block->length = length;
    return block;
}

FK_COLD void *fk_scratch_guarded(int64_t bytes) {
    char *data;
    return fk_guard_take(bytes, 64, FK_GUARD_SCRATCH, &data) ? data : NULL;
}

/* 64-byte-aligned memory for the time of a call; NULL when there is none. */
FK_LOCAL void *fk_scratch(int64_t bytes) {
    fk_scratch_block *block = NULL;
    if (bytes < 0 || bytes > (int64_t)1 << 46) return NULL;
    if (FK_UNLIKELY(fk_guard_on())) return fk_scratch_guarded(bytes);
    int64_t length = (bytes + 64 + 4095) & ~(int64_t)4095;
    if (length <= FK_SCRATCH_LONG) {
        fk_lock(&fk_scratch_cache.lock);
        block = fk_scratch_find(length);
        fk_unlock(&fk_scratch_cache.lock);
    }
    if (block && block->length < length) {
        free(block);
        block = NULL;
    }
    if (!block) block = fk_scratch_allocate(length);
    return block ? (char *)block + 64 : NULL;
}

FK_LOCAL void fk_scratch_release(void *memory) {
    if (!memory) return;
    if (FK_UNLIKELY(fk_guard_on())) {
        fk_guard_give(fk_guard_run(memory));
        return;
    }
    fk_scratch_block *block = (fk_scratch_block *)((char *)memory - 64);
    if (block->length > FK_SCRATCH_LONG) {
        fk_heap_give(block);
        return;
    }
    fk_lock(&fk_scratch_cache.lock);
    int slot = 0; /* an empty one, else the one released longest ago */
    for (int i = 0; i < FK_SCRATCH_SLOTS && fk_scratch_cache.slots[slot]; i++)
        if (!fk_scratch_cache.slots[i] ||
            fk_scratch_cache.slots[i]->stamp < fk_scratch_cache.slots[slot]->stamp)
            slot = i;
    fk_scratch_block *dropped = fk_scratch_cache.slots[slot];
    block->stamp = ++fk_scratch_cache.clock;
    fk_scratch_cache.slots[slot] = block;
    fk_unlock(&fk_scratch_cache.lock);
    free(dropped);
}
#endif

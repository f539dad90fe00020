/* Launches without the GIL, and memory that outlives them.
 *
 * Takes: the begin and the end of every launch that runs without the GIL; storages that tensors give
 * up, and new sizes of storages, while such launches run.
 * Gives: a launch may use the memory that it began with, whatever becomes of its tensors meanwhile.
 * Keeps true: a storage, or a block of one, that was given up lives until every launch that began
 * before has ended; launches that begin later keep nothing back, so threads that launch without a
 * pause give memory back all the same. The caller holds the GIL (nothing here is atomic).
 *
 * Launches count in one of two phases. What is given up waits in `fresh`. Once nobody of the other
 * phase runs, the phases change places and `fresh` becomes `old`, which waits for those that then
 * belong to the other phase; later launches count in the new one. The idea is the grace periods of
 * McKenney & Slingwine, Read-Copy Update, 1998.
 *
 * Static state: include this header in exactly one translation unit. */
#ifndef FK_LAUNCH_H
#define FK_LAUNCH_H
#include "fk_base.h"
#include "fk_storage.h"
#include <pthread.h>

typedef struct fk_given_up {
    fk_storage *storage;
    struct fk_given_up *next;
} fk_given_up;

static struct {
    int64_t running[2]; /* launches by their phase */
    int phase;          /* of launches that begin now */
    int waits;          /* whether anything was given up and is still there */
    fk_given_up *old, *fresh;
} fk_launches;

FK_INLINE int fk_launch_begin(void) {
    int phase = fk_launches.phase;
    fk_launches.running[phase]++;
    return phase;
}

/* Gives back what no launch can use any more. */
FK_COLD void fk_launch_settle(void) {
    while (fk_launches.waits && !fk_launches.running[!fk_launches.phase]) {
        fk_given_up *done = fk_launches.old;
        fk_launches.old = fk_launches.fresh;
        fk_launches.fresh = NULL;
        fk_launches.phase = !fk_launches.phase;
        fk_launches.waits = fk_launches.old != NULL;
        while (done) { /* the lists are in order: what a storage releases may run anything */
            fk_given_up *next = done->next;
            fk_storage_decref(done->storage);
            free(done);
            done = next;
        }
    }
}

/* `phase`: what the launch got when it began. */
FK_INLINE void fk_launch_end(int phase) {
    if (!--fk_launches.running[phase] && FK_UNLIKELY(fk_launches.waits)) fk_launch_settle();
}

/* A reference goes, the storage not before the launches that run now. */
FK_COLD void fk_storage_give_up(fk_storage *storage) {
    if (!(fk_launches.running[0] | fk_launches.running[1])) {
        fk_storage_decref(storage);
        return;
    }
    fk_given_up *entry = malloc(sizeof *entry);
    if (!entry) return; /* nobody can say when it may go: it stays */
    entry->storage = storage;
    entry->next = fk_launches.fresh;
    fk_launches.fresh = entry;
    fk_launches.waits = 1;
    fk_launch_settle(); /* launches that overlap without end all count in one phase until then */
}

/* the threads that launched are not in a forked child */
FK_COLD void fk_launch_forked(void) { fk_launches.running[0] = fk_launches.running[1] = 0; }

FK_COLD void fk_launch_start(void) { pthread_atfork(NULL, NULL, fk_launch_forked); }

/* ---- sizes ---- */

FK_COLD void fk_storage_release_inner(void *inner) { fk_storage_decref((fk_storage *)inner); }

/* of a storage whose data is, or was, another's too */
FK_COLD void fk_storage_release_lent(void *inner) {
    ((fk_storage *)inner)->lent--;
    fk_storage_decref((fk_storage *)inner);
}

/* The storage whose block holds the data: after a resize it is not the one that tensors know. */
FK_LOCAL fk_storage *fk_storage_block(fk_storage *storage) {
    int moved = storage->release == fk_storage_release_inner ||
                storage->release == fk_storage_release_lent;
    return moved ? (fk_storage *)storage->owner : storage;
}

/* Room in the block that holds the data. */
FK_LOCAL int64_t fk_storage_capacity(fk_storage *storage) {
    const fk_storage *block = fk_storage_block(storage);
    if (block->flags & FK_META) return FK_STORAGE_MAX;
    if (block->size_class == FK_HEADER_ONLY || block->size_class == FK_GUARDED_CLASS)
        return block->nbytes;
    return block->size_class < FK_LARGE_CLASS
        ? fk_class_bytes(block->size_class)
        : fk_heap_bytes(block) - FK_SPAN_HEADER - FK_STORAGE_HEADER;
}

/* Changes the size and keeps the common prefix.  0: done; -1: no memory; -2: this storage cannot be
 * resized. The header stays where it is: data that outgrows its block moves to a block of its own,
 * which `owner` then holds. */
FK_COLD int fk_storage_resize(fk_storage *storage, int64_t nbytes) {
    if (nbytes < 0 || nbytes > FK_STORAGE_MAX) return -1;
    if (nbytes == storage->nbytes) return 0;
    if (storage->flags & (FK_FOREIGN | FK_SHARED | FK_NO_RESIZE)) return -2;
    fk_storage *before = NULL;
    if (nbytes > fk_storage_capacity(storage)) {
        fk_storage *inner = fk_storage_new(nbytes);
        if (!inner) return -1;
        memcpy(inner->data, storage->data, (size_t)storage->nbytes);
        before = fk_storage_block(storage);
        storage->owner = inner;
        storage->release = fk_storage_release_inner;
        storage->data = inner->data;
    }
    storage->nbytes = nbytes;
    if (before && before != storage) fk_storage_give_up(before);
    return 0;
}

/* ---- copies that share the data until the first write ---- */

/* Another storage with the same data, of which both copy before they write; NULL without memory.
 * `storage` must be memory of our own through which nobody else writes. */
FK_COLD fk_storage *fk_storage_lend(fk_storage *storage) {
    fk_storage *block = fk_storage_block(storage);
    fk_storage *copy = fk_storage_header(
        storage->data, storage->nbytes, FK_READONLY | FK_LAZY);
    if (!copy) return NULL;
    if (!(block->flags & FK_LENT)) {
        block->flags |= FK_LENT;
        block->lent = 1;
        if (block != storage) storage->release = fk_storage_release_lent;
    }
    block->lent++;
    block->refs++;
    copy->owner = block;
    copy->release = fk_storage_release_lent;
    storage->flags |= FK_READONLY | FK_LAZY;
    return copy;
}

/* Data that the storage may write to: the last one to ask keeps what there is. 0: done; -1: no
 * memory. */
FK_COLD int fk_storage_own(fk_storage *storage) {
    fk_storage *block = fk_storage_block(storage);
    if (block->lent > 1) {
        fk_storage *inner = fk_storage_new(storage->nbytes);
        if (!inner) return -1;
        memcpy(inner->data, storage->data, (size_t)storage->nbytes);
        block->lent--;
        storage->owner = inner;
        storage->release = fk_storage_release_inner;
        storage->data = inner->data;
        if (block != storage) fk_storage_give_up(block);
    }
    storage->flags &= ~(FK_READONLY | FK_LAZY);
    return 0;
}
#endif

/* What the parts of the runtime of packaged models share: errors as text, memory.
 *
 * Takes: formats, numbers of bytes. Gives: `fm_fail`, `fm_memory`.
 * Keeps true: a failing function has written one line. */
#ifndef FM_BASE_H
#define FM_BASE_H
#include "fk_pool.h"
#include "facula_model.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    char *text;
    size_t room;
} fm_error;

__attribute__((format(printf, 2, 3))) static int fm_fail(const fm_error *e, const char *format, ...) {
    va_list values;
    if (!e || !e->text || !e->room) return -1;
    va_start(values, format);
    vsnprintf(e->text, e->room, format, values);
    va_end(values);
    return -1;
}

/* ---- memory ---- */

enum { FM_HUGE = 1 << 21, FM_HUGE_FROM = FM_HUGE / 4 };

/* Memory at a multiple of 64, with 64 bytes to spare; on huge pages where it is long, its last part too where that is a good
 * part of one: a start touches all of it once, and a fault a page is what that costs. */
static void *fm_memory(int64_t bytes) {
    void *made = NULL;
    int huge = bytes >= 2 * FM_HUGE;
    if (bytes < 0 || bytes > (int64_t)1 << 46) return NULL;
    size_t room = (size_t)bytes + 64;
    if (huge && room % FM_HUGE >= FM_HUGE_FROM) room = (room + FM_HUGE - 1) / FM_HUGE * FM_HUGE;
    if (posix_memalign(&made, huge ? FM_HUGE : 64, room)) return NULL;
#ifdef MADV_HUGEPAGE
    if (huge) madvise(made, room, MADV_HUGEPAGE);
#endif
    return made;
}
#endif

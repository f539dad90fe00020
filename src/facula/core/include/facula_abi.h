/* The contract between the core and every kernel library, prebuilt or compiled on demand.
 *
 * Takes: nothing but the C standard headers, so that a kernel compiles in milliseconds.
 * Gives: the three kernel signatures, the services a driver may ask of the core, and the table that a library exports.
 * Keeps true: kernels own no threads, allocate through `fk_runtime` only, keep no state between calls, and never touch
 * Python.  All pointers address elements (not bytes offsets); all integers are 64-bit. */
#ifndef FACULA_ABI_H
#define FACULA_ABI_H
#include <stdint.h>

#define FACULA_ABI 2

/* dtype codes: the same order in core/tensor/dtype.pxi, ops and codegen */
enum fk_dtype {
    FK_F32, FK_F64, FK_F16, FK_BF16, FK_I64, FK_I32, FK_I16, FK_I8, FK_U8, FK_B8, FK_C64, FK_C128, FK_C32,
    FK_U16, FK_U32, FK_U64, FK_F8E4M3, FK_F8E5M2, FK_F8E4M3Z, FK_F8E5M2Z, FK_DTYPES
};

/* a runtime attribute: the kernel knows which member it wants */
typedef union { double f; int64_t i; } fk_scalar;

/* 'm' map: n elements, outputs first and then inputs, each contiguous in the kernel's compute dtype.
 * An output may be the same memory as an input; other overlap does not happen. */
typedef void (*fk_map)(char *const *p, const fk_scalar *s, int64_t n);

/* 'b' body: items [begin, end) of an index space that the launcher splits over threads.
 * p: pointers, n: sizes, s: attributes; what each means is the kernel's own business and stands above it. */
typedef void (*fk_body)(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end);

/* services for a driver */
typedef struct fk_runtime {
    /* run body over [0, total) in chunks of at least `grain` items on the pool; returns when all is done; not nested
     * (a call from inside a body runs in the calling thread) */
    void (*parallel)(fk_body body, char *const *p, const int64_t *n, const fk_scalar *s, int64_t total, int64_t grain);
    int (*threads)(void);             /* how many threads `parallel` uses at most */
    void *(*scratch)(int64_t bytes);  /* 64-byte aligned, cached; NULL when there is no memory */
    void (*release)(void *);
} fk_runtime;

/* 'd' driver: a kernel of several phases.  Returns 0, or 1 when memory ran out. */
typedef int (*fk_driver)(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt);

/* A library exports `const fk_entry facula_kernels[]`, ended by a null name, and `const int facula_abi`.
 * operands: how many sizes and scalars the kernel takes, and of each pointer its use, dtype and extent, in the language of
 * docs/kernel_interfaces.md; the core checks launches against it, and loads no kernel without it. */
typedef struct { const char *name; char kind; void *fn; const char *operands; } fk_entry;
#endif

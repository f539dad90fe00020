"""C kernels that rearrange one tensor: strided copies with any signs, triangles, rolls, padding by
index, ranges.

Takes an instruction set; `unit` gives one translation unit. Keeps true: results are contiguous;
sources are contiguous
except for `arrange`, whose strides may be negative or zero.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import declared, table
from facula.codegen.c.kernels.movement.movement import (
    ARITHMETIC,
    COMPLEX,
    PRELUDE,
    SIZES,
    STREAM,
    fill,
    width,
)

MOVES = r"""
/* arrange:@S@  result[x] = self[offset + sum x * stride].  p: result, self.
 * n: ndim (at least 1), offset, shape[ndim], stride[ndim]; items are rows (all coordinates but the
 * last) */
static void arrange_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t ndim = n[0], length = n[1 + ndim], step = n[1 + 2 * ndim];
    const int64_t *shape = n + 2, *stride = shape + ndim;
    for (int64_t row = begin; row < end; row++) {
        int64_t rest = row, at = n[1];
        for (int64_t d = ndim - 2; d >= 0; d--) at += rest % shape[d] * stride[d], rest /= shape[d];
        const @T@ *from = (const @T@ *)p[1] + at;
        @T@ *restrict to = (@T@ *)p[0] + row * length;
        if (step == 1) copy_bytes((char *)to, (const char *)from, length * (int64_t)sizeof(@T@));
        else if (step == -1) for (int64_t c = 0; c < length; c++) to[c] = *(from - c);
        else for (int64_t c = 0; c < length; c++) to[c] = from[c * step];
    }
}

/* triangle:@S@  keeps column - row <= diagonal (lower) or >= diagonal (upper), zero elsewhere.
 * p: result, self.  n: rows, columns, diagonal, upper; items are rows of all matrices */
static void triangle_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t columns = n[1];
    for (int64_t row = begin; row < end; row++) {
        const char *from = p[1] + row * columns * (int64_t)sizeof(@T@);
        char *to = p[0] + row * columns * (int64_t)sizeof(@T@);
        int64_t at = row % n[0] + n[2] + !n[3];
        at = MAX(0, MIN(columns, at));
        int64_t head = at * (int64_t)sizeof(@T@), tail = (columns - at) * (int64_t)sizeof(@T@);
        if (n[3]) {
            __builtin_memset(to, 0, (uint64_t)head);
            __builtin_memcpy(to + head, from + head, (uint64_t)tail);
        } else {
            __builtin_memcpy(to, from, (uint64_t)head);
            __builtin_memset(to + head, 0, (uint64_t)tail);
        }
    }
}

/* pad:@S@  result[o, x] = self[o, table0[x0], table1[x1], table2[x2]].
 * p: result, self, tables (int64, one after the other).
 * n: sizes of the result [3], sizes of self [3]; items are rows of the result */
static void pad_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                    int64_t end) {
    (void)s;
    const int64_t *depth = (const int64_t *)p[2], *height = depth + n[0], *width = height + n[1];
    int64_t first, last;
    middle_run(width, n[2], &first, &last);
    for (int64_t row = begin; row < end; row++) {
        int64_t h = height[row % n[1]], d = depth[row / n[1] % n[0]], outer = row / (n[0] * n[1]);
        @T@ *restrict to = (@T@ *)p[0] + row * n[2];
        const @T@ *from = (const @T@ *)p[1] + ((outer * n[3] + d) * n[4] + h) * n[5];
        for (int64_t c = 0; c < first; c++) to[c] = from[width[c]];
        __builtin_memcpy(to + first, from + width[first], (uint64_t)(last - first) * sizeof(@T@));
        for (int64_t c = last; c < n[2]; c++) to[c] = from[width[c]];
    }
}
"""

MIDDLE = r"""
/* the longest stretch of a table in which each entry is one more than the last */
static void middle_run(const int64_t *table, int64_t size, int64_t *first, int64_t *last) {
    *first = 0, *last = size ? 1 : 0;
    for (int64_t start = 0; start < size;) {
        int64_t stop = start + 1;
        while (stop < size && table[stop] == table[stop - 1] + 1) stop++;
        if (stop - start > *last - *first) *first = start, *last = stop;
        start = stop;
    }
}
"""

ROLL = r"""
/* roll  p: result, self.  n: bytes of one line, bytes that the start moves by; items are lines */
static void roll(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end) {
    (void)s;
    uint64_t tail = (uint64_t)n[1], head = (uint64_t)(n[0] - n[1]);
    for (int64_t i = begin; i < end; i++) {
        const char *from = p[1] + i * n[0];
        char *to = p[0] + i * n[0];
        __builtin_memcpy(to + tail, from, head);
        __builtin_memcpy(to, from + head, tail);
    }
}
"""

PAD_SUM = r"""
/* pad.sum:@S@  the transpose of pad: self[o, table(x)] += result[o, x].
 * p: self (written), result's gradient, tables.  n as pad; items are the outer index o */
static void pad_sum_@S@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
                        int64_t end) {
    (void)s;
    const int64_t *depth = (const int64_t *)p[2], *height = depth + n[0], *width = height + n[1];
    int64_t first, last;
    middle_run(width, n[2], &first, &last);
    for (int64_t outer = begin; outer < end; outer++) {
        @T@ *self = (@T@ *)p[0] + outer * n[3] * n[4] * n[5];
        const @T@ *grad = (const @T@ *)p[1] + outer * n[0] * n[1] * n[2];
        __builtin_memset(self, 0, (uint64_t)(n[3] * n[4] * n[5]) * sizeof(@T@));
        for (int64_t row = 0; row < n[0] * n[1]; row++, grad += n[2]) {
            @T@ *to = self + (depth[row / n[1]] * n[4] + height[row % n[1]]) * n[5];
            for (int64_t c = 0; c < first; c++) { @T@ *a = to + width[c]; @ADD@ }
            @T@ *across = to + width[first] - first;
_Pragma("omp simd")
            for (int64_t c = first; c < last; c++) { @T@ *a = across + c; @ADD@ }
            for (int64_t c = last; c < n[2]; c++) { @T@ *a = to + width[c]; @ADD@ }
        }
    }
}
"""

RANGES = r"""
/* arange:@D@  p: result.  s: start, step */
static void arange_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)n;
    @T@ *to = (@T@ *)p[0];
    for (int64_t i = begin; i < end; i++) to[i] = (@T@)(s[0].@M@ + (@W@)i * s[1].@M@);
}

/* linspace:@D@ from both ends, so that the last value is exact; ends and step are of type @V@, then
 * each value is rounded once. p: result. n: steps. s: start, end */
static void linspace_@D@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    @T@ *to = (@T@ *)p[0];
    @V@ first = (@V@)s[0].f, last = (@V@)s[1].f;
    @V@ step = n[0] > 1 ? (last - first) / (@V@)(n[0] - 1) : 0;
    int64_t half = n[0] == 1 ? 1 : n[0] / 2;
    int64_t middle = MAX(begin, MIN(end, half));
    for (int64_t i = begin; i < middle; i++)
        to[i] = (@T@)__builtin_fma((double)step, (double)(@V@)i, (double)first);
    for (int64_t i = middle; i < end; i++)
        to[i] = (@T@)__builtin_fma(-(double)step, (double)(@V@)(n[0] - 1 - i), (double)last);
}
"""


#: what each kernel says of its operands
OPERANDS = {
    "roll": "2;0; w result bytes N*n0; r self bytes N*n0; c shift min(1+n1,n0-n1)",
    "arrange": """2+2*n0;0; w result @ N*n[1+n0];
        r self @ n1+low(n0,2,2+n0)..n1+high(n0,2,2+n0); c sizes product(n0,2)""",
    "triangle": "4;0; w result @ N*n1; r self @ N*n1; c rows n0",
    "pad": "6;0; w result @ N*n2; r self @ N/(n0*n1)*n3*n4*n5; r tables i64 n0+n1+n2",
    "pad.sum": "6;0; w self @ N*n3*n4*n5; r result @ N*n0*n1*n2; r tables i64 n0+n1+n2",
    "arange": "0;2; w result @ N",
    "linspace": "1;2; w result @ N",
}


def unit(isa: Any) -> str:
    """Give the translation unit of the rearranging kernels; the compiler's flags alone make it fit
    `isa`.
    """
    text, entries = (
        [PRELUDE, STREAM, MIDDLE, ROLL],
        [("roll", "b", "roll", declared(OPERANDS["roll"]))],
    )
    for size, ctype in SIZES.items():
        text.append(fill(MOVES, S=size, T=ctype))
        entries += [
            (f"{name}:{size}", "b", f"{name}_{size}", declared(OPERANDS[name], width(size)))
            for name in ("arrange", "triangle", "pad")
        ]
    for dtype, ctype in {**ARITHMETIC, **COMPLEX}.items():
        add = "*a += grad[c];"
        if dtype in COMPLEX:
            add = "a->re += grad[c].re, a->im += grad[c].im;"
        text.append(fill(PAD_SUM, S=dtype, T=ctype, ADD=add))
        said = declared(OPERANDS["pad.sum"], dtype)
        entries.append((f"pad.sum:{dtype}", "b", f"pad_sum_{dtype}", said))
    for dtype, ctype in {"f32": "float", "f64": "double", "i64": "int64_t"}.items():
        real = dtype != "i64"
        text.append(
            fill(
                RANGES,
                D=dtype,
                T=ctype,
                V="float" if dtype == "f32" else "double",
                M="f" if real else "i",
                W="double" if real else "int64_t",
            )
        )
        entries += [
            (f"{name}:{dtype}", "b", f"{name}_{dtype}", declared(OPERANDS[name], dtype))
            for name in ("arange", "linspace")
        ]
    return "".join(text) + table(entries)

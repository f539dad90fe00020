"""C kernels of linear algebra on small matrices: the base cases of the blocked algorithms in
`ops/linalg_*`.

Takes batches of matrices with unit column stride that the operator has checked (the triangular
matrix of a solve may have any strides). Gives bodies, one item a matrix (of a solve: a matrix and
up to 64 right-hand sides):

cholesky           p: A, info            n: batch stride, row stride, size, rows before the block
lu                 p: A, pivots, info    n: batch stride, row stride, rows, columns of the panel,
columns before it,
                                            width of the matrix, pivots of a matrix, rows before the
                                            panel
solve_triangular   p: A, X               n: strides of A (batch, row, column), of X (batch, row),
size, right-hand
                                            sides, upper, unit diagonal, chunks of right-hand sides
ldl                p: A, pivots, info    n: size, Hermitian                      (A contiguous)
ldl.solve          p: A, pivots, X       n: size, right-hand sides, Hermitian    (A and X
contiguous) permutation        p: permutation, pivots    n: rows, pivots of a matrix

Keeps true: everything works in place; `info` and pivots are LAPACK's (int32, from one; 0 is
success); a block whose matrix failed before is left alone.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, fill

#: right-hand sides of one item of a solve
CHUNK = 64

_HEAD = """#include <math.h>
"""

_REAL = """
ALWAYS_INLINE @T@ mul_@s@(@T@ a, @T@ b) { return a * b; }
ALWAYS_INLINE @T@ conj_@s@(@T@ a) { return a; }
ALWAYS_INLINE @R@ real_@s@(@T@ a) { return a; }
ALWAYS_INLINE @R@ size_@s@(@T@ a) { return a < 0 ? -a : a; }
/* the sum of a[i] times the conjugate of b[i] */
ALWAYS_INLINE @T@ dot_@s@(const @T@ *a, const @T@ *b, int64_t n)
{
    @T@ sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
/* x -= factor * y */
ALWAYS_INLINE void less_@s@(@T@ *x, const @T@ *y, @T@ factor, int64_t n)
{
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) x[i] -= factor * y[i];
}
"""

_COMPLEX = """
ALWAYS_INLINE @T@ pair_@s@(@R@ re, @R@ im)
{
    @T@ value;
    __real__ value = re;
    __imag__ value = im;
    return value;
}
ALWAYS_INLINE @T@ mul_@s@(@T@ a, @T@ b)
{
    return pair_@s@(__real__ a * __real__ b - __imag__ a * __imag__ b,
        __real__ a * __imag__ b + __imag__ a * __real__ b);
}
ALWAYS_INLINE @T@ conj_@s@(@T@ a) { return pair_@s@(__real__ a, -__imag__ a); }
ALWAYS_INLINE @R@ real_@s@(@T@ a) { return __real__ a; }
ALWAYS_INLINE @R@ size_@s@(@T@ a)
{
    @R@ re = __real__ a, im = __imag__ a;
    return (re < 0 ? -re : re) + (im < 0 ? -im : im);
}
ALWAYS_INLINE @T@ dot_@s@(const @T@ *a, const @T@ *b, int64_t n)
{
    const @R@ *x = (const @R@ *)a, *y = (const @R@ *)b;
    @R@ re = 0, im = 0;
    _Pragma("omp simd reduction(+ : re, im)") for (int64_t i = 0; i < n; i++) {
        re += x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
        im += x[2 * i + 1] * y[2 * i] - x[2 * i] * y[2 * i + 1];
    }
    return pair_@s@(re, im);
}
ALWAYS_INLINE void less_@s@(@T@ *x, const @T@ *y, @T@ factor, int64_t n)
{
    const @R@ fr = __real__ factor, fi = __imag__ factor;
    @R@ *a = (@R@ *)x;
    const @R@ *b = (const @R@ *)y;
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {
        const @R@ re = b[2 * i], im = b[2 * i + 1];
        a[2 * i] -= fr * re - fi * im;
        a[2 * i + 1] -= fr * im + fi * re;
    }
}
"""

_EXCHANGE = """
ALWAYS_INLINE void exchange_@s@(@T@ *a, @T@ *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const @T@ kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}
"""

_CHOLESKY = """
static void cholesky_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    for (int64_t m = begin; m < end; m++) {
        @T@ *a = (@T@ *)p[0] + m * n[0];
        int32_t *info = (int32_t *)p[1] + m;
        for (int64_t j = 0; j < n[2] && !*info; j++) {
            @T@ *row = a + j * n[1];
            for (int64_t k = 0; k < j; k++) {
                const @T@ *other = a + k * n[1];
                row[k] = (row[k] - dot_@s@(row, other, k)) / real_@s@(other[k]);
            }
            const @R@ left = real_@s@(row[j]) - real_@s@(dot_@s@(row, row, j));
            if (left > 0) row[j] = @sqrt@(left);
            else *info = (int32_t)(n[3] + j + 1);
        }
    }
}
"""

_LU = """
static void lu_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t end)
{
    const int64_t stride = n[1], rows = n[2], columns = n[3], before = n[4], above = n[7];
    for (int64_t m = begin; m < end; m++) {
        @T@ *whole = (@T@ *)p[0] + m * n[0], *a = whole + before;
        int32_t *pivots = (int32_t *)p[1] + m * n[6] + above, *info = (int32_t *)p[2] + m;
        const int64_t steps = rows < columns ? rows : columns;
        for (int64_t j = 0; j < steps; j++) {
            int64_t best = j;
            @R@ largest = size_@s@(a[j * stride + j]);
            for (int64_t i = j + 1; i < rows; i++) {
                const @R@ size = size_@s@(a[i * stride + j]);
                if (size > largest) best = i, largest = size;
            }
            pivots[j] = (int32_t)(above + best + 1);
            if (best != j) exchange_@s@(whole + j * stride, whole + best * stride, n[5]);
            const @T@ *top = a + j * stride;
            if (largest == 0) {
                if (!*info) *info = (int32_t)(above + j + 1);
                continue;
            }
            for (int64_t i = j + 1; i < rows; i++) {
                @T@ *row = a + i * stride;
                row[j] /= top[j];
                less_@s@(row + j + 1, top + j + 1, row[j], columns - j - 1);
            }
        }
    }
}
"""

_TRIANGULAR = """
static void solve_triangular_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t
begin,
    int64_t end)
{
    const int64_t size = n[5], upper = n[7], unit = n[8], chunks = n[9];
    for (int64_t item = begin; item < end; item++) {
        const int64_t m = item / chunks, first = item % chunks * @chunk@;
        const int64_t left = n[6] - first, width = left < @chunk@ ? left : @chunk@;
        const @T@ *a = (const @T@ *)p[0] + m * n[0];
        @T@ *x = (@T@ *)p[1] + m * n[3] + first;
        for (int64_t step = 0; step < size; step++) {
            const int64_t i = upper ? size - 1 - step : step;
            const int64_t from = upper ? i + 1 : 0, to = upper ? size : i;
            const @T@ *row = a + i * n[1];
            @T@ *target = x + i * n[4];
            for (int64_t j = from; j < to; j++)
                less_@s@(target, x + j * n[4], row[j * n[2]], width);
            if (unit) continue;
            const @T@ diagonal = row[i * n[2]];
            for (int64_t c = 0; c < width; c++) target[c] /= diagonal;
        }
    }
}
"""

# Bunch and Kaufman's diagonal pivoting on the lower triangle; exchanges do not touch the columns
# already done
_LDL = """
/* the row and column of a pivot: `kept` becomes `chosen` in what is left of the matrix */
ALWAYS_INLINE void ldl_exchange_@s@(@T@ *a, int64_t size, int64_t k, int64_t kept, int64_t chosen,
    int64_t hermitian)
{
    for (int64_t i = chosen + 1; i < size; i++)
        exchange_@s@(a + i * size + kept, a + i * size + chosen, 1);
    for (int64_t j = kept + 1; j < chosen; j++) {
        @T@ *down = a + j * size + kept, *along = a + chosen * size + j, old = *down;
        *down = hermitian ? conj_@s@(*along) : *along;
        *along = hermitian ? conj_@s@(old) : old;
    }
    if (hermitian) a[chosen * size + kept] = conj_@s@(a[chosen * size + kept]);
    exchange_@s@(a + kept * size + kept, a + chosen * size + chosen, 1);
    if (kept != k) exchange_@s@(a + (k + 1) * size + k, a + chosen * size + k, 1);
}

/* which row becomes pivot row k; *two tells whether the pivot is a block of two */
ALWAYS_INLINE int64_t ldl_choose_@s@(const @T@ *a, int64_t size, int64_t k, int64_t *two, int *zero)
{
    const @R@ alpha = (@R@)0.6403882032022076; /* (1 + sqrt(17)) / 8 */
    const @R@ own = size_@s@(a[k * size + k]);
    int64_t best = k;
    @R@ column = 0, row = 0;
    for (int64_t i = k + 1; i < size; i++) {
        const @R@ value = size_@s@(a[i * size + k]);
        if (value > column) column = value, best = i;
    }
    *two = 0;
    *zero = !(own > 0) && column == 0;
    if (*zero || own >= alpha * column) return k;
    for (int64_t j = k; j < best; j++) {
        const @R@ value = size_@s@(a[best * size + j]);
        row = value > row ? value : row;
    }
    for (int64_t i = best + 1; i < size; i++) {
        const @R@ value = size_@s@(a[i * size + best]);
        row = value > row ? value : row;
    }
    if (own >= alpha * column * (column / row)) return k;
    if (size_@s@(a[best * size + best]) >= alpha * row) return best;
    *two = 1;
    return best;
}

ALWAYS_INLINE @T@ ldl_mirror_@s@(@T@ value, int64_t hermitian)
{
    return hermitian ? conj_@s@(value) : value;
}

/* values (x, y) times the inverse of the pivot block at k */
ALWAYS_INLINE void ldl_divide_@s@(const @T@ *a, int64_t size, int64_t k, int64_t hermitian, @T@ *x,
    @T@ *y)
{
    const @T@ first = a[k * size + k], last = a[(k + 1) * size + k + 1], off = a[(k + 1) * size +
    k]; const @T@ mirror = ldl_mirror_@s@(off, hermitian); const @T@ determinant = mul_@s@(first,
    last) - mul_@s@(off, mirror); const @T@ one = (mul_@s@(*x, last) - mul_@s@(*y, off)) /
    determinant; const @T@ two = (mul_@s@(*y, first) - mul_@s@(*x, mirror)) / determinant; *x = one,
    *y = two;
}

static void ldl_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin, int64_t
end) {
    const int64_t size = n[0], hermitian = n[1];
    for (int64_t m = begin; m < end; m++) {
        @T@ *a = (@T@ *)p[0] + m * size * size;
        int32_t *pivots = (int32_t *)p[1] + m * size, *info = (int32_t *)p[2] + m;
        for (int64_t k = 0, two = 0; k < size; k += 1 + two) {
            int zero;
            if (hermitian) a[k * size + k] = real_@s@(a[k * size + k]);
            const int64_t chosen = ldl_choose_@s@(a, size, k, &two, &zero), kept = k + two;
            pivots[k] = (int32_t)(two ? -chosen - 1 : chosen + 1);
            if (two) pivots[k + 1] = pivots[k];
            if (zero) {
                if (!*info) *info = (int32_t)(k + 1);
                continue;
            }
            if (chosen != kept) ldl_exchange_@s@(a, size, k, kept, chosen, hermitian);
            for (int64_t i = k; hermitian && i <= kept; i++) a[i * size + i] = real_@s@(a[i * size +
            i]); for (int64_t j = kept + 1; j < size; j++) {
                @T@ *own = a + j * size, x = own[k], y = two ? own[k + 1] : 0;
                if (two) ldl_divide_@s@(a, size, k, hermitian, &x, &y);
                else x /= a[k * size + k];
                const @T@ over = ldl_mirror_@s@(x, hermitian), under = ldl_mirror_@s@(y, hermitian);
                for (int64_t i = j; i < size; i++) {
                    @T@ *row = a + i * size;
                    row[j] -= mul_@s@(row[k], over);
                    if (two) row[j] -= mul_@s@(row[k + 1], under);
                }
                own[k] = x;
                if (two) own[k + 1] = y;
            }
        }
    }
}

static void ldl_solve_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t size = n[0], count = n[1], hermitian = n[2];
    for (int64_t m = begin; m < end; m++) {
        const @T@ *a = (const @T@ *)p[0] + m * size * size;
        const int32_t *pivots = (const int32_t *)p[1] + m * size;
        @T@ *b = (@T@ *)p[2] + m * size * count;
        for (int64_t k = 0, two; k < size; k += 1 + two) {
            two = pivots[k] < 0;
            const int64_t kept = k + two, chosen = (two ? -pivots[k] : pivots[k]) - 1;
            if (chosen != kept) exchange_@s@(b + kept * count, b + chosen * count, count);
            @T@ *x = b + k * count, *y = x + count;
            for (int64_t i = kept + 1; i < size; i++) {
                less_@s@(b + i * count, x, a[i * size + k], count);
                if (two) less_@s@(b + i * count, y, a[i * size + k + 1], count);
            }
            for (int64_t c = 0; c < count; c++) {
                if (!two) {
                    x[c] /= a[k * size + k];
                    continue;
                }
                /* a column is the conjugate of a row of a Hermitian block */
                @T@ one = ldl_mirror_@s@(x[c], hermitian), other = ldl_mirror_@s@(y[c], hermitian);
                ldl_divide_@s@(a, size, k, hermitian, &one, &other);
                x[c] = ldl_mirror_@s@(one, hermitian), y[c] = ldl_mirror_@s@(other, hermitian);
            }
        }
        for (int64_t k = size - 1, two; k >= 0; k -= 1 + two) {
            two = pivots[k] < 0;
            const int64_t chosen = (two ? -pivots[k] : pivots[k]) - 1;
            for (int64_t i = k + 1; i < size; i++) {
                less_@s@(b + k * count, b + i * count, ldl_mirror_@s@(a[i * size + k], hermitian),
                count); if (two)
                    less_@s@(b + (k - 1) * count, b + i * count,
                        ldl_mirror_@s@(a[i * size + k - 1], hermitian), count);
            }
            if (chosen != k) exchange_@s@(b + k * count, b + chosen * count, count);
        }
    }
}
"""

_PERMUTATION = """
static void permutation_i32(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    for (int64_t m = begin; m < end; m++) {
        int64_t *order = (int64_t *)p[0] + m * n[0];
        const int32_t *pivots = (const int32_t *)p[1] + m * n[1];
        for (int64_t i = 0; i < n[0]; i++) order[i] = i;
        for (int64_t i = 0; i < n[1]; i++) {
            const int64_t other = pivots[i] - 1, kept = order[i];
            if (other < 0 || other >= n[0]) continue;
            order[i] = order[other];
            order[other] = kept;
        }
    }
}
"""

_TYPES = {
    "f32": ("float", "float", "sqrtf"),
    "f64": ("double", "double", "sqrt"),
    "c64": ("float _Complex", "float", "sqrtf"),
    "c128": ("double _Complex", "double", "sqrt"),
}
_OPERANDS = {
    "cholesky": "4;0; u A @ span(N,n0,n2,n1,n2,1); u info i32 N",
    "lu": """8;0; u A @ span(N,n0,n2,n1,n5,1); w pivots i32 (N-1)*n6+n7+min(n2,n3);
        u info i32 N""",
    "solve_triangular": """10;0; r A @ span(N/n9,n0,n5,n1,n5,n2);
        u X @ span(N/n9,n3,n5,n4,n6,1)""",
    "ldl": "2;0; u A @ N*n0*n0; w pivots i32 N*n0; w info i32 N",
    "ldl.solve": "3;0; r A @ N*n0*n0; r pivots i32 N*n0; u X @ N*n0*n1",
}
_PERMUTATION_OPERANDS = "2;0; w permutation i64 N*n0; r pivots i32 N*n1"


def unit(isa: Isa) -> str:
    """The translation unit of all kernels for one instruction set."""
    text = [PROLOGUE, _HEAD]
    entries: list[Entry] = []
    for dtype, (ctype, real, root) in _TYPES.items():
        arithmetic = _REAL if ctype == real else _COMPLEX
        bodies = arithmetic + _EXCHANGE + _CHOLESKY + _LU + _TRIANGULAR + _LDL
        text.append(fill(bodies, s=dtype, T=ctype, R=real, sqrt=root, chunk=CHUNK))
        for kernel, said in _OPERANDS.items():
            function = f"{kernel.replace('.', '_')}_{dtype}"
            entries.append((f"{kernel}:{dtype}", "b", function, declared(said, dtype)))
    said = declared(_PERMUTATION_OPERANDS)
    entries.append(("permutation:i32", "b", "permutation_i32", said))
    return "".join(text) + _PERMUTATION + table(entries)

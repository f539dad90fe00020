"""Sparse matrices in compressed rows (CSR) against dense ones.

Takes: contiguous int64 `crow` [rows + 1] and `col` [entries], values [entries] or null (ones), and
contiguous dense matrices; the operator has checked that the structure lies inside them.
Gives bodies and a driver (below) and keeps true: a row of the result is written by one thread, its
entries in order, so results do not depend on the number of threads; every dtype adds in its own
precision.

csr.matmul            p: out [rows, width], crow, col, values or null, dense [columns, width]
                      n: width, entries   items: rows
csr.extreme           p: out, positions (of entries; -1 for an empty row), crow, col, values, dense
                      n: width, 1 for the largest and 0 for the smallest   items: rows
   NaN wins, of equal products the first; an empty row gives 0
csr.sampled           p: out [entries], crow, col, left [rows, width], right [columns, width]
                      n: width   items: rows
   out[e] = <left[row of e], right[col[e]]>
csr.transpose         driver. p: ccol [columns + 1], rows [entries], order [entries], crow, col
                      n: rows, columns, entries
   the structure by columns, and where each of its entries stands by rows
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

FLOATS = ("f32", "f64")
#: how many entries ahead a row of the dense matrix is fetched
AHEAD = 6

_PRELUDE = """
typedef @CTYPE@ vector_@s@ __attribute__((vector_size(@BYTES@), aligned(@ITEM@), may_alias));
"""

# one block of @COUNT@ vectors: its sums stay in registers while the row's entries go by
_BLOCK = """
ALWAYS_INLINE void csr_block@COUNT@_@s@(@CTYPE@ *out, const @CTYPE@ *dense, const int64_t *col,
    const @CTYPE@ *values, int64_t first, int64_t last, int64_t entries, int64_t width)
{
    vector_@s@ @SUMS@;
    for (int64_t e = first; e < last; e++) {
        const @CTYPE@ *row = dense + col[e] * width;
        @CTYPE@ factor = values ? values[e] : 1;
        if (e + @AHEAD@ < entries) {
            const char *next = (const char *)(dense + col[e + @AHEAD@] * width);
            for (int line = 0; line < @COUNT@ * @BYTES@; line += 64) __builtin_prefetch(next + line);
        }
        @STEPS@
    }
    @STORES@
}
"""

_MATMUL = """
static void csr_matmul_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    (void)s;
    const int64_t *crow = (const int64_t *)p[1], *col = (const int64_t *)p[2], width = n[0];
    const @CTYPE@ *values = (const @CTYPE@ *)p[3], *dense = (const @CTYPE@ *)p[4];
    for (int64_t r = begin; r < end; r++) {
        @CTYPE@ *out = (@CTYPE@ *)p[0] + r * width;
        int64_t first = crow[r], last = crow[r + 1], at = 0;
        @BLOCKS@
        if (at == width) continue;
        @CTYPE@ sums[@LANES@] = {0};
        int64_t rest = width - at;
        for (int64_t e = first; e < last; e++) {
            const @CTYPE@ *row = dense + col[e] * width + at;
            @CTYPE@ factor = values ? values[e] : 1;
            for (int64_t c = 0; c < rest; c++) sums[c] += factor * row[c];
        }
        for (int64_t c = 0; c < rest; c++) out[at + c] = sums[c];
    }
}

static void csr_extreme_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    (void)s;
    const int64_t *crow = (const int64_t *)p[2], *col = (const int64_t *)p[3], width = n[0];
    const @CTYPE@ *values = (const @CTYPE@ *)p[4], *dense = (const @CTYPE@ *)p[5];
    for (int64_t r = begin; r < end; r++) {
        @CTYPE@ *out = (@CTYPE@ *)p[0] + r * width;
        int64_t *positions = (int64_t *)p[1] + r * width;
        for (int64_t c = 0; c < width; c++) out[c] = 0, positions[c] = -1;
        for (int64_t e = crow[r]; e < crow[r + 1]; e++) {
            const @CTYPE@ *row = dense + col[e] * width;
            @CTYPE@ factor = values ? values[e] : 1;
            for (int64_t c = 0; c < width; c++) {
                @CTYPE@ value = factor * row[c];
                int better = n[1] ? value > out[c] : value < out[c];
                if (positions[c] < 0 || better || (value != value && out[c] == out[c]))
                    out[c] = value, positions[c] = e;
            }
        }
    }
}

static void csr_sampled_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    (void)s;
    const int64_t *crow = (const int64_t *)p[1], *col = (const int64_t *)p[2], width = n[0];
    const @CTYPE@ *left = (const @CTYPE@ *)p[3], *right = (const @CTYPE@ *)p[4];
    @CTYPE@ *out = (@CTYPE@ *)p[0];
    for (int64_t r = begin; r < end; r++) {
        const @CTYPE@ *one = left + r * width;
        for (int64_t e = crow[r]; e < crow[r + 1]; e++) {
            const @CTYPE@ *other = right + col[e] * width;
            vector_@s@ lanes = {0};
            int64_t c = 0;
            for (; c + @LANES@ <= width; c += @LANES@)
                lanes += *(const vector_@s@ *)(one + c) * *(const vector_@s@ *)(other + c);
            @CTYPE@ sum = 0;
            for (int k = 0; k < @LANES@; k++) sum += lanes[k];
            for (; c < width; c++) sum += one[c] * other[c];
            out[e] = sum;
        }
    }
}
"""

_TRANSPOSE = """
static int csr_transpose(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    (void)s;
    int64_t *starts = (int64_t *)p[0], *rows = (int64_t *)p[1], *order = (int64_t *)p[2];
    const int64_t *crow = (const int64_t *)p[3], *col = (const int64_t *)p[4];
    int64_t *next = rt->scratch((n[1] + 1) * (int64_t)sizeof(int64_t));
    if (!next) return 1;
    memset(next, 0, (size_t)(n[1] + 1) * sizeof(int64_t));
    for (int64_t e = 0; e < n[2]; e++) next[col[e] + 1]++;
    for (int64_t c = 0; c < n[1]; c++) next[c + 1] += next[c];
    memcpy(starts, next, (size_t)(n[1] + 1) * sizeof(int64_t));
    for (int64_t r = 0; r < n[0]; r++)
        for (int64_t e = crow[r]; e < crow[r + 1]; e++) {
            int64_t at = next[col[e]]++;
            rows[at] = r;
            order[at] = e;
        }
    rt->release(next);
    return 0;
}
"""


def _block(names: dict[str, object], count: int) -> str:
    """The C function for one block of `count` vectors."""
    s, lanes, each = names["s"], names["LANES"], range(count)
    load = f"*(const vector_{s} *)(row + {{0}} * {lanes})"
    return fill(
        _BLOCK,
        **names,
        COUNT=count,
        AHEAD=AHEAD,
        SUMS=", ".join(f"sum{i} = {{0}}" for i in each),
        STEPS=" ".join(f"sum{i} += {load.format(i)} * factor;" for i in each),
        STORES=" ".join(f"*(vector_{s} *)(out + {i} * {lanes}) = sum{i};" for i in each),
    )


def _kernels(isa: Isa, dtype: str) -> str:
    """The bodies of one dtype, with blocks as wide as the registers allow."""
    ctype = STORAGES[dtype].ctype
    item = 8 if dtype == "f64" else 4
    names: dict[str, object] = {"s": dtype, "CTYPE": ctype, "ITEM": item, "BYTES": isa.vector_bytes}
    names["LANES"] = lanes = isa.vector_bytes // item
    counts = (8, 4, 2, 1)
    calls = [
        f"for (; at + {count * lanes} <= width; at += {count * lanes})\n"
        f"            csr_block{count}_{dtype}(out + at, dense + at, col, values, first, last, n[1], "
        "width);"
        for count in counts
    ]
    text = [fill(_PRELUDE, **names), *(_block(names, count) for count in counts)]
    text.append(fill(_MATMUL, **names, BLOCKS="\n        ".join(calls)))
    return "".join(text)


#: how many entries the rows have, and which columns, the operator has checked
_OPERANDS = {
    "matmul": """2;0; w out @ N*n0; r crow i64 N+1; r col i64 n1; r? values @ n1;
        r dense @ if(n1,n0,0)""",
    "extreme": """2;0; w out @ N*n0; w positions i64 N*n0; r crow i64 N+1; r col i64 0; r values @ 0;
        r dense @ 0""",
    "sampled": """1;0; w out @ 0; r crow i64 N+1; r col i64 0; r left @ N*n0; r right @ 0""",
    "transpose": """3;0; w ccol i64 n1+1; w rows i64 n2; w order i64 n2; r crow i64 n0+1;
        r col i64 n2""",
}


def unit(isa: Isa) -> str:
    """The translation unit of the sparse kernels for one instruction set."""
    text = [PROLOGUE, _TRANSPOSE]
    entries: list[Entry] = [
        ("csr.transpose", "d", "csr_transpose", declared(_OPERANDS["transpose"]))
    ]
    for dtype in FLOATS:
        text.append(_kernels(isa, dtype))
        for kernel in ("matmul", "extreme", "sampled"):
            said = declared(_OPERANDS[kernel], dtype)
            entries.append((f"csr.{kernel}:{dtype}", "b", f"csr_{kernel}_{dtype}", said))
    return "".join(text) + table(entries)

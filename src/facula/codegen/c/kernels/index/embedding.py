"""Embedding tables: rows by index, bags of rows, and their gradients.

Takes: contiguous tables `[rows, width]` and contiguous int64 indices that the operator has checked
(0 <= index < rows).
Gives bodies (below) and keeps true: a gradient row is added to by one thread, in index order, so
results do not depend on the number of threads; a negative padding index means none.

embedding                 p: out, table, indices   n: bytes of a row   items: indices
embedding.grad            p: grad_table, grad, indices, factors or null, sources or null
                          n: width, count of indices, padding index   items: table rows
   adds grad[sources[i] or i] * factors[i] to row indices[i]; a thread goes through all indices for
   its own rows
embedding_bag             p: out, table, indices, offsets (bags + 1), weights or null,
                             positions or null
                          n: width, mode (0 sum, 1 mean, 2 max), padding index   items: bags
   positions: for max, the table row [bags, width] that gave each value, -1 for an empty bag
embedding_bag.max.grad    p: grad_table, grad, positions   n: width, bags   items: table rows
embedding_renorm          p: table, distinct indices   n: width   items: indices
                          s: max_norm (f), norm order (f)
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, conversions, fill

FLOATS = ("f32", "f64", "bf16", "f16")

_ROWS = """
#include <math.h>
static void embedding_rows(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t *indices = (const int64_t *)p[2], bytes = n[0];
    for (int64_t i = begin; i < end; i++) {
        if (i + 8 < end) __builtin_prefetch(p[1] + indices[i + 8] * bytes);
        memcpy(p[0] + i * bytes, p[1] + indices[i] * bytes, (size_t)bytes);
    }
}
"""

_GRAD = """
static void embedding_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const int64_t *indices = (const int64_t *)p[2], *sources = (const int64_t *)p[4], width = n[0];
    const @STORAGE@ *factors = (const @STORAGE@ *)p[3];
    @STORAGE@ *out = (@STORAGE@ *)p[0];
    memset(out + begin * width, 0, (size_t)((end - begin) * width) * sizeof(@STORAGE@));
    for (int64_t i = 0; i < n[1]; i++) {
        int64_t row = indices[i];
        if (row < begin || row >= end || row == n[2]) continue;
        const @STORAGE@ *grad = (const @STORAGE@ *)p[1] + (sources ? sources[i] : i) * width;
        @STORAGE@ *to = out + row * width, factor = factors ? factors[i] : 1;
        _Pragma("omp simd") for (int64_t c = 0; c < width; c++) to[c] += grad[c] * factor;
    }
}

static void embedding_bag_max_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const int64_t *positions = (const int64_t *)p[2], width = n[0];
    const @STORAGE@ *grad = (const @STORAGE@ *)p[1];
    @STORAGE@ *out = (@STORAGE@ *)p[0];
    memset(out + begin * width, 0, (size_t)((end - begin) * width) * sizeof(@STORAGE@));
    for (int64_t i = 0; i < n[1] * width; i++)
        if (positions[i] >= begin && positions[i] < end) out[positions[i] * width + i % width]
            += grad[i];
}
"""

_BAG = """
static void embedding_bag_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t *indices = (const int64_t *)p[2], *offsets = (const int64_t *)p[3], width
        = n[0], mode = n[1];
    const @STORAGE@ *rows = (const @STORAGE@ *)p[1], *weights = (const @STORAGE@ *)p[4];
    for (int64_t bag = begin; bag < end; bag++) {
        int64_t *positions = p[5] ? (int64_t *)p[5] + bag * width : 0;
        for (int64_t from = 0; from < width; from += @CHUNK@) {
            @COMPUTE@ sum[@CHUNK@] = {0};
            int64_t count = width - from < @CHUNK@ ? width - from : @CHUNK@, taken = 0;
            for (int64_t i = 0; positions && i < count; i++) positions[from + i] = -1;
            for (int64_t at = offsets[bag]; at < offsets[bag + 1]; at++) {
                const @STORAGE@ *row = rows + indices[at] * width + from;
                if (indices[at] == n[2]) continue;
                if (mode == 2) {
                    for (int64_t i = 0; i < count; i++) {
                        @COMPUTE@ value = load_@s@(row[i]);
                        if (taken && !(value > sum[i])) continue;
                        sum[i] = value;
                        if (positions) positions[from + i] = indices[at];
                    }
                } else {
                    @COMPUTE@ factor = weights ? load_@s@(weights[at]) : 1;
                    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) sum[i]
                        += load_@s@(row[i]) * factor;
                }
                taken++;
            }
            @STORAGE@ *out = (@STORAGE@ *)p[0] + bag * width + from;
            @COMPUTE@ divisor = mode == 1 && taken ? (@COMPUTE@)taken : 1;
            for (int64_t i = 0; i < count; i++) out[i] = store_@s@(sum[i] / divisor);
        }
    }
}

static void embedding_renorm_@s@(char *const *p, const int64_t *n, const fk_scalar *s,
    int64_t begin, int64_t end)
{
    const int64_t *indices = (const int64_t *)p[1], width = n[0];
    double limit = s[0].f, order = s[1].f;
    for (int64_t i = begin; i < end; i++) {
        @STORAGE@ *row = (@STORAGE@ *)p[0] + indices[i] * width;
        double sum = 0;
        for (int64_t c = 0; c < width; c++) {
            double value = fabs((double)load_@s@(row[c]));
            if (order == 2) sum += value * value;
            else if (order == 1) sum += value;
            else if (isinf(order)) sum = value > sum ? value : sum;
            else sum += pow(value, order);
        }
        double norm = order == 2 ? sqrt(sum) : order == 1 || isinf(order) ? sum
            : pow(sum, 1 / order);
        if (!(norm > limit)) continue;
        @COMPUTE@ factor = (@COMPUTE@)(limit / (norm + 1e-7));
        for (int64_t c = 0; c < width; c++) row[c] = store_@s@(load_@s@(row[c]) * factor);
    }
}
"""


#: how far the indices reach into a table is the operator's to check
_OPERANDS = {
    "embedding": "1;0; w out bytes N*n0; r table bytes if(N,n0,0); r indices i64 N",
    "embedding.grad": """3;0; w grad_table @ N*n0; r grad @ if(n1,n0,0); r indices i64 n1;
        r? factors @ n1; r? sources i64 n1""",
    "embedding_bag": """3;0; w out @ N*n0; r table @ 0; r indices i64 0; r offsets i64 N+1;
        r? weights @ 0; w? positions i64 N*n0""",
    "embedding_bag.max.grad": "2;0; w grad_table @ N*n0; r grad @ n1*n0; r positions i64 n1*n0",
    "embedding_renorm": "1;2; u table @ if(N,n0,0); r indices i64 N",
}


def unit(isa: Isa) -> str:
    """The translation unit of the embedding kernels for one instruction set."""
    text = [PROLOGUE, conversions(*FLOATS), _ROWS]
    entries: list[Entry] = [("embedding", "b", "embedding_rows", declared(_OPERANDS["embedding"]))]
    for dtype in FLOATS:
        storage = STORAGES[dtype]
        names = {"s": dtype, "STORAGE": storage.ctype, "COMPUTE": storage.compute, "CHUNK": 256}
        text.append(fill(_BAG, **names))
        kernels = ["embedding_bag", "embedding_renorm"]
        if not storage.is_half:
            text.append(fill(_GRAD, **names))
            kernels += ["embedding.grad", "embedding_bag.max.grad"]
        for kernel in kernels:
            said = declared(_OPERANDS[kernel], dtype)
            entries.append((f"{kernel}:{dtype}", "b", f"{kernel.replace('.', '_')}_{dtype}", said))
    return "".join(text) + table(entries)

"""C kernel that joins tensors along a dimension.

Takes an instruction set; `unit` gives one translation unit with `cat`, which works on bytes and so
on every dtype.
"""

from __future__ import annotations

from typing import Any

from facula.codegen.c.entries import declared, table
from facula.codegen.c.kernels.movement.movement import PRELUDE, STREAM

CAT = r"""
/* items are pieces of at most 16 KiB of one input's step. n here: inputs, outer, bytes of a result
 * row, bytes of a piece,
 * whether to stream, then each input's bytes, its place in a row, and the running number of pieces
 * */
static void cat_pieces(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
            int64_t end) {
    (void)s;
    int64_t inputs = n[0], row = n[2], piece = n[3], streaming = n[4];
    const int64_t *bytes = n + 5, *place = bytes + inputs, *pieces = place + inputs;
    int64_t per_row = pieces[inputs], outer = begin / per_row, at = begin % per_row, k = 0;
    while (at >= pieces[k + 1]) k++;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = (at - pieces[k]) * piece, length = MIN(piece, bytes[k] - first);
        char *to = p[0] + outer * row + place[k] + first;
        const char *from = p[1 + k] + outer * bytes[k] + first;
        if (streaming) stream_bytes(to, from, length);
        else copy_bytes(to, from, length);
        if (++at == per_row) at = 0, k = 0, outer++;
        while (k < inputs - 1 && at >= pieces[k + 1]) k++;
    }
    if (streaming) STREAM_FENCE();
}

/* cat p: result, inputs (contiguous). n: inputs, outer, bytes of a result row, place of the first
 * input in it, then the
 * bytes of one outer step of each input (above 0) */
static int cat(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt) {
    int64_t inputs = n[0], outer = n[1], piece = 16384, at = n[3];
    int64_t *plan = rt->scratch((6 + 3 * inputs) * (int64_t)sizeof(int64_t));
    if (!plan) return 1;
    int64_t *bytes = plan + 5, *place = bytes + inputs, *pieces = place + inputs;
    pieces[0] = 0;
    for (int64_t k = 0; k < inputs; k++) {
        bytes[k] = n[4 + k], place[k] = at, at += bytes[k];
        pieces[k + 1] = pieces[k] + (bytes[k] + piece - 1) / piece;
    }
    plan[0] = inputs, plan[1] = outer, plan[2] = n[2], plan[3] = piece, plan[4] =
            outer * n[2] >= STREAM_FROM;
    int64_t size = (at - n[3]) / pieces[inputs] + 1;
    rt->parallel(cat_pieces, p, plan, s, outer * pieces[inputs], MAX(1, 65536 / size));
    rt->release(plan);
    return 0;
}
"""


#: the result ends with the last input's piece of its last row
OPERANDS = """4+n0;0; w result bytes if(n1,(n1-1)*n2+n3+sum(n0,4),0);
    *n0 r input bytes n1*n[4+i]; c place 1+min(n3,0)"""


def unit(isa: Any) -> str:
    """Give the translation unit of the joining kernel; the compiler's flags alone make it fit
    `isa`.
    """
    return PRELUDE + STREAM + CAT + table([("cat", "d", "cat", declared(OPERANDS))])

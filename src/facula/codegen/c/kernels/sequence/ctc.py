"""C kernels of connectionist temporal classification: the loss of each sample, and its gradient.

Takes log-probabilities [T, B, C] and targets [B, L + 1], contiguous, that the operator has checked;
target rows begin with -1. A path alternates blanks and labels: blank 0, label 0, ..., blank L; a row
of states is [-inf, L labels, L + 1 blanks], so that the state before the first label can be read.
Gives bodies, one item a sample:

ctc       p: loss [B], alpha [B, T, 2 L + 2], log_probs, targets, input lengths, target lengths
ctc.grad  p: grad [T, B, C], grad of loss [B], loss, alpha, log_probs, targets, input lengths,
             target lengths, scratch [B, 3, 2 L + 2]
both      n: T, B, C, L, blank, whether infinite losses have no gradient

Keeps true: the gradient is that of the loss after `log_softmax`, as PyTorch's; sums are taken as
exponentials of differences to the largest term; states behind the end of a target are never read.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill
from facula.codegen.c.math.library import PREAMBLE, functions_for

_STATES = """
#include <math.h>
ALWAYS_INLINE @T@ two_@s@(@T@ a, @T@ b)
{
    @T@ top = a > b ? a : b, low = a > b ? b : a, zero = top == -INFINITY ? 0 : top;
    return top + fm_log1p_@s@(fm_exp_@s@(low - zero));
}
ALWAYS_INLINE @T@ three_@s@(@T@ a, @T@ b, @T@ c)
{
    @T@ top = a > b ? a : b;
    top = top > c ? top : c;
    @T@ zero = top == -INFINITY ? 0 : top;
    return zero + fm_log_@s@(fm_exp_@s@(a - zero) + fm_exp_@s@(b - zero) + fm_exp_@s@(c - zero));
}
"""

_LOSS = """
static void ctc_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t steps = n[0], batch = n[1], classes = n[2], longest = n[3], blank = n[4];
    const int64_t width = 2 * longest + 2;
    for (int64_t b = begin; b < end; b++) {
        const int64_t *target = (const int64_t *)p[3] + b * (longest + 1) + 1;
        const int64_t used = ((const int64_t *)p[4])[b], count = ((const int64_t *)p[5])[b];
        const @T@ *log_probs = (const @T@ *)p[2] + b * classes;
        @T@ *row = (@T@ *)p[1] + b * steps * width;
        if (used == 0) {
            ((@T@ *)p[0])[b] = count == 0 ? 0 : INFINITY;
            continue;
        }
        for (int64_t j = 0; j < width; j++) row[j] = -INFINITY;
        row[longest + 1] = log_probs[blank];
        if (count) row[1] = log_probs[target[0]];
        for (int64_t t = 1; t < used; t++) {
            const @T@ *lp = log_probs + t * batch * classes, at_blank = lp[blank];
            const @T@ *label = row + 1, *gap = row + longest + 1;
            row += width;
            row[0] = -INFINITY;
            @T@ *next_label = row + 1, *next_gap = row + longest + 1;
            _Pragma("omp simd") for (int64_t j = 0; j <= count; j++)
                next_gap[j] = two_@s@(gap[j], label[j - 1]) + at_blank;
            _Pragma("omp simd") for (int64_t j = 0; j < count; j++) {
                @T@ skip = target[j] != target[j - 1] ? label[j - 1] : -(@T@)INFINITY;
                next_label[j] = three_@s@(label[j], gap[j], skip) + lp[target[j]];
            }
        }
        @T@ last = row[longest + 1 + count];
        ((@T@ *)p[0])[b] = -(count ? two_@s@(last, row[count]) : last);
    }
}
"""

_GRAD = """
/* the log-probability of what is left after step t, from the states after it; `label` and `gap` may
 * be those of step t + 1 or, at the last step, the ends of the path */
ALWAYS_INLINE void ctc_back_@s@(@T@ *next_label, @T@ *next_gap, const @T@ *label, const @T@ *gap,
    const int64_t *target, const @T@ *lp, int64_t count, int64_t blank)
{
    const @T@ at_blank = lp[blank];
    _Pragma("omp simd") for (int64_t j = 0; j < count; j++) {
        next_gap[j] = two_@s@(gap[j], label[j]) + at_blank;
    }
    next_gap[count] = gap[count] + at_blank;
    _Pragma("omp simd") for (int64_t j = 0; j < count - 1; j++) {
        @T@ skip = target[j] != target[j + 1] ? label[j + 1] : -(@T@)INFINITY;
        next_label[j] = three_@s@(label[j], gap[j + 1], skip) + lp[target[j]];
    }
    if (count)
        next_label[count - 1] = two_@s@(label[count - 1], gap[count]) + lp[target[count - 1]];
}

static void ctc_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t steps = n[0], batch = n[1], classes = n[2], longest = n[3], blank = n[4];
    const int64_t width = 2 * longest + 2;
    for (int64_t b = begin; b < end; b++) {
        const int64_t *target = (const int64_t *)p[5] + b * (longest + 1) + 1;
        const int64_t used = ((const int64_t *)p[6])[b], count = ((const int64_t *)p[7])[b];
        const @T@ factor = ((const @T@ *)p[1])[b], loss = ((const @T@ *)p[2])[b];
        @T@ *state = (@T@ *)p[8] + b * 3 * width, *other = state + width, *share = other + width;
        const int64_t dead = loss == INFINITY, from = dead && n[5] ? 0 : used;
        for (int64_t t = from; t < steps; t++)
            memset((@T@ *)p[0] + (t * batch + b) * classes, 0, (size_t)classes * sizeof(@T@));
        for (int64_t j = 0; j < width; j++) other[j] = -INFINITY;
        for (int64_t t = from - 1; t >= 0; t--) {
            const @T@ *lp = (const @T@ *)p[4] + (t * batch + b) * classes;
            const @T@ *alpha = (const @T@ *)p[3] + (b * steps + t) * width;
            @T@ *grad = (@T@ *)p[0] + (t * batch + b) * classes, *swap = state;
            state = other, other = swap;
            if (t == used - 1) {
                for (int64_t j = 0; j < width; j++) other[j] = -INFINITY;
                other[longest + 1 + count] = lp[blank];
                if (count) other[count] = lp[target[count - 1]];
            } else {
                ctc_back_@s@(other + 1, other + longest + 1, state + 1, state + longest + 1,
                    target, lp, count, blank);
            }
            _Pragma("omp simd") for (int64_t j = 0; j < count; j++)
                share[j + 1] = fm_exp_@s@(alpha[j + 1] + other[j + 1] + loss - lp[target[j]]);
            @T@ on_blank = 0;
            const @T@ *gap = other + longest + 1, *alpha_gap = alpha + longest + 1;
            _Pragma("omp simd reduction(+ : on_blank)") for (int64_t j = 0; j <= count; j++)
                on_blank += fm_exp_@s@(alpha_gap[j] + gap[j] + loss - lp[blank]);
            memset(grad, 0, (size_t)classes * sizeof(@T@));
            for (int64_t j = 0; j < count; j++) grad[target[j]] += share[j + 1];
            grad[blank] += on_blank;
            const @T@ poison = dead ? (@T@)NAN : 0;
            _Pragma("omp simd") for (int64_t c = 0; c < classes; c++)
                grad[c] = (fm_exp_@s@(lp[c]) - grad[c] + poison) * factor;
        }
    }
}
"""


_GIVEN = """r log_probs @ n0*n1*n2; r targets i64 n1*(n3+1); r input_lengths i64 n1;
    r target_lengths i64 n1"""
_OPERANDS = {
    "ctc": f"6;0; w loss @ n1; w alpha @ n1*n0*(2*n3+2); {_GIVEN}",
    "ctc.grad": f"""6;0; w grad @ n0*n1*n2; r grad_loss @ n1; r loss @ n1;
        r alpha @ n1*n0*(2*n3+2); {_GIVEN}; w scratch @ n1*3*(2*n3+2)""",
}


def unit(isa: Isa) -> str:
    """The translation unit of both kernels for one instruction set."""
    bodies: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        ctype = STORAGES[dtype].ctype
        bodies.append(fill(_STATES + _LOSS + _GRAD, s=dtype, T=ctype))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            entries.append((f"{name}:{dtype}", "b", function, declared(said, dtype)))
    text = "".join(bodies)
    return PROLOGUE + PREAMBLE + functions_for(text) + text + table(entries)

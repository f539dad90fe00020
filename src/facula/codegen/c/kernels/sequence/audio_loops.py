"""C kernels of what runs along time: recursive filters, overdrive, transducer losses, alignments.

Gives bodies, one item a row or a sample:

audio.recursion   p: out [N, time], input, weights [channels, order + 1]; row i has the weights of
                  channel i % channels.  n: time, channels, order
audio.overdrive   p: out [N, time], input, driven, last_in [N], last_out [N] (both written).  n: time
audio.transducer  p: loss [B], grad [B, T, U, D] (or null), logits, targets (int32 [B, U - 1]), frames
                  (int32 [B]), labels (int32 [B]), scratch [B, 3, T, U].
                  n: B, T, U, D, blank, whether logits are log-probabilities; s: 0 clamp (none: <= 0)
audio.align       p: path (int64 [B, T]), log_probs [B, T, C], targets (int64 [B, L]), frames, labels
                  (int64 [B]), scratch (u8 [B, T, 2 L + 1]), sums [B, 2, 2 L + 1].
                  n: B, T, C, L, blank

Keeps true: a recursion adds its terms from the nearest sample to the farthest; of two equal paths an
alignment takes the one that stays, and then the one that moves on by one. [Graves 2012]
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill

_FILTERS = """
#include <math.h>
static void audio_recursion_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t time = n[0], order = n[2];
    for (int64_t row = begin; row < end; row++) {
        const @T@ *x = (const @T@ *)p[1] + row * time;
        const @T@ *a = (const @T@ *)p[2] + row % n[1] * (order + 1);
        @T@ *y = (@T@ *)p[0] + row * time;
        if (order == 2) {
            @T@ one = 0, two = 0;
            const @T@ near = a[1], far = a[2];
            for (int64_t t = 0; t < time; t++) {
                @T@ sum = x[t] - far * two - near * one;
                two = one, one = y[t] = sum;
            }
            continue;
        }
        for (int64_t t = 0; t < time; t++) {
            @T@ sum = x[t];
            int64_t reach = t < order ? t : order;
            for (int64_t k = reach; k > 0; k--) sum -= a[k] * y[t - k];
            y[t] = sum;
        }
    }
}

static void audio_overdrive_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        const @T@ *x = (const @T@ *)p[1] + row * n[0], *driven = (const @T@ *)p[2] + row * n[0];
        @T@ *out = (@T@ *)p[0] + row * n[0], in = ((@T@ *)p[3])[row], last = ((@T@ *)p[4])[row];
        for (int64_t t = 0; t < n[0]; t++) {
            last = driven[t] - in + (@T@)0.995 * last, in = driven[t];
            out[t] = x[t] * (@T@)0.5 + last * (@T@)0.75;
        }
        ((@T@ *)p[3])[row] = in, ((@T@ *)p[4])[row] = last;
    }
}
"""

_TRANSDUCER = """
static @T@ both_@s@(@T@ a, @T@ b)
{
    @T@ top = a > b ? a : b, low = a > b ? b : a;
    return top == -INFINITY ? top : top + @LOG1P@(@EXP@(low - top));
}

static void audio_transducer_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t longest = n[1], width = n[2], classes = n[3], blank = n[4];
    for (int64_t b = begin; b < end; b++) {
        const @T@ *logits = (const @T@ *)p[2] + b * longest * width * classes;
        const int32_t *target = (const int32_t *)p[3] + b * (width - 1);
        const int64_t frames = ((const int32_t *)p[4])[b], rows = ((const int32_t *)p[5])[b] + 1;
        @T@ *norm = (@T@ *)p[6] + 3 * b * longest * width, *alpha = norm + longest * width;
        @T@ *beta = alpha + longest * width;
        for (int64_t t = 0; t < frames; t++)
            for (int64_t u = 0; u < rows; u++) {
                const @T@ *x = logits + (t * width + u) * classes;
                @T@ top = x[0], sum = 0;
                for (int64_t d = 1; d < classes; d++) top = x[d] > top ? x[d] : top;
                for (int64_t d = 0; d < classes; d++) sum += @EXP@(x[d] - top);
                norm[t * width + u] = n[5] ? 0 : top + @LOG@(sum);
            }
#define AT(t, u, d) (logits[((t) * width + (u)) * classes + (d)] - norm[(t) * width + (u)])
        for (int64_t t = 0; t < frames; t++)
            for (int64_t u = 0; u < rows; u++) {
                @T@ wait = t ? alpha[(t - 1) * width + u] + AT(t - 1, u, blank) : -INFINITY;
                @T@ say = u ? alpha[t * width + u - 1] + AT(t, u - 1, target[u - 1]) : -INFINITY;
                alpha[t * width + u] = t || u ? both_@s@(wait, say) : 0;
            }
        for (int64_t t = frames - 1; t >= 0; t--)
            for (int64_t u = rows - 1; u >= 0; u--) {
                @T@ last = t == frames - 1 && u == rows - 1 ? AT(t, u, blank) : -INFINITY;
                @T@ wait = t < frames - 1 ? beta[(t + 1) * width + u] + AT(t, u, blank) : last;
                @T@ say = u < rows - 1 ? beta[t * width + u + 1] + AT(t, u, target[u]) : -INFINITY;
                beta[t * width + u] = both_@s@(wait, say);
            }
        const @T@ loss = -beta[0], limit = (@T@)s[0].f;
        ((@T@ *)p[0])[b] = loss;
        if (!p[1]) continue;
        @T@ *grad = (@T@ *)p[1] + b * longest * width * classes;
        memset(grad, 0, (size_t)(longest * width * classes) * sizeof(@T@));
        for (int64_t t = 0; t < frames; t++)
            for (int64_t u = 0; u < rows; u++) {
                @T@ *g = grad + (t * width + u) * classes, here = alpha[t * width + u] + loss;
                int final = t == frames - 1 && u == rows - 1;
                if (!n[5])
                    for (int64_t d = 0; d < classes; d++)
                        g[d] = @EXP@(AT(t, u, d) + here + beta[t * width + u]);
                if (t < frames - 1 || final)
                    g[blank] -= @EXP@(AT(t, u, blank) + here
                        + (final ? 0 : beta[(t + 1) * width + u]));
                if (u < rows - 1)
                    g[target[u]] -= @EXP@(AT(t, u, target[u]) + here + beta[t * width + u + 1]);
                if (limit > 0)
                    for (int64_t d = 0; d < classes; d++)
                        g[d] = g[d] > limit ? limit : g[d] < -limit ? -limit : g[d];
            }
#undef AT
    }
}
"""

_ALIGN = """
static void audio_align_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t longest = n[1], classes = n[2], most = n[3], blank = n[4], width = 2 * most + 1;
    for (int64_t b = begin; b < end; b++) {
        const @T@ *log_probs = (const @T@ *)p[1] + b * longest * classes;
        const int64_t *target = (const int64_t *)p[2] + b * most;
        const int64_t frames = ((const int64_t *)p[3])[b], labels = ((const int64_t *)p[4])[b];
        const int64_t states = 2 * labels + 1;
        uint8_t *moves = (uint8_t *)p[5] + b * longest * width;
        @T@ *last = (@T@ *)p[6] + 2 * b * width, *now = last + width;
        int64_t *path = (int64_t *)p[0] + b * longest;
        for (int64_t t = 0; t < longest; t++) path[t] = blank;
        for (int64_t i = 0; i < states; i++)
            last[i] = i < 2 ? log_probs[i ? target[0] : blank] : -INFINITY;
        for (int64_t t = 1; t < frames; t++) {
            const @T@ *lp = log_probs + t * classes;
            for (int64_t i = 0; i < states; i++) {
                @T@ stay = last[i], one = i > 0 ? last[i - 1] : -INFINITY, two = -INFINITY;
                if (i > 2 && i % 2 && target[i / 2] != target[i / 2 - 1]) two = last[i - 2];
                int move = two > one && two > stay ? 2 : one > stay && one > two ? 1 : 0;
                moves[t * width + i] = (uint8_t)move;
                now[i] = (move == 2 ? two : move ? one : stay) + lp[i % 2 ? target[i / 2] : blank];
            }
            @T@ *swap = last;
            last = now, now = swap;
        }
        if (frames <= 0) continue;
        int64_t at = states == 1 || last[states - 1] > last[states - 2] ? states - 1 : states - 2;
        for (int64_t t = frames - 1; t >= 0; t--) {
            path[t] = at % 2 ? target[at / 2] : blank;
            if (t) at -= moves[t * width + at];
        }
    }
}
"""

_OPERANDS = {
    "audio.recursion": "3;0; w out @ N*n0; r input @ N*n0; r weights @ n1*(n2+1); c channels n1",
    "audio.overdrive": """1;0; w out @ N*n0; r input @ N*n0; r driven @ N*n0; u last_in @ N;
        u last_out @ N""",
    "audio.transducer": """6;1; w loss @ n0; w? grad @ n0*n1*n2*n3; r logits @ n0*n1*n2*n3;
        r targets i32 n0*(n2-1); r frames i32 n0; r labels i32 n0; w scratch @ 3*n0*n1*n2;
        c items 1+n0-N""",
    "audio.align": """5;0; w path i64 n0*n1; r log_probs @ n0*n1*n2; r targets i64 n0*n3;
        r frames i64 n0; r labels i64 n0; w moves u8 n0*n1*(2*n3+1); w sums @ 2*n0*(2*n3+1);
        c items 1+n0-N""",
}


def unit(isa: Isa) -> str:
    """The translation unit for one instruction set."""
    text: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        tail = "f" if dtype == "f32" else ""
        names = {word.upper(): word + tail for word in ("exp", "log", "log1p")}
        body = _FILTERS + _TRANSDUCER + _ALIGN
        text.append(fill(body, s=dtype, T=STORAGES[dtype].ctype, **names))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            entries.append((f"{name}:{dtype}", "b", function, declared(said, dtype)))
    return PROLOGUE + "".join(text) + table(entries)

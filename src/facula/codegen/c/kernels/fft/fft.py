"""Fourier transforms along one dimension of a strided array, in float32 and float64.

Takes p: out, in, table of roots; n: a geometry and then a plan's passes (`ops/fft/plan.py`); s: the
scale, and -1 for the inverse (its inputs and results are conjugated around a forward transform).
Gives two drivers, each for the kinds complex, real and half of that module:

fft.lanes   a vector holds one place of neighbouring rows. Two real rows are the parts of a complex
            one, and what belongs to each is told apart by symmetry.
            n[63..]: passes, their lengths
fft.rows    row by row (`fft_rows.py`)

Geometry: n[0] kind, 1 length (of the real side for real kinds), 2 places taken and 3 given of a row,
4 and 5 their distances, 6 lanes of a group (blocks of lanes do not cross groups), 7 rows, 8 batch
dimensions, then DIMS (18) each: their sizes, strides in, strides out; a plan follows at 63. All
strides count elements. Rows may overlap in the input; `in` may be `out` for the complex kind.
Keeps true: rows do not depend on each other nor on the number of threads; a block is read before it
is written. `fft.lanes<V>` exists (and does nothing) to say how many numbers a vector holds.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.fft.fft_rows import ROWS
from facula.codegen.c.kernels.fft.fft_tile import names_of, tile_text
from facula.codegen.c.kernels.movement.storage import PROLOGUE, fill
from facula.ops.fft.launch import DIMS

DTYPES = ("f32", "f64")

_GEOMETRY = """
#define UNROLL _Pragma("GCC unroll 16")
enum { COMPLEX, REAL, HALF, DIMS = @DIMS@, PLAN = 9 + 3 * DIMS };

/* the offsets of `count` rows from `first` on; what is missing of `width` repeats the first */
static void fft_offsets(const int64_t *n, const int64_t *strides, int64_t first, int64_t count,
    int64_t width, int64_t *of)
{
    int64_t place[DIMS] = {first}, at = 0;
    const int64_t inner = n[8] - 1;
    for (int64_t d = inner, rest = first; d >= 0; d--) {
        place[d] = d ? rest % n[9 + d] : rest;
        rest = d ? rest / n[9 + d] : 0;
        at += place[d] * strides[d];
    }
    if (inner <= 0 || place[inner] + count <= n[9 + inner]) {
        const int64_t stride = inner < 0 ? 0 : strides[inner];
        for (int64_t i = 0; i < count; i++) of[i] = at + i * stride;
    } else {
        for (int64_t i = 0; i < count; i++) {
            of[i] = at;
            for (int64_t d = inner; d >= 0; d--) {
                at += strides[d];
                if (++place[d] < n[9 + d]) break;
                at -= place[d] * strides[d];
                place[d] = 0;
            }
        }
    }
    for (int64_t i = count; i < width; i++) of[i] = of[0];
}

static int fft_neighbours(const int64_t *of, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (of[i] != of[i - 1] + 1) return 0;
    return 1;
}
"""

_LANES = """
/* the spectra of two real rows, told apart in the transform of one + i other: first, then second */
static void apart_@s@(const @T@ *z, @T@ *out, int64_t length, int64_t places, int second)
{
    const @T@ half = (@T@)0.5;
    for (int64_t k = 0; k < places; k++, out += 2 * @V@) {
        const @T@ *a = z + 2 * @V@ * k, *b = z + 2 * @V@ * (k ? length - k : 0);
        const vec_@s@ ar = LOAD_@s@(a), ai = LOAD_@s@(a + @V@);
        const vec_@s@ br = LOAD_@s@(b), bi = LOAD_@s@(b + @V@);
        STORE_@s@(out, (second ? ai + bi : ar + br) * half);
        STORE_@s@(out + @V@, (second ? br - ar : ai - bi) * half);
    }
}

/* the conjugate of one + i other, whole spectra, out of half of each */
static void together_@s@(const @T@ *one, const @T@ *other, @T@ *z, int64_t length)
{
    for (int64_t k = 0; 2 * k <= length; k++, one += 2 * @V@, other += 2 * @V@) {
        const int alone = k == 0 || 2 * k == length; /* real: what stands there else is ignored */
        const vec_@s@ zero = {0}, ar = LOAD_@s@(one), br = LOAD_@s@(other);
        const vec_@s@ ai = alone ? zero : LOAD_@s@(one + @V@), bi = alone ? zero
            : LOAD_@s@(other + @V@);
        if (!alone) {
            STORE_@s@(z + 2 * @V@ * (length - k), ar + bi);
            STORE_@s@(z + 2 * @V@ * (length - k) + @V@, ai - br);
        }
        STORE_@s@(z + 2 * @V@ * k, ar - bi);
        STORE_@s@(z + 2 * @V@ * k + @V@, -ai - br);
    }
}

/* one block of rows; x and y are tiles of length + 2 places */
static void lanes_block_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t block,
    @T@ *x, @T@ *y)
{
    const int64_t width = n[0] == COMPLEX ? @V@ : 2 * @V@, group = n[6];
    const int64_t blocks = (group + width - 1) / width, inside = block % blocks * width;
    const int64_t rows = group - inside < width ? group - inside : width;
    const int64_t more = rows > @V@ ? rows - @V@ : 0, few = rows - more;
    const @T@ *in = (const @T@ *)p[1];
    const @T@ scale = (@T@)s[0].f, sign = (@T@)s[1].f;
    @T@ *out = (@T@ *)p[0], *z;
    int64_t from[2 * @V@], to[2 * @V@], next[2];
    const int64_t first = block / blocks * group + inside;
    fft_offsets(n, n + 9 + DIMS, first, rows, width, from);
    fft_offsets(n, n + 9 + 2 * DIMS, first, rows, width, to);
    for (int side = 0; side < 2; side++) {
        fft_offsets(n, n + 9 + (1 + side) * DIMS, first + rows < n[7] ? first + rows : first, 1, 1,
            next + side);
        next[side] -= (side ? to : from)[0];
    }
    const int near[2] = {few == @V@ && fft_neighbours(from, @V@),
        more == @V@ && fft_neighbours(from + @V@, @V@)};
    const int close[2] = {few == @V@ && fft_neighbours(to, @V@),
        more == @V@ && fft_neighbours(to + @V@, @V@)};
    const edge_@s@ taken = {(@T@ *)in + 2 * from[0], n[4], 1, sign};
    const edge_@s@ given = {out + 2 * to[0], n[5], scale, scale * sign};
    if (n[0] == COMPLEX) {
        if (!near[0]) load_complex_@s@(x, in, from, n[2], n[4], 0, next[0], sign);
    } else if (n[0] == REAL) {
        load_real_@s@(x, in, from, n[2], n[4], near[0], next[0]);
        load_real_@s@(x + @V@, in, from + @V@, n[2], n[4], near[1], next[0]);
    } else {
        @T@ *other = y + 2 * @V@ * n[2];
        load_complex_@s@(y, in, from, n[2], n[4], near[0], next[0], 1);
        load_complex_@s@(other, in, from + @V@, n[2], n[4], near[1], next[0], 1);
        together_@s@(y, other, x, n[1]);
    }
    z = passes_@s@(n + PLAN + 1, n[PLAN], n[1], (const @T@ *)p[2], x, y,
        n[0] == COMPLEX && near[0] ? &taken : 0, n[0] == COMPLEX && close[0] ? &given : 0);
    if (!z) return;
    if (n[0] == COMPLEX) {
        store_complex_@s@(z, out, to, n[3], n[5], 0, next[1], few, scale, scale * sign);
    } else if (n[0] == REAL) {
        for (int second = 0; second < 1 + (more > 0); second++) {
            @T@ *free = z == x ? y : x;
            apart_@s@(z, free, n[1], n[3], second);
            store_complex_@s@(free, out, to + second * @V@, n[3], n[5], close[second], next[1],
                second ? more : few, scale, scale);
        }
    } else {
        store_real_@s@(z, out, to, n[3], n[5], close[0], next[1], few, scale);
        if (more)
            store_real_@s@(z + @V@, out, to + @V@, n[3], n[5], close[1], next[1], more, -scale);
    }
}

typedef struct {
    char *const *p;
    char *tiles;
    int64_t bytes, blocks, slots;
} lanes_job_@s@;

static void lanes_body_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const lanes_job_@s@ *job = (const lanes_job_@s@ *)p[0];
    for (int64_t slot = begin; slot < end; slot++) {
        @T@ *x = (@T@ *)(job->tiles + 2 * slot * job->bytes);
        @T@ *y = (@T@ *)((char *)x + job->bytes);
        const int64_t last = (slot + 1) * job->blocks / job->slots;
        for (int64_t block = slot * job->blocks / job->slots; block < last; block++)
            lanes_block_@s@(job->p, n, s, block, x, y);
    }
}

static int lanes_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    const int64_t width = n[0] == COMPLEX ? @V@ : 2 * @V@, most = rt->threads();
    lanes_job_@s@ job = {.p = p};
    job.bytes = (n[1] + 2) * 2 * @V@ * (int64_t)sizeof(@T@) + 64;
    job.blocks = n[7] / n[6] * ((n[6] + width - 1) / width);
    job.slots = job.blocks * n[1] * width < 8192 ? 1 : job.blocks < most ? job.blocks : most;
    if (!(job.tiles = rt->scratch(2 * job.slots * job.bytes))) return 1;
    char *context[1] = {(char *)&job};
    rt->parallel(lanes_body_@s@, context, n, s, job.slots, 1);
    rt->release(job.tiles);
    return 0;
}

static int nothing_@s@(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *rt)
{
    return 0;
}
"""


#: kind 0 reads and writes complex numbers (`$`), 1 reads reals (`@`), 2 writes reals; the plan's
#: passes and its table are what `ops/fft/plan.py` made for the length
_IN, _OUT = "if(n7,high(n8,9,27)+(n2-1)*n4,0)", "if(n7,high(n8,9,45)+(n3-1)*n5,0)"
_OPERANDS = f"""63+;2; *1-(n0=2) w out $ {_OUT}; *n0=2 w out @ {_OUT}; *1-(n0=1) r in $ {_IN};
    *n0=1 r in @ {_IN}; r table @ 0; c kind min(1+n0,3-n0); c lanes min(n1,n6); c sizes if(n8<1,1,product(n8,9))"""


def unit(isa: Isa) -> str:
    """The translation unit of the Fourier transforms for one instruction set."""
    text = [PROLOGUE, fill(_GEOMETRY, DIMS=DIMS)]
    entries: list[Entry] = []
    for dtype in DTYPES:
        names = names_of(isa, dtype)
        text += [tile_text(isa, dtype), fill(_LANES, **names), fill(ROWS, **names)]
        said = declared(_OPERANDS, dtype).replace("$", {"f32": "c64", "f64": "c128"}[dtype])
        entries += [
            (f"fft.lanes:{dtype}", "d", f"lanes_{dtype}", said),
            (f"fft.rows:{dtype}", "d", f"rows_{dtype}", said),
            (f"fft.lanes{names['V']}:{dtype}", "d", f"nothing_{dtype}", declared("0;0")),
        ]
    return "".join(text) + table(entries)

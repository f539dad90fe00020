"""C kernels of one step of an LSTM: the arithmetic between the gates' sums and the new state.

Gates stand in the order input, forget, cell, output, each H wide. Gives bodies, one item a row of
the batch; all arrays are contiguous, rows of H or 4 H:

lstm_step       p: h, c, gates [rows, 4 H], c before      n: H
                gates: sums become the gates' values
lstm_step.grad  p: grad of sums [rows, 4 H], grad of c, grad of h, a second such or null, gates,
                   c, c before                            n: H
                grad of c: that of the new state becomes that of the state before

Keeps true: a row is computed by one thread; no row of h or c is the row before it.
"""

from __future__ import annotations

from facula.codegen.c.entries import Entry, declared, table
from facula.codegen.c.isa import Isa
from facula.codegen.c.kernels.movement.storage import PROLOGUE, STORAGES, fill
from facula.codegen.c.math.library import PREAMBLE, functions_for

_STEP = """
static void lstm_step_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t size = n[0];
    for (int64_t row = begin; row < end; row++) {
        @T@ *restrict h = (@T@ *)p[0] + row * size, *restrict c = (@T@ *)p[1] + row * size;
        @T@ *restrict gates = (@T@ *)p[2] + row * 4 * size;
        const @T@ *restrict before = (const @T@ *)p[3] + row * size;
        _Pragma("omp simd") for (int64_t j = 0; j < size; j++) {
            const @T@ input = 1 / (1 + fm_exp_@s@(-gates[j]));
            const @T@ forget = 1 / (1 + fm_exp_@s@(-gates[size + j]));
            const @T@ cell = fm_tanh_@s@(gates[2 * size + j]);
            const @T@ output = 1 / (1 + fm_exp_@s@(-gates[3 * size + j]));
            const @T@ state = forget * before[j] + input * cell;
            gates[j] = input, gates[size + j] = forget;
            gates[2 * size + j] = cell, gates[3 * size + j] = output;
            c[j] = state;
            h[j] = output * fm_tanh_@s@(state);
        }
    }
}
"""

_GRAD = """
static void lstm_step_grad_@s@(char *const *p, const int64_t *n, const fk_scalar *s, int64_t begin,
    int64_t end)
{
    const int64_t size = n[0];
    for (int64_t row = begin; row < end; row++) {
        @T@ *restrict to = (@T@ *)p[0] + row * 4 * size, *restrict dc = (@T@ *)p[1] + row * size;
        const @T@ *restrict dh = (const @T@ *)p[2] + row * size;
        const @T@ *restrict later = p[3] ? (const @T@ *)p[3] + row * size : dh;
        const @T@ *restrict gates = (const @T@ *)p[4] + row * 4 * size;
        const @T@ *restrict c = (const @T@ *)p[5] + row * size;
        const @T@ *restrict before = (const @T@ *)p[6] + row * size;
        _Pragma("omp simd") for (int64_t j = 0; j < size; j++) {
            const @T@ input = gates[j], forget = gates[size + j];
            const @T@ cell = gates[2 * size + j], output = gates[3 * size + j];
            const @T@ shown = fm_tanh_@s@(c[j]);
            const @T@ g = p[3] ? dh[j] + later[j] : dh[j];
            const @T@ state = dc[j] + g * output * (1 - shown * shown);
            to[j] = state * cell * input * (1 - input);
            to[size + j] = state * before[j] * forget * (1 - forget);
            to[2 * size + j] = state * input * (1 - cell * cell);
            to[3 * size + j] = g * shown * output * (1 - output);
            dc[j] = state * forget;
        }
    }
}
"""


_OPERANDS = {
    "lstm_step": "1;0; w h @ N*n0; w c @ N*n0; u gates @ 4*N*n0; r before @ N*n0",
    "lstm_step.grad": """1;0; w grad_sums @ 4*N*n0; u grad_c @ N*n0; r grad_h @ N*n0;
        r? later @ N*n0; r gates @ 4*N*n0; r c @ N*n0; r before @ N*n0""",
}


def unit(isa: Isa) -> str:
    """The translation unit of both kernels for one instruction set."""
    bodies: list[str] = []
    entries: list[Entry] = []
    for dtype in ("f32", "f64"):
        bodies.append(fill(_STEP + _GRAD, s=dtype, T=STORAGES[dtype].ctype))
        for name, said in _OPERANDS.items():
            function = f"{name.replace('.', '_')}_{dtype}"
            entries.append((f"{name}:{dtype}", "b", function, declared(said, dtype)))
    text = "".join(bodies)
    return PROLOGUE + PREAMBLE + functions_for(text) + text + table(entries)

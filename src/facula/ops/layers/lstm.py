"""Operators: one layer of an LSTM over all steps of a sequence, and its gradient.

Takes an input [T, N, features], the state before it, and the layer's weights; gives the hidden
state of every step and the last state. Gates stand in the order input, forget, cell, output. Keeps
true: the gates' values and cells of all steps are kept for the backward, which is three large
products and one small one a step; double backward is a formula over operators. [Hochreiter &
Schmidhuber 1997]
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.matmul.products import gemm
from facula.ops.table.registry import F, operator

#: dtypes with kernels
FUSED = frozenset("f32 f64".split())


def _order(steps: int, reverse: bool) -> range:
    """Steps in the order in which the state passes through them."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _flat(x: core.Tensor) -> Any:
    """Steps and batch as one dimension."""
    return x.reshape((-1, x.shape[-1]))


@operator(
    "_lstm_layer(Tensor input, Tensor h0, Tensor c0, Tensor w_input, Tensor w_hidden, Tensor? bias, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    nondifferentiable=(3, 4),
    file_form="lstm_layer",
)
class _lstm_layer:
    """Hidden states [T, N, H], the last h and c [N, H], cells [T, N, H], gates [T, N, 4 H]."""

    takes_16_bits = False

    def meta(input, h0, c0, w_input, w_hidden, bias, reverse):
        steps, batch, size = input.shape[0], input.shape[1], h0.shape[1]
        sequence, state = (steps, batch, size), (batch, size)
        shapes = (sequence, state, state, sequence, (steps, batch, 4 * size))
        return tuple(core.empty(s, dtype=input.dtype, device=input.device) for s in shapes)

    def cpu(out, input, h0, c0, w_input, w_hidden, bias, reverse):
        output, last_h, last_c, cells, gates = out
        steps, batch, size = output.shape
        if not last_h.numel():
            return
        bias = None if bias is None else bias.contiguous()
        gemm(_flat(gates), _flat(input.contiguous()), w_input.t(), bias=bias)
        # rows of a transposed copy are read where they lie in every step
        hidden = w_hidden.t().contiguous()
        product = core.kernel(f"gemm:{input.dtype.code}")
        step = core.kernel(f"lstm_step:{input.dtype.code}")
        width = 4 * size
        sizes = (1, batch, width, size, 0, size, 1, 0, width, 1, 0, width, 0)
        h, c = h0.contiguous(), c0.contiguous()
        for t in _order(steps, reverse):
            sums = gates[t]
            product((sums, h, hidden, None), sizes, (1.0, 1.0))
            h, before, c = output[t], c, cells[t]
            step((h, c, sums, before), (size,), (), batch, max(1, 4096 // size))
        last_h.copy_(h)
        last_c.copy_(c)

    def backward(
        grads, input, h0, c0, w_input, w_hidden, bias, reverse, result_0, result_3, result_4, needs
    ):
        if all(g is None for g in grads[:3]):
            return None, None, None, None, None, None
        if core.is_grad_enabled():
            found = _formula(grads, input, h0, c0, w_input, w_hidden, bias, reverse)
        else:
            saved = (result_0, result_3, result_4, input, h0, c0, w_input, w_hidden)
            found = F._lstm_layer_backward(*grads[:3], *saved, reverse, needs[0])
        return tuple(g if n else None for g, n in zip(found, needs, strict=True))

    def samples(S):
        weights = (S(12, 2), S(12, 3), S(12))
        yield (S(4, 2, 2), S(2, 3), S(2, 3), *weights, False), {}
        yield (S(3, 2, 2), S(2, 3), S(2, 3), S(12, 2), S(12, 3), None, True), {}


@operator(
    "_lstm_layer_backward(Tensor? grad_output, Tensor? grad_h, Tensor? grad_c, Tensor output, "
    "Tensor cells, Tensor gates, Tensor input, Tensor h0, Tensor c0, Tensor w_input, "
    "Tensor w_hidden, bool reverse, bool input_grad) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
class _lstm_layer_backward:
    """Gradients of input (empty where not asked for), h0, c0, both weights and the bias."""

    def meta(
        grad_output,
        grad_h,
        grad_c,
        output,
        cells,
        gates,
        input,
        h0,
        c0,
        w_input,
        w_hidden,
        reverse,
        input_grad,
    ):
        first = input.shape if input_grad else (0,)
        weights = (w_input.shape, w_hidden.shape, w_hidden.shape[:1])
        shapes = (first, h0.shape, c0.shape, *weights)
        return tuple(core.empty(s, dtype=input.dtype, device=input.device) for s in shapes)

    def cpu(
        out,
        grad_output,
        grad_h,
        grad_c,
        output,
        cells,
        gates,
        input,
        h0,
        c0,
        w_input,
        w_hidden,
        reverse,
        input_grad,
    ):
        d_input, d_h, d_c, d_w_input, d_w_hidden, d_bias = out
        order = _order(output.shape[0], reverse)
        sums = core.empty(gates.shape, dtype=gates.dtype)
        _back_through_steps(
            sums, d_h, d_c, (grad_output, grad_h, grad_c), (cells, gates, c0, w_hidden), order
        )
        flat = _flat(sums)
        if input_grad:
            gemm(_flat(d_input), flat, w_input)
        gemm(d_w_input, flat.t(), _flat(input.contiguous()))
        d_bias.copy_(flat.sum(0))
        # the first step saw h0, every other one the output of the step before
        gemm(d_w_hidden, sums[order[0]].t(), h0)
        if len(order) > 1:
            seen, shown = (sums[:-1], output[1:]) if reverse else (sums[1:], output[:-1])
            gemm(d_w_hidden, _flat(seen).t(), _flat(shown), 1, 1)


def _back_through_steps(
    sums: core.Tensor,
    d_h: core.Tensor,
    d_c: core.Tensor,
    grads: tuple[Any, ...],
    saved: tuple[Any, ...],
    order: range,
) -> None:
    """Fill the gradients of the gates' sums, from the last step to the first, and of the state."""
    grad_output, grad_h, grad_c = grads
    cells, gates, c0, w_hidden = saved
    batch, size = d_h.shape
    code, width = sums.dtype.code, 4 * size
    step, product = core.kernel(f"lstm_step.grad:{code}"), core.kernel(f"gemm:{code}")
    sizes = (1, batch, size, width, 0, width, 1, 0, size, 1, 0, size, 0)
    w_hidden, c0 = w_hidden.contiguous(), c0.contiguous()
    if grad_c is None:
        d_c.zero_()
    else:
        d_c.copy_(grad_c)
    later = None if grad_h is None else grad_h.contiguous()
    shown = None if grad_output is None else grad_output.contiguous()
    if shown is None:
        nothing = F.zeros((batch, size), dtype=sums.dtype)
    for k in range(len(order) - 1, -1, -1):
        t = order[k]
        before = cells[order[k - 1]] if k else c0
        grad = nothing if shown is None else shown[t]
        rows = (sums[t], d_c, grad, later, gates[t], cells[t], before)
        step(rows, (size,), (), batch, max(1, 4096 // size))
        product((d_h, sums[t], w_hidden, None), sizes, (1.0, 0.0))
        later = d_h


def _formula(
    grads: tuple[Any, ...],
    x: core.Tensor,
    h0: core.Tensor,
    c0: core.Tensor,
    w_input: core.Tensor,
    w_hidden: core.Tensor,
    bias: core.Tensor | None,
    reverse: bool,
) -> tuple[Any, ...]:
    """The same gradients by operators that can be differentiated again."""
    steps, size = x.shape[0], h0.shape[1]
    order = _order(steps, reverse)
    h, c, kept = h0, c0, {}
    for t in order:
        total = F.mm(x[t], w_input.t()) + F.mm(h, w_hidden.t())
        total = total if bias is None else total + bias
        i, f, g, o = (total[:, k * size : (k + 1) * size] for k in range(4))
        i, f, g, o = F.sigmoid(i), F.sigmoid(f), F.tanh(g), F.sigmoid(o)
        new = f * c + i * g
        shown = F.tanh(new)
        kept[t] = (h, c, i, f, g, o, shown)
        h, c = o * shown, new
    grad_output, grad_h, grad_c = grads[:3]
    dh = F.zeros_like(h) if grad_h is None else grad_h
    dc = F.zeros_like(c) if grad_c is None else grad_c
    sums: list[Any] = [None] * steps
    for t in reversed(order):
        h, c, i, f, g, o, shown = kept[t]
        dh = dh if grad_output is None else dh + grad_output[t]
        dc = dc + dh * o * (1 - shown * shown)
        parts = (dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g))
        sums[t] = F.cat([*parts, dh * shown * o * (1 - o)], 1)
        dc, dh = dc * f, F.mm(sums[t], w_hidden)
    every = F.stack(sums)
    flat = _flat(every)
    hidden = F.stack([kept[t][0] for t in range(steps)])
    d_input = F.mm(flat, w_input).reshape(x.shape)
    d_w_hidden = F.mm(flat.t(), _flat(hidden))
    return d_input, dh, dc, F.mm(flat.t(), _flat(x)), d_w_hidden, flat.sum(0)

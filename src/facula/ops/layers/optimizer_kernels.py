"""Optimizer steps over lists of tensors: one launch for a whole parameter group.

Takes lists of parameters, gradients and states (contiguous CPU tensors of one floating-point dtype
a parameter) and changes parameters and states in place; step counts are zero-dimensional f32
tensors and are counted up here.
Keeps true: arithmetic is elementwise in the compute dtype (f32 for half precision), per-tensor
factors in f64; the order of the tensors and the number of threads do not change a result. Nothing
is recorded for autograd; version counters go up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.norm import powers_fit
from facula.ops.table.registry import F

Tensors = Sequence[Any]

#: pointers and sizes that one launch takes
_MOST_POINTERS, _MOST_SIZES = core.KERNEL_POINTERS, core.KERNEL_INTS
_FLOATING = frozenset(("f32", "f64", "bf16", "f16"))


def _launch(name: str, columns: Sequence[Tensors], scalars: tuple[float, ...]) -> None:
    """Run `step.<name>` over the tensors of `columns` (operands, then per-tensor scalars), one
    group a dtype."""
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in zip(*columns, strict=True):
        groups.setdefault(row[0].dtype.code, []).append(row)
    most = min(_MOST_POINTERS // len(columns), _MOST_SIZES - 1)
    for code, rows in groups.items():
        if code not in _FLOATING:
            fail(
                RuntimeError,
                name,
                "floating-point parameters",
                rows[0][0].dtype,
                hint="convert the parameters with .float()",
            )
        run = core.kernel(f"step.{name}:{code}")
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            pointers = [tensor for row in part for tensor in row]
            run(pointers, (len(part), *[row[0].numel() for row in part]), scalars)
    core.bump_versions((columns[0],))


def _sign(maximize: bool) -> float:
    return -1.0 if maximize else 1.0


def sgd_step(
    params: Tensors,
    grads: Tensors,
    momentum_buffers: list[Any],
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> None:
    """Stochastic gradient descent; buffers that are None are made (and put into the list) on their
    first step."""
    settings = (
        float(lr),
        float(momentum),
        float(dampening),
        float(weight_decay),
        _sign(maximize),
    )
    if momentum == 0:
        _launch("sgd", (params, grads), settings)
        return
    suffix = ".nesterov" if nesterov else ""
    first = [k for k, buffer in enumerate(momentum_buffers) if buffer is None]
    for k in first:
        momentum_buffers[k] = core.empty_like(params[k])
    if not first:
        _launch("sgd.momentum" + suffix, (params, grads, momentum_buffers), settings)
        return
    fresh = set(first)
    for name, chosen in (
        ("sgd.first", first),
        ("sgd.momentum", [k for k in range(len(params)) if k not in fresh]),
    ):
        columns = tuple([column[k] for k in chosen] for column in (params, grads, momentum_buffers))
        _launch(name + suffix, columns, settings)


def _adam(
    name: str,
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    steps: Tensors,
    settings: tuple[float, ...],
    amsgrad: bool,
) -> None:
    if amsgrad:
        columns = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps)
        _launch(name + ".amsgrad", columns, settings)
    else:
        _launch(name, (params, grads, exp_avgs, exp_avg_sqs, steps), settings)


def _adam_settings(
    lr: float, betas: tuple[float, float], eps: float, weight_decay: float, maximize: bool
) -> tuple[float, ...]:
    return (
        float(lr),
        float(betas[0]),
        float(betas[1]),
        float(eps),
        float(weight_decay),
        _sign(maximize),
    )


def adam_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    steps: Tensors,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False,
) -> None:
    """Adam with L2 decay."""
    settings = _adam_settings(lr, betas, eps, weight_decay, maximize)
    _adam("adam", params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, settings, amsgrad)


def adamw_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    steps: Tensors,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
    maximize: bool = False,
) -> None:
    """Adam with decoupled decay."""
    settings = _adam_settings(lr, betas, eps, weight_decay, maximize)
    _adam("adamw", params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, settings, amsgrad)


def adamax_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_infs: Tensors,
    steps: Tensors,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Adam with the infinity norm."""
    settings = _adam_settings(lr, betas, eps, weight_decay, maximize)
    _launch("adamax", (params, grads, exp_avgs, exp_infs, steps), settings)


def nadam_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    mu_products: Tensors,
    steps: Tensors,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> None:
    """Adam with Nesterov momentum; `mu_products` are zero-dimensional f32 tensors that start at
    one."""
    settings = (
        *_adam_settings(lr, betas, eps, weight_decay, maximize),
        float(momentum_decay),
    )
    name = "nadam.decoupled" if decoupled_weight_decay else "nadam"
    _launch(name, (params, grads, exp_avgs, exp_avg_sqs, steps, mu_products), settings)


def radam_step(
    params: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    steps: Tensors,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = False,
    maximize: bool = False,
) -> None:
    """Rectified Adam."""
    settings = _adam_settings(lr, betas, eps, weight_decay, maximize)
    name = "radam.decoupled" if decoupled_weight_decay else "radam"
    _launch(name, (params, grads, exp_avgs, exp_avg_sqs, steps), settings)


def rmsprop_step(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    grad_avgs: Tensors,
    momentum_buffers: Tensors,
    steps: Tensors,
    *,
    lr: float,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    maximize: bool = False,
) -> None:
    """RMSprop; `grad_avgs` are read when centered, `momentum_buffers` with momentum."""
    columns = [params, grads, square_avgs]
    name = "rmsprop"
    if centered:
        name += ".centered"
        columns.append(grad_avgs)
    if momentum > 0:
        name += ".momentum"
        columns.append(momentum_buffers)
    settings = tuple(map(float, (lr, alpha, eps, weight_decay, momentum, _sign(maximize))))
    _launch(name, (*columns, steps), settings)


def adagrad_step(
    params: Tensors,
    grads: Tensors,
    sums: Tensors,
    steps: Tensors,
    *,
    lr: float,
    lr_decay: float = 0.0,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Adagrad."""
    settings = tuple(map(float, (lr, lr_decay, eps, weight_decay, _sign(maximize))))
    _launch("adagrad", (params, grads, sums, steps), settings)


def adadelta_step(
    params: Tensors,
    grads: Tensors,
    square_avgs: Tensors,
    acc_deltas: Tensors,
    steps: Tensors,
    *,
    lr: float,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Adadelta."""
    settings = tuple(map(float, (lr, rho, eps, weight_decay, _sign(maximize))))
    _launch("adadelta", (params, grads, square_avgs, acc_deltas, steps), settings)


def asgd_step(
    params: Tensors,
    grads: Tensors,
    averages: Tensors,
    etas: Tensors,
    mus: Tensors,
    steps: Tensors,
    *,
    lr: float,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> None:
    """Averaged gradient descent; `etas` (start: lr) and `mus` (start: 1) are zero-dimensional f32
    tensors."""
    settings = tuple(map(float, (lr, lambd, alpha, t0, weight_decay, _sign(maximize))))
    _launch("asgd", (params, grads, averages, steps, etas, mus), settings)


def rprop_step(
    params: Tensors,
    grads: Tensors,
    previous_grads: Tensors,
    step_sizes: Tensors,
    steps: Tensors,
    *,
    etas: tuple[float, float] = (0.5, 1.2),
    step_size_limits: tuple[float, float] = (1e-6, 50.0),
    maximize: bool = False,
) -> None:
    """Resilient propagation; `step_sizes` start at the learning rate."""
    settings = tuple(map(float, (*etas, *step_size_limits, _sign(maximize))))
    _launch("rprop", (params, grads, previous_grads, step_sizes, steps), settings)


# --- norms and scaling of lists


def foreach_norm(tensors: Tensors, ord: float = 2.0) -> list[Any]:
    """The norm of each tensor, as zero-dimensional tensors of its dtype.

    Norms 2 and infinity of contiguous tensors take one launch a dtype, all others one a tensor.
    """
    kernel = {2.0: "sum_of_squares", float("inf"): "largest_magnitude"}.get(float(ord))
    norms: list[Any] = [None] * len(tensors)
    groups: dict[str, list[int]] = {}
    for k, tensor in enumerate(tensors):
        code = tensor.dtype.code
        if kernel is None or code not in _FLOATING or not tensor.is_contiguous():
            norms[k] = F.linalg_vector_norm(tensor, ord)
        else:
            groups.setdefault(code, []).append(k)
    most = min(_MOST_POINTERS - 1, _MOST_SIZES - 1)
    for code, members in groups.items():
        wide = core.float64 if code == "f64" else core.float32
        for start in range(0, len(members), most):
            part = members[start : start + most]
            out = core.empty((len(part),), dtype=wide)
            chosen = [tensors[k] for k in part]
            core.kernel(f"{kernel}:{code}")(
                (out, *chosen), (len(part), *[tensor.numel() for tensor in chosen])
            )
            if kernel == "sum_of_squares":
                out = out.sqrt()
                if not powers_fit(out, max(tensor.numel() for tensor in chosen), ord):
                    for k in part:  # of gradients beyond 1e19, below 1e-19, or all zero
                        norms[k] = F.linalg_vector_norm(tensors[k], ord)
                    continue
            values = out.to(chosen[0].dtype).unbind(0)
            for k, value in zip(part, values, strict=True):
                norms[k] = value
    return norms


def scale_tensors(tensors: Tensors, coefficient: core.Tensor) -> None:
    """Multiply every tensor by a zero-dimensional tensor, in place (clipping by norm)."""
    wide = [tensor for tensor in tensors if tensor.dtype is core.float64]
    for tensor in wide:  # the kernel's factor has 32 bits
        tensor.mul_(coefficient)
    if wide:
        tensors = [tensor for tensor in tensors if tensor.dtype is not core.float64]
    coefficient = coefficient.to(core.float32)
    _launch("scale", (tensors, [coefficient] * len(tensors)), ())

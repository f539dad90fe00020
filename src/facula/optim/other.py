"""Optimizers that look at whole tensors: Adafactor, Muon; and Adam for sparse gradients.

Takes parameters.  Gives the optimizers.
Keeps true: states and their names are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.optim.elementwise import check_betas, check_one_rate, check_range, scalar_dtype
from facula.optim.functions import step_function
from facula.optim.optimizer import Optimizer, ParamsT, run_closure

__all__ = ["Adafactor", "Muon", "SparseAdam", "adafactor", "muon"]


class _OneByOne(Optimizer):
    """Updates the parameters that have a gradient one after the other."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; gives the closure's loss, where there is a closure."""
        loss = run_closure(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._step_one(group, p, p.grad)
        return loss

    def step_with(self, group: dict, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        """Update one tensor by a gradient, with the settings of a group and a state of its own."""
        self.state[p] = state
        self._step_one(group, p, g)

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor) -> None:
        raise NotImplementedError


class SparseAdam(_OneByOne):
    """`Adam` for sparse gradients: only rows that have a gradient, and their moments, change.

    Args:
        params: an iterable of tensors whose gradients are sparse, or of dictionaries
        lr: the learning rate
        betas: how much of the running means of g and g^2 stays
        eps: added to the root
        maximize: whether steps go up instead of down

    Raises:
        ValueError: a setting is outside of its range, or a parameter is sparse itself or complex.
        RuntimeError: at the step, where a gradient is dense.

    Example:
        >>> table = facula.nn.Embedding.from_pretrained(facula.zeros(3, 1), freeze=False, sparse=True)
        >>> optimizer = facula.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(facula.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> table.weight.detach().flatten()
        tensor([ 0.0000, -0.1000,  0.0000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_one_rate(lr)
        if not 0.0 < lr:
            fail(
                ValueError,
                "SparseAdam",
                f"Invalid learning rate: {lr}",
                hint="lr=0.001 is the default",
            )
        if not 0.0 < eps:
            fail(
                ValueError,
                "SparseAdam",
                f"Invalid epsilon value: {eps}",
                hint="eps=1e-8 is the default",
            )
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = self._positions(lambda p: p.is_sparse)
        if sparse:
            fail(
                ValueError,
                "SparseAdam",
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors",
                hint="parameters are dense, their gradients sparse: Embedding(..., sparse=True)",
            )
        complex_ones = self._positions(lambda p: p.is_complex())
        if complex_ones:
            fail(
                ValueError,
                "SparseAdam",
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex "
                "parameters",
                hint="view_as_real(p) holds the parts of a complex parameter",
            )

    def _positions(self, holds: Callable[[core.Tensor], bool]) -> list[list[int]]:
        """[index of the group, index in it] of the parameters for which something holds."""
        return [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if holds(p)
        ]

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor) -> None:
        if not g.is_sparse:
            fail(
                RuntimeError,
                "SparseAdam",
                "SparseAdam does not support dense gradients, please consider Adam instead",
                hint="Embedding(..., sparse=True) has sparse gradients",
            )
        state = self.state[p]
        if not state:
            state["step"] = 0
            state["exp_avg"] = facula.zeros_like(p, memory_format=facula.preserve_format)
            state["exp_avg_sq"] = facula.zeros_like(p, memory_format=facula.preserve_format)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        g = g.coalesce()
        indices, values = g._indices(), g._values()
        if values.numel() == 0:
            return
        if group["maximize"]:
            values = -values

        def sparse(v: object) -> Any:
            return facula.sparse_coo_tensor(indices, v, g.size())

        first, second = state["exp_avg"], state["exp_avg_sq"]
        old_first = first.sparse_mask(g)._values()
        new_first = (values - old_first) * (1 - beta1)
        first.add_(sparse(new_first))
        old_second = second.sparse_mask(g)._values()
        new_second = (values * values - old_second) * (1 - beta2)
        second.add_(sparse(new_second))
        numerator = new_first + old_first
        denominator = (new_second + old_second).sqrt() + group["eps"]
        step = state["step"]
        size = float(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        p.add_(sparse(numerator / denominator * -size))


def _check_adafactor(
    lr: Any, beta2_decay: float, eps: tuple[float | None, float], d: float, weight_decay: float
) -> None:
    check_one_rate(lr)
    if not 0.0 <= lr:
        fail(
            ValueError,
            "Adafactor",
            f"Learning rate should be >= 0 but is: {lr}",
            hint="lr=0.01 is the default",
        )
    if not 0.0 >= beta2_decay:
        fail(
            ValueError,
            "Adafactor",
            f"beta2_decay should be <= 0 but is: {beta2_decay}",
            hint="beta2_decay=-0.8 is the default",
        )
    if not 1.0 <= d:
        fail(
            ValueError,
            "Adafactor",
            f"Clipping threshold d should be >= 1 but is: {d}",
            hint="d=1.0 is the default",
        )
    if not 0.0 <= weight_decay:
        fail(
            ValueError,
            "Adafactor",
            f"weight_decay should be >= 0 but is: {weight_decay}",
            hint="weight_decay=0 switches it off",
        )
    _check_epsilons(eps)


def _check_epsilons(eps: tuple[float | None, float]) -> None:
    if eps[0] is not None and not 0.0 <= eps[0]:
        fail(
            ValueError,
            "Adafactor",
            f"epsilon1 should be >= 0 but is: {eps[0]}",
            hint="eps=(None, 1e-3) is the default",
        )
    if not 0.0 <= eps[1]:
        fail(
            ValueError,
            "Adafactor",
            f"epsilon2 should be >= 0 but is: {eps[1]}",
            hint="eps=(None, 1e-3) is the default",
        )


class Adafactor(_OneByOne):
    """Adam's second moment of matrices as an outer product of row and column means: memory for rows
    plus columns. [Shazeer & Stern 2018]

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        lr: the learning rate, a number or a tensor of one element, relative to the size of the
            parameter
        beta2_decay: the second moment's beta at step t is ``1 - t^beta2_decay``
        eps: (added to squares, None for the dtype's epsilon; the least size of a parameter)
        d: updates with a larger root mean square are scaled down to it
        weight_decay: factor of the decay, apart from the gradient
        foreach: kept and checked as in PyTorch
        maximize: whether steps go up instead of down

    Raises:
        ValueError: a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.Adafactor([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.8419, -1.8419])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check_adafactor(lr, beta2_decay, eps, d, weight_decay)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
        for entry in self.state.values():
            if entry and not isinstance(entry["step"], core.Tensor):
                entry["step"] = facula.tensor(float(entry["step"]), dtype=scalar_dtype())

    def _init_state(self, p: core.Tensor, g: core.Tensor, state: dict) -> None:
        state["step"] = facula.tensor(0.0, dtype=scalar_dtype())
        if g.dim() > 1:
            rows, columns = list(g.shape), list(g.shape)
            rows[-1] = 1
            columns[-2] = 1
            state["row_var"] = g.new_zeros(rows)
            state["col_var"] = g.new_zeros(columns)
        else:
            state["variance"] = facula.zeros_like(g, memory_format=facula.preserve_format)

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor) -> None:
        if g.is_sparse:
            fail(
                RuntimeError,
                "Adafactor",
                "Adafactor does not support sparse gradients",
                hint="make the embedding with sparse=False, or take SparseAdam",
            )
        if p.is_complex():
            fail(
                RuntimeError,
                "Adafactor",
                "Adafactor does not support complex parameters",
                hint="facula.view_as_real(x) has the parts of a parameter",
            )
        state = self.state[p]
        if not state:
            self._init_state(p, g, state)
        if group["maximize"]:
            g = -g
        state["step"].add_(1)
        step = float(state["step"])
        lr = float(group["lr"])
        eps1, eps2 = group["eps"]
        eps1 = facula.finfo(p.dtype).eps if eps1 is None else eps1
        fresh = step ** group["beta2_decay"]  # 1 - beta2
        rho = min(lr, 1.0 / step**0.5)
        alpha = max(eps2, float(p.norm(2)) / p.numel() ** 0.5) * rho
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if g.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(g.norm(dim=-1, keepdim=True).square() / g.size(-1), fresh)
            column.lerp_(g.norm(dim=-2, keepdim=True).square() / g.size(-2), fresh)
            variance = (row @ column) / row.mean(dim=-2, keepdim=True).clamp(min=eps1)
        else:
            variance = state["variance"].lerp_(g.square(), fresh)
        update = variance.clamp(min=eps1 * eps1).rsqrt() * g
        scale = max(1.0, float(update.norm(2)) / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-alpha / scale)


def _newton_schulz(
    g: core.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Any:
    """A matrix with the singular vectors of ``g`` and singular values near one, in bfloat16."""
    if steps >= 100:
        fail(
            ValueError,
            "Muon",
            "Number of steps must be less than 100 for computational efficiency",
            hint="ns_steps=5 is the default",
        )
    if g.dim() != 2:
        fail(
            ValueError,
            "Muon",
            "Input tensor gradient must be a 2D matrix",
            hint="give other parameters to another optimizer, such as AdamW",
        )
    if len(coefficients) != 3:
        fail(
            ValueError,
            "Muon",
            "Coefficients must be a tuple of exactly 3 values",
            hint="leave ns_coefficients out",
        )
    a, b, c = coefficients
    x = g.bfloat16()
    wide = g.size(0) > g.size(1)
    if wide:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        polynomial = facula.addmm(gram, gram, gram, beta=b, alpha=c)
        x = facula.addmm(x, polynomial, x, beta=a)
    return x.T if wide else x


class Muon(_OneByOne):
    """Momentum whose matrices are made orthogonal before each step, by a Newton-Schulz iteration.
    [Jordan et al. 2024]

    For the matrices inside of a network; embeddings, biases and the last layer are left to another
    optimizer.

    Args:
        params: an iterable of matrices, of (name, tensor) pairs, or of dictionaries
        lr: the learning rate
        weight_decay: factor of the decay, apart from the gradient
        momentum: how much of the last direction stays
        nesterov: whether the direction looks ahead
        ns_coefficients: of the polynomial that is iterated
        eps: added to the norm that divides
        ns_steps: how often it is iterated
        adjust_lr_fn: 'original' scales the rate by ``sqrt(max(1, rows / columns))``,
            'match_rms_adamw' by ``0.2 sqrt(max(rows, columns))``; None for the former

    Raises:
        ValueError: a parameter is no matrix, or a setting is outside of its range.

    Example:
        >>> w = facula.nn.Parameter(facula.eye(2))
        >>> optimizer = facula.optim.Muon([w], lr=0.1, weight_decay=0.0)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w.detach().diagonal() < 1).all())
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_rate(lr)
        check_range("learning rate", lr)
        check_range("momentum", momentum)
        check_range("weight decay", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            fail(
                ValueError,
                "Muon",
                f"Adjust learning rate function {adjust_lr_fn} is not supported",
                hint="leave adjust_lr_fn out for 'original'",
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    fail(
                        ValueError,
                        "Muon",
                        (
                            "Muon only supports 2D parameters whereas we found a parameter with size: "
                            f"{p.size()}"
                        ),
                        hint="give other parameters to another optimizer, such as AdamW",
                    )

    def _step_one(self, group: dict, p: core.Tensor, g: core.Tensor) -> None:
        if p.is_complex():
            fail(
                RuntimeError,
                "Muon",
                "Muon does not support complex parameters",
                hint="give complex parameters to another optimizer, such as AdamW",
            )
        if g.is_sparse:
            fail(
                RuntimeError,
                "Muon",
                "Muon does not support sparse gradients",
                hint="make the embedding with sparse=False",
            )
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = facula.zeros_like(g, memory_format=facula.preserve_format)
        buffer, momentum = state["momentum_buffer"], group["momentum"]
        buffer.lerp_(g, 1 - momentum)
        update = g.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _newton_schulz(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape[:2]
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(update.to(p.dtype), alpha=-float(group["lr"]) * ratio)


adafactor = step_function(
    "adafactor",
    Adafactor,
    {"row_vars": "row_var", "col_vars": "col_var", "variances": "variance", "state_steps": "step"},
    "foreach grad_scale found_inf has_complex",
    "d lr beta2_decay weight_decay eps1 eps2 maximize",
)
muon = step_function(
    "muon",
    Muon,
    {"muon_momentum_bufs": "momentum_buffer"},
    "",
    "foreach lr weight_decay momentum nesterov ns_coefficients ns_steps eps adjust_lr_fn has_complex",
)

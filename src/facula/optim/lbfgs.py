"""Limited-memory BFGS. [Nocedal 1980; Nocedal & Wright, Numerical Optimization, ch. 7]

Takes parameters (one group) and a closure that computes the loss anew.  Gives `LBFGS`.
Keeps true: all state is under the first parameter; the optional line search satisfies the strong
Wolfe conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import enable_grad, no_grad
from facula.core.errors import fail
from facula.optim.optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]


def _cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: Any = None
) -> float:
    """Where the cubic through two values and slopes is least, within bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    if x1 == x2:
        return min(max(x1, low), high)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    below = (g2 - g1 if x1 <= x2 else g1 - g2) + 2 * d2
    if below == 0:  # a straight line, as where the loss does not change any more
        return (low + high) / 2.0
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / below)
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / below)
    return min(max(at, low), high)


class _Point:
    """A step length with the loss, gradient and slope there."""

    __slots__ = ("f", "g", "slope", "t")

    def __init__(self, t: float, f: float, g: Any, slope: float) -> None:
        self.t, self.f, self.g, self.slope = t, f, g, slope


def _bracket(
    evaluate: Callable[[float], _Point],
    start: _Point,
    t: float,
    c1: float,
    c2: float,
    tolerance: float,
    max_ls: int,
) -> tuple[list[_Point], int, int, bool]:
    """Two points with an acceptable one between them; (points, steps used, evaluations, already
    accepted).
    """
    previous, point = start, evaluate(t)
    evaluations, used = 1, 0
    while used < max_ls:
        if point.f > start.f + c1 * point.t * start.slope or (used > 1 and point.f >= previous.f):
            return [previous, point], used, evaluations, False
        if abs(point.slope) <= -c2 * start.slope:
            return [point], used, evaluations, True
        if point.slope >= 0:
            return [previous, point], used, evaluations, False
        low = point.t + 0.01 * (point.t - previous.t)
        high = point.t * 10
        t = _cubic_minimum(
            previous.t,
            previous.f,
            previous.slope,
            point.t,
            point.f,
            point.slope,
            (low, high),
        )
        previous, point = point, evaluate(t)
        evaluations += 1
        used += 1
    return [start, point], used, evaluations, False


def _zoom(
    evaluate: Callable[[float], _Point],
    start: _Point,
    bracket: list[_Point],
    c1: float,
    c2: float,
    least_change: float,
    used: int,
    max_ls: int,
) -> tuple[_Point, int]:
    """An acceptable point of the bracket, and the evaluations it took."""
    evaluations = 0
    stalled = False
    low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
    while used < max_ls:
        a, b = bracket
        if abs(b.t - a.t) * least_change_scale(start) < least_change:
            break
        t = _cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
        first, last = min(a.t, b.t), max(a.t, b.t)
        margin = 0.1 * (last - first)
        # too close to an end twice, or beyond it: move inside
        if min(last - t, t - first) < margin:
            if stalled or t >= last or t <= first:
                t = last - margin if abs(t - last) < abs(t - first) else first + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        point = evaluate(t)
        evaluations += 1
        used += 1
        if point.f > start.f + c1 * t * start.slope or point.f >= bracket[low].f:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
            continue
        if abs(point.slope) <= -c2 * start.slope:
            return point, evaluations
        if point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
    return bracket[low], evaluations


def least_change_scale(start: _Point) -> float:
    """The largest element of the direction, which `start` carries in place of its gradient."""
    return start.g[1]


def _strong_wolfe(
    evaluate: Callable[[float], _Point],
    start: _Point,
    t: float,
    direction: core.Tensor,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Any, float, int]:
    """(loss, gradient, step length, evaluations) that satisfy the strong Wolfe conditions."""
    scaled = _Point(0.0, start.f, (start.g, float(direction.abs().max())), start.slope)

    bracket, used, evaluations, done = _bracket(
        evaluate, start, t, c1, c2, tolerance_change, max_ls
    )
    if done:
        point = bracket[0]
    else:
        point, more = _zoom(evaluate, scaled, bracket, c1, c2, tolerance_change, used, max_ls)
        evaluations += more
    return point.f, point.g, point.t, evaluations


def _has_converged(group: dict[str, Any], grad: core.Tensor, step: Any, change: float) -> bool:
    """Whether the slope, the last step, or what it changed is small enough to stop."""
    return (
        float(grad.abs().max()) <= group["tolerance_grad"]
        or float(step.abs().max()) <= group["tolerance_change"]
        or abs(change) < group["tolerance_change"]
    )


def _check_search(name: str | None) -> None:
    if name not in (None, "strong_wolfe"):
        fail(
            RuntimeError,
            "LBFGS",
            "only 'strong_wolfe' is supported",
            hint="line_search_fn=None takes steps of lr",
        )


class LBFGS(Optimizer):
    """Quasi-Newton steps from the last changes of gradient and parameters, for smooth functions and
    full batches. [Liu & Nocedal 1989]

    ``step(closure)`` runs up to ``max_iter`` iterations; the closure clears gradients, computes the
    loss, calls ``backward`` and gives the loss, and is called several times. There is one group of
    parameters.

    Args:
        params: an iterable of tensors
        lr: the first step's factor
        max_iter: iterations of a step
        max_eval: calls of the closure in a step; None for ``max_iter * 5 / 4``
        tolerance_grad: the largest element of the gradient at which it is over
        tolerance_change: the least change of parameters or loss with which it goes on
        history_size: how many changes are kept
        line_search_fn: 'strong_wolfe' for a line search, None for none

    Raises:
        ValueError: there are several groups of parameters, or ``lr`` is negative.

    Example:
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = facula.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((w - 3) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w.detach()
        tensor([3.0000, 3.0000])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, core.Tensor) and lr.numel() != 1:
            fail(
                ValueError,
                "LBFGS",
                "Tensor lr must be 1-element",
                hint="facula.tensor(1.0) has one element",
            )
        if not 0.0 <= lr:
            fail(ValueError, "LBFGS", f"Invalid learning rate: {lr}", hint="lr=1 is the default")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            fail(
                ValueError,
                "LBFGS",
                "LBFGS doesn't support per-parameter options (parameter groups)",
                hint="pass one list of parameters",
            )
        self._params = self.param_groups[0]["params"]

    def _flat(self, values: list[Any]) -> Any:
        parts = []
        for value in values:
            value = facula.view_as_real(value) if value.is_complex() else value
            parts.append(value.to_dense().reshape(-1) if value.is_sparse else value.reshape(-1))
        return facula.cat(parts)

    def _gather_flat_grad(self) -> Any:
        return self._flat(
            [facula.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        )

    def _add_direction(self, step_size: float, direction: core.Tensor) -> None:
        offset = 0
        for p in self._params:
            real = facula.view_as_real(p) if p.is_complex() else p
            count = real.numel()
            real.add_(direction[offset : offset + count].view_as(real), alpha=step_size)
            offset += count

    def _directional_evaluate(
        self, closure: Callable[[], Any], saved: list[Any], t: float, direction: core.Tensor
    ) -> tuple[float, Any]:
        self._add_direction(t, direction)
        loss = float(closure())
        grad = self._gather_flat_grad()
        for p, value in zip(self._params, saved, strict=True):
            p.copy_(value)
        return loss, grad

    def _direction(self, grad: core.Tensor, state: dict, history_size: int) -> Any:
        """The quasi-Newton direction, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        change = grad.sub(state["prev_flat_grad"])
        moved = state["d"].mul(state["t"])
        # zero-dimensional tensors: these numbers are rounded to the gradient's dtype
        curvature = change.dot(moved)
        if curvature > 1e-10:
            if len(state["old_dirs"]) == history_size:
                for name in ("old_dirs", "old_stps", "ro"):
                    state[name].pop(0)
            state["old_dirs"].append(change)
            state["old_stps"].append(moved)
            state["ro"].append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        q = grad.neg()
        count = len(state["old_dirs"])
        # kept with the state only because PyTorch's checkpoints name it
        alphas: list[Any] = state.setdefault("al", [None] * history_size)
        for i in reversed(range(count)):
            alphas[i] = state["old_stps"][i].dot(q) * state["ro"][i]
            q.add_(state["old_dirs"][i], alpha=-float(alphas[i]))
        d = q * state["H_diag"]
        for i in range(count):
            beta = state["old_dirs"][i].dot(d) * state["ro"][i]
            d.add_(state["old_stps"][i], alpha=float(alphas[i] - beta))
        return d

    def _search(
        self,
        closure: Callable[[], Any],
        direction: core.Tensor,
        t: float,
        start: _Point,
        change: float,
        most: int,
    ) -> tuple[float, Any, float, int]:
        saved = [p.clone(memory_format=facula.contiguous_format) for p in self._params]

        def evaluate(length: float) -> _Point:
            loss, grad = self._directional_evaluate(closure, saved, length, direction)
            return _Point(length, loss, grad, float(grad.dot(direction)))

        loss, grad, t, evaluations = _strong_wolfe(
            evaluate, start, t, direction, tolerance_change=change, max_ls=most
        )
        self._add_direction(t, direction)
        return loss, grad, t, evaluations

    def _moved(
        self, closure: Callable[[], Any], d: Any, t: Any, start: _Point, most: int, last: bool
    ) -> tuple[float, Any, Any, int]:
        """Go along ``d``, by ``t`` or as far as the line search says; the loss and the gradient there
        (of the start, where nobody needs them any more), the length, and the evaluations.
        """
        group = self.param_groups[0]
        if group["line_search_fn"] is not None:
            return self._search(closure, d, t, start, group["tolerance_change"], most)
        self._add_direction(t, d)
        if last:
            return start.f, start.g, t, 0
        loss = float(closure())
        return loss, self._gather_flat_grad(), t, 1

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to ``max_iter`` iterations; gives the loss at the start."""
        with no_grad():
            return self._step(enable_grad()(closure))

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr: Any = group["lr"].item() if isinstance(group["lr"], core.Tensor) else group["lr"]
        max_iter, max_eval = group["max_iter"], group["max_eval"]
        _check_search(group["line_search_fn"])
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        original = closure()
        loss, evaluations = float(original), 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return original
        n_iter = 0
        while n_iter < max_iter:
            n_iter += 1
            state["n_iter"] += 1
            d = self._direction(grad, state, group["history_size"])
            state["prev_flat_grad"] = grad.clone(memory_format=facula.contiguous_format)
            previous_loss = state["prev_loss"] = loss
            first = state["n_iter"] == 1
            t = min(1.0, float(1.0 / grad.abs().sum())) * lr if first else lr
            slope = float(grad.dot(d))
            if slope > -group["tolerance_change"]:
                state.update(d=d, t=t)
                break
            start, most = _Point(0.0, loss, grad, slope), max_eval - evaluations
            last = n_iter == max_iter
            loss, grad, t, used = self._moved(closure, d, t, start, most, last)
            evaluations += used
            state["func_evals"] += used
            state.update(d=d, t=t)
            if last or evaluations >= max_eval:
                break
            if _has_converged(group, grad, d.mul(t), loss - previous_loss):
                break
        return original

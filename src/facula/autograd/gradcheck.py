"""Checks of gradients against finite differences.

Takes a function and inputs in double precision.  Gives True, or raises `GradcheckError` (or gives
False) with the Jacobians that disagree.
Keeps true: complex inputs and outputs are checked by Wirtinger's rules; the fast mode compares one
random projection; also checked are undefined gradients, determinism and dtypes.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from facula import core
from facula.autograd import grad as _grad
from facula.autograd import transforms
from facula.autograd.function import Function
from facula.autograd.grad_mode import enable_grad, no_grad
from facula.core.errors import fail, message
from facula.ops.sparse_layouts.by_values import of_values
from facula.ops.table.registry import F

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient does not stand the check."""


class _PassSome(Function):
    """Passes tensors through; only the gradients at the kept positions come back."""

    @staticmethod
    def forward(ctx: Any, kept: tuple, *tensors: Any) -> tuple:
        """The tensors."""
        ctx.kept = kept
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        """The kept gradients."""
        return (None, *[g if i in ctx.kept else None for i, g in enumerate(grads)])


def _as_tuple(value: object) -> tuple:
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def _is_differentiable(value: core.Tensor) -> bool:
    return isinstance(value, core.Tensor) and value.requires_grad


def _inexact(tensor: core.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _outputs(result: object) -> tuple:
    """The outputs that have a gradient, or could have one."""
    return tuple(o for o in _as_tuple(result) if isinstance(o, core.Tensor) and _inexact(o))


class _Check:
    """One check: the function, its inputs and the tolerances."""

    def __init__(self, func: Callable, inputs: Any, eps: float, atol: float, rtol: float) -> None:
        self.func = func
        self.inputs = _as_tuple(inputs)
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.tensors = [i for i in self.inputs if _is_differentiable(i)]

    def run(self) -> tuple:
        """The outputs for the present inputs, without history."""
        # recorded all the same: the function may differentiate inside
        with enable_grad():
            return tuple(o.detach().clone() for o in self.outputs())

    def outputs(self) -> tuple:
        """The outputs with history; to be made anew after inputs were changed and put back."""
        return _outputs(self.func(*self.inputs))

    # numerical ------------------------------------------------------------------------------------

    def _difference(self, tensor: core.Tensor, index: tuple, step: complex) -> list[Any]:
        """Central difference of the outputs along one element, divided by the step's length."""
        with no_grad():
            data = tensor.detach()
            original = data[index].item()
            data[index] = original + step
            above = self.run()
            data[index] = original - step
            below = self.run()
            data[index] = original
        return [(a - b) / (2 * abs(step)) for a, b in zip(above, below, strict=True)]

    def numerical(self, tensor: core.Tensor, outputs: tuple) -> list[Any]:
        """For each output the Jacobian ``[elements of the tensor, elements of the output]``.

        For a complex tensor it is twice the derivative with respect to the conjugate's conjugate,
        in the form in which a real loss's gradient is: rows are d/dx and d/dy, combined by the
        analytical side's convention.
        """
        shape = tensor.shape
        columns: list[list[Any]] = [[] for _ in outputs]
        pairs: list[list[Any]] = [[] for _ in outputs]
        for index in _indices(shape):
            real = self._difference(tensor, index, self.eps)
            imaginary = (
                self._difference(tensor, index, self.eps * 1j) if tensor.is_complex() else None
            )
            for k, value in enumerate(real):
                columns[k].append(value.reshape(-1))
                if imaginary is not None:
                    pairs[k].append(imaginary[k].reshape(-1))
        result = []
        for k, output in enumerate(outputs):
            rows = _stack(columns[k], output)
            if tensor.is_complex():
                rows = (rows, _stack(pairs[k], output))
            result.append(rows)
        return result

    # analytical -----------------------------------------------------------------------------------

    def analytical(self, output: core.Tensor, cotangent: core.Tensor) -> list[Any]:
        """The gradients of all tensors for one cotangent; zeros where there is none."""
        grads = _grad(output, self.tensors, cotangent, retain_graph=True, allow_unused=True)
        return [
            F.zeros_like(t) if g is None else g for g, t in zip(grads, self.tensors, strict=True)
        ]

    def analytical_rows(self, output: core.Tensor, imaginary: bool) -> list[Any]:
        """For each tensor ``[elements of the output, elements of the tensor]``, by unit cotangents."""
        rows: list[list[Any]] = [[] for _ in self.tensors]
        for index in _indices(output.shape):
            unit = F.zeros_like(output)
            unit[index] = 1j if imaginary else 1
            for k, grad in enumerate(self.analytical(output, unit)):
                rows[k].append(grad.detach().reshape(-1).clone())
        return [_stack(r, t) for r, t in zip(rows, self.tensors, strict=True)]


def _indices(shape: core.Size) -> Iterable[tuple]:
    return itertools.product(*[range(n) for n in shape])


def _stack(rows: list[Any], like: core.Tensor) -> Any:
    return F.stack(rows) if rows else like.new_zeros((0, like.numel()))


def _dense(tensor: core.Tensor) -> Any:
    return tensor.to_dense() if tensor.is_sparse else tensor


def _expected_gradient(jacobian: Any, complex_input: bool, cotangent_imaginary: bool) -> Any:
    """What a unit cotangent must give: the gradient of Re(conj(u) f) as d/dx + i d/dy."""

    def part(values: core.Tensor) -> Any:
        if not values.is_complex():
            return F.zeros_like(values) if cotangent_imaginary else values
        return values.imag if cotangent_imaginary else values.real

    if not complex_input:
        return part(jacobian)
    return F.complex(part(jacobian[0]), part(jacobian[1]))


def _close(a: core.Tensor, b: core.Tensor, check: _Check) -> bool:
    return bool(((a - b).abs() <= check.atol + check.rtol * b.abs()).all())


def _message(
    analytical: core.Tensor, numerical: core.Tensor, out: int, inp: int, extra: str = ""
) -> str:
    worst = float((analytical - numerical).abs().max()) if analytical.numel() else 0.0
    return (
        f"[gradcheck] equal Jacobians were required: Jacobian {extra}mismatch for output {out} "
        "with respect to input "
        f"{inp}, (largest difference {worst:.3g})\nnumerical:{numerical}\nanalytical:{analytical}\n"
    )


def _slow(check: _Check, outputs: tuple, positions: list[int]) -> None:
    numerical = [check.numerical(t, outputs) for t in check.tensors]
    outputs = check.outputs()
    for i, output in enumerate(outputs):
        for imaginary in (False, True) if output.is_complex() else (False,):
            rows = check.analytical_rows(output, imaginary) if output.requires_grad else None
            for j, tensor in enumerate(check.tensors):
                expected = _expected_gradient(numerical[j][i], tensor.is_complex(), imaginary)
                if rows is None:
                    got = F.zeros_like(expected)
                else:
                    got = rows[j].transpose(0, 1)
                extra = "computed with complex outputs only (imaginary part) " if imaginary else ""
                if got.dtype != expected.dtype:
                    expected = expected.to(got.dtype)
                if not _close(got, expected, check):
                    raise GradcheckError(_message(got, expected, i, positions[j], extra))


def _random_like(tensor: core.Tensor, generator: core.Generator | None) -> Any:
    real = tensor.abs().dtype if tensor.is_complex() else tensor.dtype

    def draw() -> Any:
        return F.rand(tensor.shape, generator=generator, dtype=real) + 0.5

    return F.complex(draw(), draw()) if tensor.is_complex() else draw()


def _fast(check: _Check, outputs: tuple, positions: list[int]) -> None:
    """One random direction in, one random cotangent out: u . (J v) against (u J) . v."""
    generator = core.Generator()
    generator.manual_seed(0)
    for j, tensor in enumerate(check.tensors):
        direction = _random_like(tensor, generator)
        direction = direction / direction.norm()
        with no_grad():
            data = tensor.detach()
            original = data.clone()
            data.copy_(original + check.eps * direction)
            above = check.run()
            data.copy_(original - check.eps * direction)
            below = check.run()
            data.copy_(original)
        for i, output in enumerate(check.outputs()):
            cotangent = _random_like(output, generator)
            slope = (above[i] - below[i]) / (2 * check.eps)
            numerical = (slope * cotangent.conj()).sum()
            numerical = numerical.real if numerical.is_complex() else numerical
            if output.requires_grad:
                grad = check.analytical(output, cotangent)[j]
            else:
                grad = F.zeros_like(tensor)
            product = (grad.conj() * direction).sum()
            analytical = product.real if product.is_complex() else product
            # tolerances are per element of the Jacobian: the projection sums over many
            scale = float(cotangent.abs().sum())
            bound = check.atol * scale + check.rtol * float(numerical.abs())
            if not float((analytical - numerical).abs()) <= bound:
                raise GradcheckError(
                    _message(analytical, numerical, i, positions[j], "(fast mode) ")
                )


def _check_inputs(check: _Check) -> list[int]:
    positions = [k for k, i in enumerate(check.inputs) if _is_differentiable(i)]
    if not positions:
        fail(
            ValueError,
            "gradcheck",
            (
                "gradcheck expects at least one input tensor to require gradient, but none "
                "of them have requires_grad=True."
            ),
            hint="x.requires_grad_() on the inputs to be checked",
        )
    for k in positions:
        tensor = check.inputs[k]
        if tensor.dtype not in (core.float64, core.complex128):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or "
                "complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or "
                "complex.",
                stacklevel=4,
            )
        if any(st == 0 and sz > 1 for st, sz in zip(tensor.stride(), tensor.shape, strict=True)):
            fail(
                RuntimeError,
                "gradcheck",
                (
                    f"The {k}th input has a dimension with stride 0. gradcheck only supports "
                    "inputs that are non-overlapping to be able to compute the numerical "
                    "gradients correctly. You should call .contiguous on the input before "
                    "passing it to gradcheck."
                ),
                hint="x.contiguous() or x.clone() gives every element memory of its own",
            )
    return positions


def _check_no_differentiable_outputs(check: _Check, outputs: tuple) -> None:
    """Where no output has a gradient, the numerical Jacobian must be zero."""
    for j, tensor in enumerate(check.tensors):
        for rows in check.numerical(tensor, outputs):
            for part in rows if isinstance(rows, tuple) else (rows,):
                if bool(part.ne(0).any()):
                    fail(
                        GradcheckError,
                        "gradcheck",
                        (
                            "a zero Jacobian was required: Numerical gradient for function expected to "
                            f"be zero, but it is not for input {j}"
                        ),
                        hint=(
                            "look at the derivative in backward: the function does not change with this "
                            "input"
                        ),
                    )


def _check_determinism(check: _Check, outputs: tuple, tolerance: float) -> None:
    for output in outputs:
        if not output.requires_grad:
            continue
        cotangent = F.ones_like(output)
        first = check.analytical(output, cotangent)
        second = check.analytical(output, cotangent)
        for a, b in zip(first, second, strict=True):
            difference = (_dense(a) - _dense(b)).abs()
            if difference.numel() and float(difference.max()) > tolerance:
                fail(
                    GradcheckError,
                    "gradcheck",
                    (
                        "a deterministic backward was required: Backward is not reentrant, i.e., "
                        "running backward with same input and grad_output multiple times gives "
                        "different values, although analytical gradient matches numerical gradient. "
                        f"The tolerance for nondeterminism was {tolerance}."
                    ),
                    hint=(
                        "nondet_tol=... allows for rounding that varies; look for random numbers in "
                        "backward"
                    ),
                )


def _check_undefined(check: _Check) -> None:
    """Backward with some gradients undefined must work, and give zeros or None where all are."""
    outputs = [o for o in _outputs(check.func(*check.inputs)) if o.requires_grad]
    if not outputs:
        return

    def backward(kept: list[int]) -> tuple:
        fresh = [o for o in _outputs(check.func(*check.inputs)) if o.requires_grad]
        # a sum in which some terms are cut off leaves their gradients undefined
        passed = _PassSome.apply(tuple(kept), *fresh)
        return _grad(
            passed,
            check.tensors,
            [F.ones_like(o) for o in passed],
            allow_unused=True,
        )

    single = [[k] for k in range(len(outputs))] if len(outputs) > 1 else []
    for kept in [[], *single]:
        try:
            grads = backward(kept)
        except RuntimeError as error:
            raise GradcheckError(
                message(
                    "gradcheck",
                    "a backward that takes undefined gradients (None) was required",
                    got=f"an error, {error}",
                    hint="write backward so that it takes None, or pass check_undefined_grad=False",
                )
            ) from error
        if not kept:
            _check_nothing(grads, check.tensors)


def _check_nothing(grads: tuple, tensors: list[core.Tensor]) -> None:
    """Gradients of inputs that no gradient of an output reaches are zeros or None."""
    for grad, tensor in zip(grads, tensors, strict=True):
        if grad is not None and bool((_dense(grad) != 0).any()):
            fail(
                GradcheckError,
                "gradcheck",
                (
                    "zero or undefined gradients were required: Expected all input grads to be "
                    "undefined or zero when all output grads are undefined or zero, for an input "
                    f"of shape {list(tensor.shape)}"
                ),
                hint="return None or zeros from backward where all gradients are None",
            )


def _check_dtypes(check: _Check, outputs: tuple) -> None:
    for output in outputs:
        if output.requires_grad:
            grads = _grad(
                output,
                check.tensors,
                F.zeros_like(output),
                retain_graph=True,
                allow_unused=True,
            )
            for grad, tensor in zip(grads, check.tensors, strict=True):
                if grad is None:
                    continue
                if (
                    grad.layout != tensor.layout
                    or grad.dtype != tensor.dtype
                    or grad.size() != tensor.size()
                ):
                    fail(
                        GradcheckError,
                        "gradcheck",
                        (
                            "gradients like their inputs were required: grad is incorrect layout, dtype "
                            f"or size ({grad.layout}, {grad.dtype}, {list(grad.size())})"
                        ),
                        hint="return gradients of the dtype and shape of the inputs from backward",
                    )


def _check_forward(check: _Check, outputs: tuple, positions: list[int]) -> None:
    """Forward mode: the Jacobian's columns against finite differences."""
    for j, tensor in enumerate(check.tensors):
        numerical = check.numerical(tensor, outputs)
        for row, index in enumerate(_indices(tensor.shape)):
            for imaginary in (False, True) if tensor.is_complex() else (False,):
                tangent = F.zeros_like(tensor)
                tangent[index] = 1j if imaginary else 1
                tangents = [F.zeros_like(t) for t in check.tensors]
                tangents[j] = tangent

                def call(*tensors: Any) -> tuple:
                    values = list(check.inputs)
                    for position, value in zip(positions, tensors, strict=True):
                        values[position] = value
                    return _outputs(check.func(*values))

                plain = tuple(t.detach() for t in check.tensors)
                _, columns = transforms.jvp(call, plain, tuple(tangents))
                for i, column in enumerate(columns):
                    rows = numerical[i][int(imaginary)] if tensor.is_complex() else numerical[i]
                    if not _close(column.reshape(-1), rows[row], check):
                        raise GradcheckError(
                            _message(
                                column.reshape(-1), rows[row], i, positions[j], "(forward mode) "
                            )
                        )


def _check_batched(check: _Check, outputs: tuple) -> None:
    for output in outputs:
        if not output.requires_grad:
            continue
        cotangents = F.stack([F.randn_like(output) for _ in range(2)])
        batched = _grad(
            output,
            check.tensors,
            cotangents,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
        for b in range(2):
            for got, expected in zip(batched, check.analytical(output, cotangents[b]), strict=True):
                if got is not None and not _close(got[b], expected, check):
                    fail(
                        GradcheckError,
                        "gradcheck",
                        (
                            "batched gradients like single ones were required: gradcheck expected the "
                            "gradient computed with vmap to match that computed without it"
                        ),
                        hint="give the operator a vmap rule, or pass check_batched_grad=False",
                    )


def _run(check: _Check, options: dict[str, Any]) -> None:
    positions = _check_inputs(check)
    outputs = check.outputs()
    if not any(o.requires_grad for o in outputs):
        _check_no_differentiable_outputs(check, outputs)
        return
    if options["check_backward_ad"]:
        (_fast if options["fast_mode"] else _slow)(check, outputs, positions)
        outputs = check.outputs()
        _check_determinism(check, outputs, options["nondet_tol"])
        if options["check_grad_dtypes"]:
            _check_dtypes(check, outputs)
        if options["check_batched_grad"]:
            _check_batched(check, outputs)
        if options["check_undefined_grad"]:
            _check_undefined(check)
    if options["check_forward_ad"]:
        _check_forward(check, outputs, positions)


def gradcheck(
    func: Callable[..., Any],
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of a function agree with finite differences.

    Args:
        func: a function of tensors, to tensors
        inputs: its arguments, float64 or complex128 where they require gradients
        eps: the step
        atol, rtol: how far gradients may be apart: ``atol + rtol |value|``
        raise_exception: whether disagreement is an error, and not False
        nondet_tol: how far two runs may be apart
        check_undefined_grad: whether missing gradients of outputs are tried
        check_grad_dtypes: whether gradients must have the inputs' dtypes
        check_batched_grad: whether gradients are computed under `vmap`, too
        check_batched_forward_grad: the same in forward mode
        check_forward_ad: whether forward mode is checked
        check_backward_ad: whether reverse mode is
        fast_mode: whether random projections are compared, and not each derivative
        masked: whether derivatives of sparse inputs are those by specified elements only, or by all

    Raises:
        GradcheckError: they disagree.

    Example:
        >>> x = facula.tensor([0.5, 2.0], dtype=facula.float64, requires_grad=True)
        >>> facula.autograd.gradcheck(facula.sin, (x,))
        True
    """
    if not (check_forward_ad or check_backward_ad):
        fail(
            AssertionError,
            "gradcheck",
            "Expected at least one of check_forward_ad or check_backward_ad to be True",
            hint="leave check_backward_ad out: it is True",
        )
    if check_batched_grad and not check_backward_ad:
        fail(
            AssertionError,
            "gradcheck",
            "Setting check_batched_grad=True requires check_backward_ad to be True",
            hint="leave check_backward_ad out, or check_batched_grad",
        )
    if check_batched_forward_grad and not check_forward_ad:
        fail(
            AssertionError,
            "gradcheck",
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
            hint="pass check_forward_ad=True too",
        )
    options = {
        "nondet_tol": nondet_tol,
        "check_undefined_grad": check_undefined_grad,
        "check_grad_dtypes": check_grad_dtypes,
        "check_batched_grad": check_batched_grad,
        "check_forward_ad": check_forward_ad,
        "check_backward_ad": check_backward_ad,
        "fast_mode": fast_mode,
    }
    check = _Check(*of_values(func, _as_tuple(inputs), bool(masked)), eps, atol, rtol)
    if raise_exception:
        _run(check, options)
        return True
    try:
        _run(check, options)
    except GradcheckError:
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: object,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the gradients of the gradients of a function agree with finite differences.

    Args:
        func: a function of tensors, to tensors
        inputs: its arguments, float64 or complex128 where they require gradients
        grad_outputs: gradients of the outputs; None for random ones
        eps: the step
        atol, rtol: how far gradients may be apart: ``atol + rtol |value|``
        gen_non_contig_grad_outputs: whether random ones lie with gaps
        raise_exception: whether disagreement is an error, and not False
        nondet_tol: how far two runs may be apart
        check_undefined_grad: whether missing gradients of outputs are tried
        check_grad_dtypes: whether gradients must have the inputs' dtypes
        check_batched_grad: whether gradients are computed under `vmap`, too
        check_fwd_over_rev: whether forward mode over reverse mode is checked
        check_rev_over_rev: whether reverse mode over itself is
        fast_mode: whether random projections are compared, and not each derivative
        masked: whether derivatives of sparse inputs are those by specified elements only, or by all

    Example:
        >>> x = facula.tensor([0.5, 2.0], dtype=facula.float64, requires_grad=True)
        >>> facula.autograd.gradgradcheck(facula.sin, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        fail(
            AssertionError,
            "gradgradcheck",
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
            hint="leave check_rev_over_rev out: it is True",
        )
    tensors = _as_tuple(inputs)
    outputs = [o for o in _outputs(func(*tensors)) if o.requires_grad]
    if grad_outputs is None:
        cotangents = tuple(_random_cotangent(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        cotangents = _as_tuple(grad_outputs)
    return gradcheck(
        _gradient_function(func, tensors, len(cotangents)),
        tensors + cotangents,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _gradient_function(func: Callable, tensors: tuple, count: int) -> Callable[..., tuple]:
    """The gradients of a function, as a function of its inputs and of `count` gradients of its outputs."""
    positions = [k for k, t in enumerate(tensors) if _is_differentiable(t)]

    def gradient(*args: Any) -> tuple:
        values, vectors = args[:-count], args[-count:]
        # an input that is passed through itself: grad with respect to it must see this use of it
        # only
        values = tuple(_shown(v) if k in positions else v for k, v in enumerate(values))
        with enable_grad():
            results = [o for o in _outputs(func(*values)) if o.requires_grad]
            wanted = [values[k] for k in positions]
            grads = _grad(results, wanted, vectors, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradient


def _shown(value: core.Tensor) -> Any:
    """A view whose gradient is asked for; a dual tensor may need none by itself."""
    shown = value.view_as(value)
    return shown if shown.requires_grad else shown.requires_grad_()


def _random_cotangent(output: core.Tensor, non_contiguous: bool) -> Any:
    made = F.randn_like(output.detach())
    if non_contiguous and made.dim() > 0:
        made = F.stack([made, made], -1)[..., 0]
    return made.requires_grad_()

"""Differentiation: backward passes, custom functions, switches and checks.

Takes tensors with history.  Gives gradients.
Keeps true: `backward` accumulates into leaves, `grad` returns gradients and touches no leaf.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from typing import Any

from facula import core
from facula.autograd import grad_mode, graph
from facula.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from facula.autograd.function import Function, InplaceFunction, NestedIOFunction
from facula.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from facula.core.errors import fail
from facula.core.errors import no_attribute as _no_attribute
from facula.ops.table.registry import F

Tensor = core.Tensor

__all__ = """Function InplaceFunction NestedIOFunction Variable backward detect_anomaly enable_grad
enforce_grad_layout_policy function functional grad grad_mode gradcheck gradgradcheck graph
inference_mode no_grad set_detect_anomaly set_grad_enabled set_multithreading_enabled variable
""".split()


def _overridden(outputs: Any, inputs: object) -> list[Any]:
    """The tensors of classes that handle functions themselves; none where overrides are switched off."""
    if type(outputs) is Tensor and type(inputs) is Tensor:
        return []
    disabled = core.set_overrides_disabled(True)
    core.set_overrides_disabled(disabled)
    if disabled:  # a class handles this call already
        return []
    given = (*_as_tuple(outputs), *_as_tuple(inputs))
    found: list[Any] = core.overloaded_arguments(given, {})
    return found


def _by_override(outputs: Tensor, inputs: object, grad_outputs: Any, words: dict[str, Any]) -> Any:
    # lazily: most programs have no tensors of classes that override functions
    overrides = importlib.import_module("facula.namespaces.overrides")
    relevant = (*_as_tuple(outputs), *_as_tuple(inputs))
    return overrides.handle_torch_function(grad, relevant, outputs, inputs, grad_outputs, **words)


def _as_tuple(value: Any) -> tuple:
    """A tensor or an edge as a tuple of one; None as an empty one."""
    if value is None:
        return ()
    if isinstance(value, (Tensor, graph.GradientEdge)):
        return (value,)
    return tuple(value)


def _lasting(value: Any) -> Any:
    """What can be gone through more than once: `module.parameters()` cannot."""
    if value is None or isinstance(value, (Tensor, graph.GradientEdge, tuple, list)):
        return value
    return tuple(value)


def _check_gradient(op: str, index: int, output: core.Tensor, grad: core.Tensor) -> None:
    if isinstance(output, graph.GradientEdge):
        return
    if grad.shape != output.shape:
        fail(
            RuntimeError,
            op,
            f"a gradient of shape {tuple(output.shape)}",
            got=f"Mismatch in shape: grad_output[{index}] has a shape of {grad.shape} and "
            f"output[{index}] has a shape of "
            f"{output.shape}.",
            hint="facula.ones_like(output) has the shape; expand() or sum() makes it fit",
        )
    if output.dtype.is_complex != grad.dtype.is_complex:
        fail(
            RuntimeError,
            op,
            "a complex gradient for a complex output and a real one for a real output",
            got="For complex Tensors, both grad_output and output are required to have the same "
            "dtype. Mismatch in dtype: "
            f"grad_output[{index}] has a dtype of {grad.dtype} and output[{index}] has a dtype of "
            f"{output.dtype}.",
            hint="gradient.to(output.dtype) converts it",
        )


def _as_output(output: core.Tensor, grad: core.Tensor) -> Any:
    """The gradient in its output's dtype."""
    wanted = output.dtype if isinstance(output, Tensor) else grad.dtype
    return grad if grad.dtype is wanted or grad.dtype.is_complex else grad.to(wanted)


def _make_gradients(op: str, outputs: tuple, grads: tuple, batched: bool = False) -> tuple:
    """A gradient for every output: those given, or ones for scalars."""
    if len(grads) != len(outputs):
        fail(
            RuntimeError,
            op,
            f"a gradient for each of {len(outputs)} tensors",
            got=f"got {len(outputs)} tensors and {len(grads)} gradients",
            hint="None stands for a gradient of one, for outputs of one element",
        )
    made: list[Any] = []
    for i, (output, grad) in enumerate(zip(outputs, grads, strict=True)):
        if isinstance(grad, Tensor):
            if not batched:
                _check_gradient(op, i, output, grad)
            made.append(_as_output(output, grad))
        elif grad is not None:
            fail(
                TypeError,
                op,
                "gradients that are tensors or None",
                got=f"gradients can be either Tensors or None, but got {type(grad).__name__}",
                hint="facula.as_tensor(value) makes one",
            )
        elif isinstance(output, graph.GradientEdge):
            fail(
                RuntimeError,
                op,
                "a gradient for each gradient edge",
                got="None",
                hint="pass facula.ones_like(output) for the output of the edge",
            )
        elif not output.requires_grad:
            made.append(None)
        else:
            made.append(_implicit_gradient(op, output))
    return tuple(made)


def _implicit_gradient(op: str, output: core.Tensor) -> Any:
    if output.numel() != 1:
        fail(
            RuntimeError,
            op,
            "a gradient",
            got="grad can be implicitly created only for scalar outputs",
            hint=f"the output's shape is {tuple(output.shape)}: reduce it (.sum(), .mean()) or "
            "pass its gradient",
        )
    if output.dtype.is_complex:
        fail(
            RuntimeError,
            op,
            "a gradient",
            got="grad can be implicitly created only for real scalar outputs but got "
            f"{output.dtype}",
            hint="pass a gradient, or differentiate output.abs() or output.real",
        )
    if type(output) is not Tensor:
        return F.ones_like(output).detach()  # of a class that handles operators itself
    if core.DISPATCH_MODES:  # they hear of it as of one operator, as PyTorch's do
        return F.ones_like(output, memory_format=core.preserve_format)
    return core.empty(output.shape, dtype=output.dtype, device=output.device).fill_(1)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: object = None,
) -> None:
    """Accumulates the gradients of tensors into the ``grad`` of the leaves.

    Args:
        tensors: a tensor or a sequence of them
        grad_tensors: their own gradients, of their shapes; None for 1 where they have one element
        retain_graph: whether the graph can be gone through again; None for ``create_graph``
        create_graph: whether gradients can be differentiated themselves
        grad_variables: an older name of ``grad_tensors``
        inputs: tensors into which is accumulated; None for all leaves

    Raises:
        RuntimeError: a tensor of several elements has no gradient of its own, nothing was recorded,
            or the graph was freed.

    Example:
        >>> x = facula.tensor([1.0, 2.0], requires_grad=True)
        >>> facula.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            fail(
                RuntimeError,
                "backward",
                "grad_tensors alone",
                got="`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`.",
                hint="leave grad_variables out",
            )
        grad_tensors = grad_variables
    inputs_tuple = _as_tuple(inputs)
    if inputs is not None and len(inputs_tuple) == 0:
        fail(
            RuntimeError,
            "backward",
            "inputs",
            got="`inputs` argument to `backward()` cannot be empty.",
            hint="leave inputs out to reach all leaves",
        )
    outputs = _as_tuple(tensors)
    grads = _as_tuple(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
    grads = _make_gradients("backward", outputs, grads)
    retain = create_graph if retain_graph is None else retain_graph
    core.run_backward(outputs, grads, retain, create_graph, inputs_tuple, True, True)


def _check_unused(allow_unused: bool | None, materialize_grads: bool) -> None:
    if materialize_grads and allow_unused is False:
        fail(
            ValueError,
            "grad",
            (
                "Expected allow_unused to be True or not passed when materialize_grads=True, "
                "but got: allow_unused=False."
            ),
            hint="leave allow_unused out: materialize_grads=True implies it",
        )


def _check_inputs(input_tuple: tuple) -> None:
    if not input_tuple:
        fail(
            RuntimeError,
            "grad",
            "inputs",
            got="`inputs` argument to `grad()` cannot be empty.",
            hint="an iterator of parameters that was gone through is empty: make a list of it",
        )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """The gradients of outputs with respect to inputs; nothing is accumulated.

    Args:
        outputs: a tensor or a sequence of them
        inputs: a tensor or a sequence of them
        grad_outputs: the gradients of the outputs; None for 1 where they have one element
        retain_graph: whether the graph can be gone through again; None for ``create_graph``
        create_graph: whether gradients can be differentiated themselves
        only_inputs: True, nothing else
        allow_unused: whether inputs that do not matter get None, and not an error; None for
            ``materialize_grads``
        is_grads_batched: whether ``grad_outputs`` have a batch in front, whose gradients are
            computed together
        materialize_grads: whether inputs that do not matter get zeros

    Returns:
        a tuple, one for each input.

    Raises:
        RuntimeError: an input does not matter, and ``allow_unused`` is not set.

    Example:
        >>> x = facula.tensor(3.0, requires_grad=True)
        >>> first, = facula.autograd.grad(x**3, x, create_graph=True)
        >>> facula.autograd.grad(first, x)
        (tensor(18.),)
    """
    _check_unused(allow_unused, materialize_grads)
    outputs, inputs = _lasting(outputs), _lasting(inputs)
    if core.FUNCTION_MODES or _overridden(outputs, inputs):
        words = {"retain_graph": retain_graph, "create_graph": create_graph, "only_inputs": only_inputs,
                 "allow_unused": allow_unused}  # fmt: skip
        words |= {"is_grads_batched": is_grads_batched, "materialize_grads": materialize_grads}
        return _by_override(outputs, inputs, grad_outputs, words)
    allow = materialize_grads if allow_unused is None else allow_unused
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other "
            "parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    single = isinstance(inputs, (Tensor, graph.GradientEdge))
    input_tuple = (inputs,) if single else tuple(inputs)
    _check_inputs(input_tuple)
    output_tuple = _as_tuple(outputs)
    given = (None,) * len(output_tuple) if grad_outputs is None else _as_tuple(grad_outputs)
    grads = _make_gradients("grad", output_tuple, given, is_grads_batched)
    retain = create_graph if retain_graph is None else retain_graph
    run = _batched if is_grads_batched else _once
    result = run(output_tuple, grads, retain, create_graph, input_tuple, allow)
    if materialize_grads:
        result = tuple(
            F.zeros_like(i).detach().requires_grad_(create_graph) if g is None else g
            for g, i in zip(result, input_tuple, strict=True)
        )
    return result


def _once(
    outputs: tuple, grads: tuple, retain: bool, create_graph: bool, inputs: tuple, allow: bool
) -> tuple:
    """One run, which the transforms that are under way see."""
    if core.interpreters() and all(isinstance(t, Tensor) for t in (*outputs, *inputs)):
        transforms = importlib.import_module("facula.autograd.transforms")
        return transforms.seen_backward(outputs, grads, retain, create_graph, inputs, allow)
    return core.run_backward(outputs, grads, retain, create_graph, inputs, allow, False)


def _batched(
    outputs: tuple, grads: tuple, retain: bool, create_graph: bool, inputs: tuple, allow: bool
) -> tuple:
    """One run for the whole batch, under `vmap`."""
    transforms = importlib.import_module("facula.autograd.transforms")
    return transforms.batched_backward(outputs, grads, retain, create_graph, inputs, allow)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """A tensor under its older name.

    Args:
        data: the tensor
        requires_grad: whether gradients are accumulated
        volatile: an older word that does nothing

    Example:
        >>> facula.autograd.Variable(facula.ones(2), requires_grad=True)
        tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)


variable = Variable


def is_multithreading_enabled() -> bool:
    """Whether backward runs may use several threads."""
    return core.is_multithreading_enabled()


_LAZY = {"gradcheck": "gradcheck", "gradgradcheck": "gradcheck"}


_LAZY_MODULES = frozenset(
    """functional function checkpoint hooks anomaly_mode forward_ad profiler profiler_legacy
    profiler_util""".split()
)
#: how PyTorch's extension module asks for profilers, by the name in `profiler_recorder`
_PROFILERS = {"_profiler_enabled": "is_recording", "_disable_profiler": "stop_recording"}


def __getattr__(name: str) -> Any:
    # rarely needed parts load on first use
    if name in _LAZY:
        module = importlib.import_module("facula.autograd.gradcheck")
        value = getattr(module, name)
        globals()[name] = value
        return value
    if name in _LAZY_MODULES:
        return importlib.import_module(f"facula.autograd.{name}")
    if name in _PROFILERS:
        return getattr(
            importlib.import_module("facula.autograd.profiler_recorder"), _PROFILERS[name]
        )
    raise _no_attribute(__name__, name)


class _Package(types.ModuleType):
    """This package: `gradcheck` is the function also where the module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _LAZY and isinstance(value, types.ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

"""Compiled graphs called as the programs that they came from.

Takes: compiled forward and backward functions (each takes a list of arguments), and a `Signature`.
Gives: a function of the program's flat inputs that writes to inputs, makes views and records history
as the program does.
Keeps true: the compiled functions run without recording; one node stands for the whole program on the
tape; a gradient that does not arrive is nothing (`partial`); tensors that are kept are checked for
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.autograd.transforms.aliases import restrided
from facula.autograd.transforms.view_inverses import ViewStep
from facula.core.errors import fail
from facula.lower.aot.signature import Result, Signature, Write, cotangent_strides

Tensor = core.Tensor
#: a compiled graph: a list of arguments, which it may empty, in; its outputs out
Boxed = Callable[[list[Any]], Sequence[Any]]


def make_boxed_func(f: Callable[..., Any]) -> Boxed:
    """A function of many arguments as one of a list of them."""

    def boxed(args: list[Any]) -> Any:
        return f(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def boxed_of(compiled: Callable[..., Any]) -> Boxed:
    """What a compiler gave, as a function of a list."""
    return compiled if getattr(compiled, "_boxed_call", False) else make_boxed_func(compiled)


# ------------------------------------------------------------------ after the graph


def _write(write: Write) -> Callable[[list[Any], Sequence[Any]], None]:
    number, value, hidden = write.input, write.value, write.hidden

    def run(args: list[Any], values: Sequence[Any]) -> None:
        target = args[number]
        if value is not None and values[value] is target:
            core.bump_versions([[target]])  # the graph has written into the input itself
        elif value is not None:
            if hidden:
                recording = core.set_grad_enabled(False)
                try:
                    target.copy_(values[value])
                finally:
                    core.set_grad_enabled(recording)
            else:
                target.copy_(values[value])

    return run


def reshape(target: Any, steps: Sequence[ViewStep]) -> None:
    """Give an input the geometry that it ends with."""
    for step in steps:
        if step.detaches:
            target.detach_()
        else:
            step.op.inplace(target, *step.args)


def _result(result: Result) -> Callable[[list[Any], Sequence[Any]], Any]:
    source, steps, kind = result.source, result.steps, result.kind

    def of_input(args: list[Any], values: Sequence[Any]) -> Any:
        x = args[source]
        for step in steps:
            x = step.apply(x)
        return x

    def of_value(args: list[Any], values: Sequence[Any]) -> Any:
        x = values[source]
        for step in steps:
            x = step.apply(x)
        return x

    if kind == "constant":
        return lambda args, values: source
    return of_input if kind.startswith("input") else of_value


def finisher(signature: Signature) -> Callable[[list[Any], Sequence[Any]], list[Any]] | None:
    """What turns inputs and the values of the graph into the program's results; None for nothing."""
    if signature.plain:
        return None
    count_writes: Any = core.count_writes
    plain = [w for w in signature.writes if w.value is not None and not w.geometry]
    pairs = tuple((w.input, w.value) for w in plain)
    copies = [_write(w) for w in plain]
    reshaped = [w for w in signature.writes if w.geometry]
    others = [_write(w) for w in reshaped if w.value is not None]
    results = [_result(r) for r in signature.results]

    def finish(args: list[Any], values: Sequence[Any]) -> list[Any]:
        for number in count_writes(args, values, pairs):
            copies[number](args, values)
        for write in others:
            write(args, values)
        made = [result(args, values) for result in results]
        for changed in reshaped:  # views lead from the geometry that inputs came with
            reshape(args[changed.input], changed.geometry)
        return made

    return finish


# ------------------------------------------------------------------ without gradients


def inference_call(compiled: Boxed, signature: Signature) -> Boxed:
    """The program where nothing is recorded."""
    call: Any = core.GraphCall
    return call(compiled, finisher(signature))


# ------------------------------------------------------------------ with gradients


@dataclass(slots=True)
class Training:
    """What is known of a program with a backward graph before it runs."""

    forward: Boxed
    backward: Boxed
    signature: Signature
    #: the inputs that gradients are computed for
    wanted: tuple[int, ...]
    #: metas of the values of the graph
    metas: list[Any]
    #: the values whose cotangents the backward graph takes, in order
    cotangents: tuple[int, ...]
    #: of the values and what is kept behind them: numbers of those that are inputs of the graph
    passed: tuple[int, ...] = ()
    #: kept tensors that are values too
    shared: tuple[int, ...] = ()
    #: kept tensors that the program's caller can write to
    exposed: tuple[int, ...] = ()
    #: kept inputs that the program writes to afterwards
    copied: tuple[int, ...] = ()
    #: which cotangents arrive -> the backward graph of these, and that compiled
    partial: Any = None
    #: the backward graph, for traces of backward runs
    graph: Any = None


def _cotangent(grad: Tensor, meta: Any) -> Tensor:
    """A cotangent in the layout that the backward graph was made for."""
    strides = cotangent_strides(meta.shape, meta.strides)
    if grad.stride() != strides:
        grad = restrided(grad, meta)
        if grad.stride() != strides:
            whole = core.empty_strided(meta.shape, strides, dtype=meta.dtype, device=meta.device)
            grad = whole.copy_(grad)
    return grad if grad.dtype is meta.dtype else grad.to(meta.dtype)


class _SecondTime(core.Node):
    """What a gradient of a gradient of a compiled program meets."""

    def name(self) -> str:
        """The node's name."""
        return "CompiledFunctionBackwardBackward"

    def apply(self, *grads: Any) -> tuple[Any, ...]:
        """Raises."""
        return fail(
            RuntimeError,
            "backward",
            "one differentiation was required of a compiled program: compiled with aot_autograd "
            "does not currently support double backward",
            hint="run the function without compile where its gradient is differentiated",
        )


def _once(found: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients that raise when they are differentiated."""
    fresh = tuple(g.detach() if isinstance(g, Tensor) else g for g in found)
    core.record_function(_SecondTime(), (), fresh, ())
    return fresh


def training_call(program: Training) -> Boxed:
    """The program with its node (`core.CompiledFunctionBackward`) on the tape."""
    call: Any = core.TrainingCall
    metas = [program.metas[n] for n in program.cotangents]
    layouts = [(m.shape, cotangent_strides(m.shape, m.strides), m.dtype) for m in metas]
    return call(program, layouts, finisher(program.signature), _cotangent, _once)

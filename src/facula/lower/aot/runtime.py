"""Compiled graphs called as the programs that they came from.

Takes: compiled forward and backward functions (each takes a list of arguments), and a `Signature`.
Gives: a function of the program's flat inputs that writes to inputs, makes views and records history
as the program does.
Keeps true: the compiled functions run without recording; one node stands for the whole program on the
tape; a gradient that does not arrive counts as zeros; tensors that are kept are checked for writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.autograd.transforms.functionalization import restrided
from facula.core.errors import fail
from facula.lower.aot.signature import Result, Signature, Write

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
    number, value, hidden, geometry = write.input, write.value, write.hidden, write.geometry

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
        for step in geometry:
            if step.detaches:
                target.detach_()
            else:
                step.op.inplace(target, *step.args)

    return run


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
    writes = [_write(w) for w in signature.writes]
    results = [_result(r) for r in signature.results]

    def finish(args: list[Any], values: Sequence[Any]) -> list[Any]:
        for write in writes:
            write(args, values)
        return [result(args, values) for result in results]

    return finish


# ------------------------------------------------------------------ without gradients


def inference_call(compiled: Boxed, signature: Signature) -> Boxed:
    """The program where nothing is recorded."""
    finish = finisher(signature)
    set_grad_enabled = core.set_grad_enabled

    def call(args: list[Any]) -> Sequence[Any]:
        inputs = args if finish is None else list(args)
        recording = set_grad_enabled(False)
        try:
            values = compiled(args)
        finally:
            set_grad_enabled(recording)
        return values if finish is None else finish(inputs, values)

    return call


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


class CompiledFunctionBackward(core.Node):
    """The node of a compiled program."""

    program: Training
    kept: Any
    versions: Any

    def name(self) -> str:
        """The node's name."""
        return "CompiledFunctionBackward"

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that the backward graph reads."""
        return tuple(t for t in self.kept or () if isinstance(t, Tensor))

    def release_variables(self) -> None:
        """Drop what was kept."""
        self.kept = None

    def apply(self, *grads: Any) -> tuple[Any, ...]:
        """The gradients of the inputs."""
        program, kept = self.program, self.kept
        if kept is None:
            fail(
                RuntimeError,
                "backward",
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed): saved tensors were required",
                hint="call backward(retain_graph=True) the first time",
            )
        for place, version in zip(program.exposed, self.versions, strict=True):
            if kept[place]._version != version:
                _fail_modified(kept[place], version)
        args = [*kept]
        for number in program.cotangents:
            args.append(_cotangent(grads[number], program.metas[number]))
        recording = core.set_grad_enabled(False)
        try:
            found = program.backward(args)
        finally:
            core.set_grad_enabled(recording)
        return _once(found) if recording else tuple(found)


def _fail_modified(tensor: Tensor, version: int) -> None:
    fail(
        RuntimeError,
        "backward",
        "an unmodified saved tensor was required: one of the variables needed for gradient "
        "computation has been modified by an inplace operation",
        f"a tensor of shape {list(tensor.shape)} at version {tensor._version}; expected version "
        f"{version}",
        hint="clone() it before writing to it",
    )


def _cotangent(grad: Any, meta: Any) -> Tensor:
    """A cotangent in the layout that the backward graph was made for."""
    if grad is None:
        zeros = core.empty_strided(meta.shape, meta.strides, dtype=meta.dtype, device=meta.device)
        return zeros.zero_()
    if grad.stride() != tuple(meta.strides):
        grad = restrided(grad, meta)
        if grad.stride() != tuple(meta.strides):
            whole = core.empty_strided(
                meta.shape, meta.strides, dtype=meta.dtype, device=meta.device
            )
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
    """The program with its node on the tape."""
    finish = finisher(program.signature)
    forward, passed, shared, wanted = (
        program.forward, program.passed, program.shared, program.wanted,
    )  # fmt: skip
    flags = program.signature.differentiable
    count, exposed, copied = len(flags), program.exposed, program.copied
    set_grad_enabled, record = core.set_grad_enabled, core.record_function

    def call(args: list[Any]) -> Sequence[Any]:
        inputs = list(args)
        recording = set_grad_enabled(False)
        try:
            found = list(forward(args))
            for place in passed:
                found[place] = found[place].detach()
            kept = found[count:]
            for place in shared:
                kept[place] = kept[place].detach()
            for place in copied:
                kept[place] = kept[place].clone()
        finally:
            set_grad_enabled(recording)
        values = found[:count]
        node = CompiledFunctionBackward()
        node.program, node.kept = program, kept
        node.versions = [kept[place]._version for place in exposed]
        sources = tuple([inputs[i] for i in wanted])
        targets = tuple([v if f else None for v, f in zip(values, flags, strict=True)])
        record(node, sources, targets, ())
        return values if finish is None else finish(inputs, values)

    return call

"""What an operator's CPU function does, as loops: watched while it runs on meta tensors.

Takes: an operator with a CPU function, its arguments as values. Gives: `record`, the results as
values.
Keeps true: operators that the function calls, kernels that it launches and writes into its results
are all seen; whatever is not understood, and a result that nothing was seen to write, raise
`NotLoops`, so that the operator stays a call.

So no list says which operator is a sum or a normalisation: their CPU functions launch programs of
the table (`ops.expr.rows`), and the launch says how.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.nested import tensors_in
from facula.fx.symbolic_run import concrete
from facula.lower.loops import folds
from facula.lower.loops.program import DTYPES
from facula.lower.loops.targets import callee_of, is_view, name_of
from facula.lower.loops.values import NotLoops, Value

_active = threading.local()


def _watch(
    name: str, tensors: Sequence[Any], ints: Sequence[int], numbers: Sequence[Any], *rest: object
) -> None:
    """The core's slot for launches on meta tensors."""
    recorder = getattr(_active, "recorder", None)
    if recorder is None:
        raise RuntimeError(f"[{name}] tensors with elements were required: got a meta tensor")
    recorder.launch(name, tensors, ints, numbers)


core.META_LAUNCH[0] = _watch


def meta_like(value: Value, mode: Any = None) -> Any:
    """A meta tensor with a value's geometry; a fake one where sizes are symbols of a mode."""
    geometry = (value.shape, value.strides, value.start)
    shape, strides, start = concrete(geometry)
    made = _meta(shape, strides, start, DTYPES[value.code])
    return made if mode is None else mode.with_geometry(made, *geometry)


def _meta(shape: tuple[int, ...], strides: tuple[int, ...], start: int, dtype: core.dtype) -> Any:
    if not start:
        return core.empty_strided(shape, strides, dtype=dtype, device="meta")
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    memory = core.empty((start + max(reach, 0) + 1,), dtype=dtype, device="meta")
    return memory.as_strided(shape, strides, start)


def record(lowering: Any, op: Any, args: Sequence[Any]) -> Any:
    """The results of an operator, or of a composite's body, as values: one, or a tuple.

    Raises:
        NotLoops: the operator's function does what loops can not say.
    """
    definition = op.definition
    composite = definition.kind == "composite"
    body = definition.body if composite else definition.formula
    if definition.random:  # running it would move a generator on
        raise NotLoops(f"the draw {op.name}")
    if body is None and (
        definition.kind != "operator" or definition.cpu is None or definition.dynamic
    ):
        raise NotLoops(f"the operator {op.name}")
    recorder = _Recorder(lowering)
    metas = recorder.stand_in(tuple(args))
    before = getattr(_active, "recorder", None)
    _active.recorder = recorder
    try:
        results = None if body is not None else recorder.shapes(op, metas)
        core.push_dispatch_mode(recorder)
        try:
            if body is not None:
                results = body(*metas)
            else:
                definition.cpu(results, *metas)
        finally:
            core.pop_dispatch_mode()
    except NotLoops:
        raise
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
        raise NotLoops(f"{op.name}: {error}") from error
    finally:
        _active.recorder = before
    if isinstance(results, tuple):
        return tuple(recorder.value(result) for result in results)
    return recorder.value(results)


class _Recorder:
    """A dispatch mode that takes what runs into the program."""

    hears_own_operators = True

    def __init__(self, lowering: Any) -> None:
        self.lowering = lowering
        self.mode = lowering.symbols
        self.known: dict[int, tuple[Any, Value]] = {}  # meta tensor by id -> (tensor, value)
        self.views: dict[int, Any] = {}  # tensors that are views: writing into them is not followed

    def stand_in(self, structure: object) -> Any:
        """Arguments with meta tensors where values stand."""
        if isinstance(structure, Value):
            for tensor, value in self.known.values():
                if value is structure:
                    return tensor
            tensor = meta_like(structure, self.mode)
            self.known[id(tensor)] = (tensor, structure)
            return tensor
        if isinstance(structure, (tuple, list)):
            return type(structure)(self.stand_in(item) for item in structure)
        return structure

    def shapes(self, op: core.Op, metas: Any) -> Any:
        """The results of an operator, without elements."""
        if self.mode is None:
            return op.definition.meta(*metas)
        return self.mode.dispatch(op, *op.definition.trim(metas))

    def value(self, tensor: Any) -> Value:
        """What a meta tensor stands for."""
        found = self.known.get(id(tensor))
        if found is None and not tensor.numel():
            return self.lowering.full_like(tensor, 0)
        if found is None:
            raise NotLoops("a tensor whose elements nothing was seen to write")
        return found[1]

    def values(self, structure: Any) -> Any:
        """Arguments with values where meta tensors stand."""
        if isinstance(structure, core.Tensor):
            return self.value(structure)
        if isinstance(structure, (tuple, list)):
            return tuple(self.values(item) for item in structure)
        return structure

    def bind(self, tensor: core.Tensor, value: Value) -> None:
        """Let a meta tensor stand for a value."""
        if tensor.numel() and (
            tuple(tensor.shape) != value.shape or tuple(tensor.stride()) != value.strides
        ):
            value = self.lowering.restrided(value, tuple(tensor.shape), tuple(tensor.stride()))
        self.known[id(tensor)] = (tensor, value)

    def writable(self, tensor: core.Tensor) -> None:
        """Raise where writing into a tensor changes another one."""
        if id(tensor) in self.views:
            raise NotLoops("a write into a view")

    def launch(
        self, name: str, tensors: Sequence[Any], ints: Sequence[int], numbers: Sequence[Any]
    ) -> None:
        """A kernel launch."""
        if self.lowering.takes_launch(name):
            values = [
                self.known.get(id(t), (t, None))[1] if t is not None else None for t in tensors
            ]
            changed = self.lowering.take_launch(name, values, ints, tensors[0])
            if changed is not None:
                self.writable(tensors[0])
                self.bind(tensors[0], changed)
            return
        program: Any = folds.rows.REDUCTION_PROGRAMS.get(name.rpartition(":")[0])
        program = program or folds.rows.ROW_PROGRAMS.get(name.rpartition(":")[0])
        if program is None:
            raise NotLoops(f"the kernel {name}")
        count = len(program.outputs)
        outs = [Value(t.shape, t.stride(), t.dtype.code) for t in tensors[:count]]
        inputs = [self.value(t) for t in tensors[count:]]
        folds.launch(self.lowering, name, [*outs, *inputs], ints, numbers)
        for tensor, value in zip(tensors[:count], outs, strict=True):
            self.writable(tensor)
            self.known[id(tensor)] = (tensor, value)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name, op = name_of(func), callee_of(func)
        if name in ("copy_", "zero_", "fill_"):
            self.writable(args[0])
        if name == "copy_":
            target, source = args[0], args[1]
            value = self._source(source)
            self.bind(target, self.lowering.cast_like(value, target))
            return target
        if name in ("zero_", "fill_"):
            number = args[1] if name == "fill_" else 0
            if isinstance(number, core.Tensor):
                raise NotLoops("a fill with a tensor")
            self.bind(args[0], self.lowering.full_like(args[0], number))
            return args[0]
        if name.startswith("empty"):  # not set: there is nothing to follow, and no need of memory
            place = {} if tensors_in((args, kwargs)) else {"device": "meta"}
            return self.run(func, args, {**kwargs, **place})
        if not tensors_in((args, kwargs)):
            raise NotLoops(f"the function {name}")
        result = self.run(func, args, kwargs)
        call = self.lowering.call(op, self.values(args), self.values_of(kwargs), result)
        for tensor, value in zip(_list(result), _list(call), strict=True):
            self.bind(tensor, value)
            if is_view(op):
                self.views[id(tensor)] = tensor
        return result

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call on tensors without elements."""
        return (
            func(*args, **kwargs) if self.mode is None else self.mode.dispatch(func, args, kwargs)
        )

    def values_of(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {key: self.values(item) for key, item in kwargs.items()}

    def _source(self, source: object) -> Any:
        return self.value(source) if isinstance(source, core.Tensor) else source


def _list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]

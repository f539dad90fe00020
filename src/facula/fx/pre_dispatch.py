"""Calls as a program makes them: what a trace of programs records above differentiation.

Takes: the running trace of operators. Gives: `ProgramLevel`, under which composites, conversions and writes in place
are nodes of their own, and which notes where gradients were off.
Keeps true: each call runs once, below; what PyTorch computes by Python functions is seen through, down to the
operators that these call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.functionalization import (
    FunctionalLevel,
    makes_tensors,
    simple_views,
)
from facula.autograd.transforms.levels import Level, Suspended
from facula.fx import Node
from facula.fx import _pytree as pytree
from facula.fx.proxy_tensor import (
    PROGRAMS,
    ProxyTorchDispatchMode,
    disable_proxy_modes_tracing,
    get_proxy_mode,
)
from facula.fx.symbolic_run import expect_broadcast
from facula.ops.table.overloads import named_overload, overload_of
from facula.ops.table.registry import F

Tensor = core.Tensor
_UNCHANGED = overload_of(F._assert_tensor_metadata)


class ProgramLevel(Level):
    """The trace of a program at work, above the tape."""

    decomposes = False

    def __init__(self) -> None:
        super().__init__()
        self.recording = core.is_grad_enabled()
        #: the nodes that were made while gradients were recorded otherwise than around the program
        self.otherwise: dict[Node, bool] = {}
        #: of the trace, where somebody asks what it saw
        self.tracer: Any = None

    @classmethod
    def around(cls, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls the running trace notes as the program makes them."""

        def inside(*args: Any) -> Any:
            mode = get_proxy_mode()
            assert mode is not None
            with cls() as level:
                level.tracer = mode.tracer
                return function(*args)

        return inside

    def process(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call, as one node where it is one in the programs of PyTorch."""
        mode = get_proxy_mode()
        if mode is None or not mode.enable_tracing:
            return self.call_below(function, args, kwargs)
        last = next(iter(reversed(mode.tracer.graph.nodes)), None)
        result = self._recorded(mode, function, args, kwargs)
        recording = core.is_grad_enabled()
        if recording is not self.recording:
            for node in reversed(mode.tracer.graph.nodes):
                if node is last:
                    break
                self.otherwise.setdefault(node, recording)
        return result

    def entered_by(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are recorded like those of the program."""

        @functools.wraps(function)
        def inner(*args: object) -> Any:
            with ProgramLevel():
                return function(*args)

        return inner

    def _recorded(
        self,
        mode: ProxyTorchDispatchMode,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if function is Tensor.to:
            return self._converted(mode, args, kwargs)
        if function is F.basic_index:
            return simple_views(*args)
        operator = function.op if isinstance(function, core.InplaceOp) else function
        if not isinstance(operator, core.Op):
            return self.call_below(function, args, kwargs)
        definition = operator.definition
        if definition.kind == "pointwise":
            expect_broadcast([x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)])
        if definition.composite is not None:  # made of others by a program
            return self._whole(mode, overload_of(function, args, kwargs), function, args, kwargs)
        if definition.kind != "composite" or kwargs.get("out") is not None:
            return self.call_below(function, args, kwargs)
        if stays_whole(definition) and not _asked_to_write(operator, args, kwargs):
            return self._whole(mode, overload_of(function, args, kwargs), function, args, kwargs)
        if function is operator:
            bound = core.bind_arguments(operator, args, kwargs)[0]
            if definition.graph_form is not None:
                return definition.graph_form(*bound)
            return core.run_implementation(operator, bound)
        return self.call_below(function, args, kwargs)

    def _whole(
        self,
        mode: ProxyTorchDispatchMode,
        overload: Any,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        def below(*args: object, **kwargs: object) -> Any:
            with Suspended(self.below), disable_proxy_modes_tracing():
                return function(*args, **kwargs)

        definition = getattr(overload, "_definition", None)
        if definition is not None:
            operator = function.op if isinstance(function, core.InplaceOp) else function
            if args and makes_tensors(definition):
                args = _sizes_read(definition, args)
            args, kwargs = _trimmed(definition, core.bind_arguments(operator, args, kwargs)[0])
        return mode.record(overload, args, kwargs, below)

    def _converted(
        self, mode: ProxyTorchDispatchMode, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A conversion, behind a check that the tensor still is what it was when the program was traced.

        A conversion that changes nothing gives its input, and another one new elements; a program that was
        traced with the former is wrong for the latter.
        """
        x = args[0]
        known = {"dtype": x.dtype, "device": x.device, "layout": x.layout}
        check = mode.tracer.graph.call_function(_UNCHANGED, (mode.tracer.create_arg(x),), known)
        check.meta["val"] = None
        mode.describe(check)
        name, options = _conversion(args[1:], kwargs)
        same = not options.get("copy") and "memory_format" not in options
        if name == "dtype_layout":
            options = known | options
            rest: tuple[Any, ...] = ()
        else:
            rest = (options.pop(name),)
        target = {**known, **options, **dict.fromkeys(["dtype"] if name == "dtype" else [], *rest)}
        if name == "other":
            target |= {"dtype": rest[0].dtype, "device": rest[0].device}
        same = same and all(target[key] == value for key, value in known.items())
        convert = _unchanged if same else Tensor.to
        overload = named_overload("aten", "to", name, Tensor.to)
        return self._whole(mode, overload, convert, (x, *rest), options)


def called_whole(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a composite in a trace without writes, as one node; NotImplemented where it gives memory that it
    was given, which only its parts tell of."""
    level, mode = core.interpreters()[-1], get_proxy_mode()
    assert isinstance(level, FunctionalLevel) and mode is not None
    args, kwargs = pytree.tree_map(level.value_of, (args, kwargs))
    with Suspended(level.below), disable_proxy_modes_tracing():
        result = overload(*args, **kwargs)
    given = {
        core.storage_key(x) for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)
    }
    made = [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]
    if not made or any(core.storage_key(x) in given for x in made):
        return NotImplemented
    with Suspended(level.below):
        mode.record(overload, args, kwargs, lambda *a, **k: result)
    for x in made:
        level.fresh(x)
    return result


def _trimmed(definition: Any, bound: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call without trailing defaults, `[1, 1]` for 1 included."""
    args, kwargs = definition.trim(bound)
    parameters = definition.schema.parameters
    kept = [i for i, p in enumerate(parameters) if p.name in definition.file_keeps]
    if kept and kept[-1] >= len(args):  # PyTorch's operator has no default there
        more = zip(parameters[len(args) : kept[-1] + 1], bound[len(args) :], strict=False)
        # this library has no cuDNN
        return (*args, *[False if p.name == "cudnn_enabled" else v for p, v in more]), kwargs
    while args:
        parameter, value = definition.schema.parameters[len(args) - 1], args[-1]
        if not parameter.has_default or not isinstance(value, (tuple, list)):
            break
        if type(parameter.default) is not int or any(v != parameter.default for v in value):
            break
        args, _ = definition.trim(
            (*args[:-1], *[p.default for p in definition.schema.parameters[len(args) - 1 :]])
        )
    return args, kwargs


def _asked_to_write(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call asks by `inplace=True` that its argument be written to."""
    names = [p.name for p in operator.definition.schema.parameters]
    if "inplace" not in names:
        return False
    return bool(core.bind_arguments(operator, args, kwargs)[0][names.index("inplace")])


def _unchanged(x: Tensor, *args: object, **options: object) -> Tensor:
    return x


def _conversion(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The overload of a conversion, and its arguments by name."""
    options = {k: v for k, v in kwargs.items() if k in ("dtype", "device", "other", "layout")}
    rest = list(args)
    for value in args:
        if isinstance(value, Tensor):
            options["other"] = value
        elif isinstance(value, core.dtype):
            options["dtype"] = value
        elif isinstance(value, (str, core.device, int)) and not isinstance(value, bool):
            options["device"] = core.device(value)
        else:
            continue
        rest.remove(value)
    flags = dict(zip(("non_blocking", "copy"), rest, strict=False))
    flags |= {k: v for k, v in kwargs.items() if k not in options}
    plain = (None, False, core.preserve_format)
    options |= {k: v for k, v in flags.items() if v not in plain}
    if "other" in options:
        return "other", options
    return (
        "dtype" if set(options) >= {"dtype"} and "device" not in options else "dtype_layout"
    ), options


def stays_whole(definition: Any) -> bool:
    """Whether a composite is one call in the graphs of programs: it has its own name, and PyTorch's is no Python."""
    name = definition.name
    if definition.inlined is not None:
        return not definition.inlined
    return "::" in name or any(
        name in (place.rpartition(".")[2], place.replace(".", "_")) for place in definition.names
    )


def _sizes_read(definition: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a factory; tensors among the sizes are read."""
    if definition.schema.parameters[0].name != "size":
        return args
    count = 1 if isinstance(args[0], (list, tuple)) else len(args)
    return (*map(_read_size, args[:count]), *args[count:])


def _read_size(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_read_size, x)) if type(x) in (list, tuple) else x
    whole = isinstance(x, Tensor) and not x.is_floating_point() and x.numel() == 1
    return x.item() if whole else x


def writes(node: Node) -> bool:
    """Whether a call writes to its first argument."""
    return isinstance(getattr(node.target, "_op", None), core.InplaceOp) or (
        node.op == "call_function" and str(getattr(node.target, "_opname", "")).endswith("_")
    )


def memory_of(node: Any) -> Node | None:
    """The node whose memory a node shows: that of views and of what was written to is further up."""
    while isinstance(node, Node) and node.op == "call_function":
        shows = getattr(node.target, "is_view", False) or writes(node)
        if not shows:
            return node
        node = node.args[0]
    return node if isinstance(node, Node) else None


PROGRAMS.append(ProgramLevel.around)

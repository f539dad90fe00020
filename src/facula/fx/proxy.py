"""Values that stand for what a graph will compute.

Takes operations on proxies.  Gives nodes of a tracer's graph, and proxies of their results.
Keeps true: whatever cannot be recorded (a truth value, a length, an iteration over an unknown number
of elements) raises `TraceError` and says what to do instead.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import traceback as fx_traceback
from facula.fx.codegen import MAGIC_METHODS, REFLECTABLE_METHODS
from facula.fx.graph import Graph
from facula.fx.immutable_collections import immutable_dict, immutable_list
from facula.fx.node import Argument, Node, Target
from facula.fx.operator_schemas import check_for_mutable_operation

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip


class TraceError(ValueError):
    """Something that a graph cannot hold."""


class Scope:
    """Which module is being traced: its path, and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A block in another scope."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


#: what stands in a graph as it is
_PLAIN = (str, int, float, bool, complex, bytes, type(None), core.dtype, core.device, core.layout,
          core.memory_format, type(Ellipsis), range)  # fmt: skip


class TracerBase:
    """What records nodes: the ways in which a `Tracer` may be changed."""

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope = Scope("", None)
    module_stack: dict[str, Any] = {}
    node_name_to_scope: dict[str, tuple[str, Any]] = {}

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Put a node into the graph; every node of a trace is made here."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            node.meta.update(fx_traceback.get_current_meta())
        elif self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        chosen = getattr(self, "_filter_traceback_frames", None)
        if self.record_stack_traces and chosen is not None:  # of a tracer that picks the frames
            node.stack_trace = "".join(chosen(traceback.extract_stack()).format())
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Record a call whose arguments may hold proxies; gives the proxy of its result."""
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        made = proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)
        if self.record_stack_traces and "stack_trace" not in node.meta:
            node.stack_trace = fx_traceback.user_stack()
        return made

    def _find_user_frame(self) -> Any:
        return fx_traceback.user_frame()

    def create_arg(self, a: object) -> Argument:
        """What stands in the graph for a value of the traced program.

        Raises:
            NotImplementedError: nothing does.
        """
        if isinstance(a, Proxy):
            return a.node
        kind = type(a)
        if kind is int or kind is str or a is None:
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            made = [self.create_arg(x) for x in a]
            return kind(*made) if hasattr(a, "_fields") else tuple(made)
        if isinstance(a, list):
            return immutable_list([self.create_arg(x) for x in a])
        if isinstance(a, dict):
            return immutable_dict({self._key(k): self.create_arg(v) for k, v in a.items()})
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(a.start, a.stop, a.step)
        if isinstance(a, (*_PLAIN, Node)):
            return a
        return self._create_other(a)

    def _create_other(self, a: object) -> Argument:
        if isinstance(a, enum.Enum) or isinstance(a, type) or hasattr(a, "_overloadpacket"):
            return a
        if dataclasses.is_dataclass(a):
            values = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), values)
        if callable(a) and hasattr(a, "__qualname__"):
            return a
        return fail(
            NotImplementedError,
            "fx",
            "a proxy, a tensor or plain data was required as an argument: argument of type: "
            f"{type(a)} is not supported in a graph",
            got=repr(a)[:200],
            hint="convert it to numbers, or add it to the module as an attribute",
        )

    def _key(self, key: object) -> Any:
        if isinstance(key, (Proxy, Node)):
            fail(RuntimeError, "fx", "keys that are known when tracing were required: Keys for "
                 "dictionaries used as an argument cannot contain a Node.", got=repr(key),
                 hint="use constant keys")  # fmt: skip
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy: an error, unless a subclass knows it."""
        fail(
            TraceError,
            "fx",
            (
                "a condition that is known when tracing was required: symbolically traced "
                "variables cannot be used as inputs to control flow (the value is "
                f"{obj.node.format_node()})"
            ),
            hint=(
                "choose between values with where(), fix the input with concrete_args, or "
                "put the function behind fx.wrap"
            ),
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The elements of a proxy: as many as the traced line unpacks."""
        wanted = _unpacked_count()
        if wanted is not None:
            return (obj[i] for i in range(wanted))
        fail(
            TraceError,
            "fx",
            (
                "a number of elements that is known when tracing was required: Proxy object "
                "cannot be iterated. This can be attempted when the Proxy is used in a loop "
                "or as a *args or **kwargs function argument."
            ),
            hint=(
                "unpack a fixed number of elements, or put the loop into a function behind fx.wrap"
            ),
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**proxy` asks for."""
        return Attribute(obj, "keys")()


def _unpacked_count() -> int | None:
    """How many values the instruction that iterates wants, where it says so."""
    frame = sys._getframe(3)
    instructions = {i.offset: i for i in dis.get_instructions(frame.f_code)}
    found = instructions.get(frame.f_lasti)
    if found is None or found.opname != "UNPACK_SEQUENCE":
        return None
    return found.argval


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """An `assert` of a traced program."""
    assert x


class Proxy:
    """A value that will be computed by a node: whatever is done with it is recorded.

    Args:
        node: which computes it
        tracer: what records

    Example:
        >>> graph = facula.fx.Graph()
        >>> x = facula.fx.Proxy(graph.placeholder("x"))
        >>> (x * 2).node.op
        'call_function'
    """

    __array_priority__ = 1000

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        """Stand for the result of `node`; without a tracer, operations go to the node's graph."""
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k.startswith("__") and k.endswith("__") and k not in _READ:
            # what Python itself asks for, such as __array__ or __deepcopy__, is not there
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        # as a new value, so that a copied module holds what the original does
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    __getitem__: Callable[..., Any]  # with all operators, below

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _asserted():
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        fail(
            RuntimeError,
            "len",
            (
                "a length that is known when tracing was required: 'len' is not supported in "
                "symbolic tracing by default. If you want this call to be recorded, please "
                "call fx.wrap('len') at module scope"
            ),
            hint="x.size(0) is recorded as it is",
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: core.Op,
        types: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[Any, None] = {}

        def look(a: object) -> None:
            if isinstance(a, Proxy):
                tracers[a.tracer] = None
            elif isinstance(a, (list, tuple)):
                for x in a:
                    look(x)
            elif isinstance(a, dict):
                look(list(a.values()))
            elif isinstance(a, slice):
                look((a.start, a.stop, a.step))

        look(args)
        look(kwargs)
        if len(tracers) != 1:
            fail(
                RuntimeError,
                "fx",
                "proxies of one tracer were required: Found multiple different tracers "
                f"{list(tracers)} while trying to trace operations {orig_method}",
                hint="trace the functions one after the other",
            )
        tracer = next(iter(tracers))
        if not isinstance(orig_method, core.Op) and _is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, _spread(orig_method, args), kwargs)


def _spread(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with operands in a row, where the operator takes a list of them too."""
    if isinstance(function, core.Op) and function.definition.spreads and len(args) == 2:
        row = args[1]
        return (args[0], *row) if isinstance(row, (list, tuple)) else args
    return args


#: names with underscores that are recorded as attributes
_READ = frozenset(("__name__", "__class__"))


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is found on Tensor, and on nothing else."""
    return getattr(core.Tensor, getattr(function, "__name__", ""), None) is function or (
        inspect.ismethoddescriptor(function)
        and getattr(function, "__objclass__", None) is core.Tensor
    )


def _asserted() -> bool:
    """Whether the truth that is asked for is that of an `assert`."""
    frame = sys._getframe(2)
    code = list(dis.get_instructions(frame.f_code))
    at = [i for i, instruction in enumerate(code) if instruction.offset == frame.f_lasti]
    if not at or not code[at[0]].opname.startswith("POP_JUMP"):
        return False
    behind = code[at[0] + 1] if at[0] + 1 < len(code) else None
    return behind is not None and behind.opname == "LOAD_ASSERTION_ERROR"


class Attribute(Proxy):
    """`proxy.name`: read when it is used, called as a method when it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; made when first asked for, as most are methods."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter: its shape and dtype are known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.param.ndim

    def size(self, *args: object) -> Any:
        """The sizes, or one of them."""
        return self.param.size(*args)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.param.dim()

    def numel(self) -> int:
        """The number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The number of elements."""
        return self.param.nelement()


def _recorded(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(self: Proxy, *args: object, **kwargs: object) -> Any:
        return self.tracer.create_proxy("call_function", target, (self, *args), kwargs)

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(self: Proxy, other: object) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})

    method.__name__ = f"__r{name.strip('_')}__"
    return method


for _name in MAGIC_METHODS:
    setattr(Proxy, f"__{_name.strip('_')}__", _recorded(_name))
for _name in REFLECTABLE_METHODS:
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]

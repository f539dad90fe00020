"""Traces in which proxies know shapes: a tensor without elements runs along with every node.

Takes: a module, and a meta tensor for each input. Gives: `MetaTracer`, `symbolic_trace`.
Keeps true: what a program asks of shape, dtype or device is answered, and so becomes a part of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.fx._symbolic_trace import Tracer
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node, map_aggregate
from facula.fx.proxy import Attribute, Proxy
from facula.namespaces.overrides import TorchFunctionMode
from facula.nn.utils.ensembling import functional_call

__all__ = [
    "MetaAttribute",
    "MetaDeviceAttribute",
    "MetaProxy",
    "MetaTracer",
    "manual_meta_overrides",
    "proxys_to_metas",
    "symbolic_trace",
]

#: what runs instead of a function or of a module of a class, where a program says so
manual_meta_overrides: dict[Any, Callable[..., Any]] = {}


class MetaProxy(Proxy):
    """A proxy that has a meta tensor beside it, in `_tensor_meta_data`.

    Args:
        node: the node that it stands for.
        tracer: what traces.

    >>> from facula.fx.experimental.meta_tracer import symbolic_trace
    >>> first = lambda x: x.sum(0) if x.shape[0] > 2 else x
    >>> traced = symbolic_trace(first, {"x": facula.empty(3, 2, device="meta")})
    >>> [node.op for node in traced.graph.nodes]
    ['placeholder', 'call_method', 'output']
    """

    def __init__(self, node: Node, tracer: Any = None) -> None:
        super().__init__(node, tracer)
        self._tensor_meta_data: Any = None
        self._known = False

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Takes what runs along.

        Args:
            tensor_meta: a meta tensor, or what else the node gives.
        """
        self._tensor_meta_data = tensor_meta
        self._known = True

    def size(self, dim: int | None = None) -> Any:
        """The size that is known, or the node that asks for it.

        Args:
            dim: which dimension; None is all.
        """
        if self._known:
            return self._tensor_meta_data.size(*[] if dim is None else [dim])
        return self.tracer.create_proxy(
            "call_method", "size", (self,) if dim is None else (self, dim), {}
        )

    def dim(self) -> Any:
        """The number of dimensions that is known, or the node that asks for it."""
        if self._known:
            return self._tensor_meta_data.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    @property
    def shape(self) -> Any:
        """The shape that is known, or the node that asks for it."""
        return self.size()

    @property
    def dtype(self) -> Any:
        """The dtype that is known, or the node that asks for it."""
        return self._tensor_meta_data.dtype if self._known else MetaAttribute(self, "dtype")

    @property
    def device(self) -> Any:
        """The node that asks for the device: the tensor that runs along is on none."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        if k in ("_tensor_meta_data", "_known"):
            raise AttributeError(k)  # before __init__
        return MetaAttribute(self, k)


class MetaAttribute(Attribute):
    """An attribute of a `MetaProxy`: a node once it is used as a value.

    Args:
        root: the proxy.
        attr: the name.

    >>> from facula.fx.experimental.meta_tracer import symbolic_trace
    >>> "mT" in symbolic_trace(lambda x: x.mT + 1, {"x": facula.empty(2, 3, device="meta")}).code
    True
    """

    def __init__(self, root: Any, attr: str) -> None:
        super().__init__(root, attr)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class MetaDeviceAttribute(MetaAttribute):
    """The device of a `MetaProxy`, which is known when the graph runs.

    Args:
        root: the proxy.
        attr: `"device"`.

    >>> from facula.fx.experimental.meta_tracer import symbolic_trace
    >>> ones = lambda x: x + facula.ones(2, device=x.device)
    >>> symbolic_trace(ones, {"x": facula.empty(2, device="meta")})(facula.zeros(2))
    tensor([1., 1.])
    """


def proxys_to_metas(v: Any) -> Any:
    """What runs along of a proxy; other values as they are.

    Args:
        v: the value.

    >>> from facula.fx.experimental.meta_tracer import proxys_to_metas
    >>> proxys_to_metas(3)
    3
    """
    if isinstance(v, MetaDeviceAttribute):
        return core.device("meta")
    if isinstance(v, Proxy):
        if not isinstance(v, MetaProxy) or not v._known:
            fail(
                RuntimeError,
                "MetaTracer",
                "proxies with meta tensors",
                v.node,
                hint="give a meta tensor for every input in meta_args",
            )
        return v._tensor_meta_data
    return v


class _Constructors(TorchFunctionMode):
    """While a program is traced: a function whose device is that of a proxy is a node."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(isinstance(value, MetaDeviceAttribute) for value in kwargs.values()):
            return self.tracer.create_proxy("call_function", func, args, kwargs)
        return func(*args, **kwargs)


class MetaTracer(Tracer):
    """A tracer whose proxies know shapes.

    >>> from facula.fx.experimental.meta_tracer import MetaTracer
    >>> graph = MetaTracer().trace(facula.nn.ReLU(), {"input": facula.empty(2, device="meta")})
    >>> [node.op for node in graph.nodes]
    ['placeholder', 'call_function', 'output']
    """

    allow_insert_stateless_mods: bool = True
    meta_args: dict[str, Any] = {}
    _is_along: bool = False

    def proxy(self, node: Node) -> MetaProxy:
        """A proxy for a node.

        Args:
            node: the node.
        """
        return MetaProxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Any:
        """A node, its proxy, and what runs along.

        Args:
            kind, target, args, kwargs, name, type_expr, proxy_factory_fn: as for `Tracer.create_proxy`.
        """
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            made.install_tensor_meta(self.meta_args[target])
            return made
        if kind in ("placeholder", "output") or not isinstance(made, MetaProxy):
            return made
        try:
            with core.device("meta"):
                known = self._along(
                    kind,
                    target,
                    map_aggregate(args, proxys_to_metas),
                    map_aggregate(kwargs, proxys_to_metas),
                )
        except RuntimeError as error:
            if "proxies with meta tensors" in str(error):
                return made
            raise
        made.install_tensor_meta(known)
        return made

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """A call of a module; one that runs along is no part of the trace.

        Args:
            m, forward, args, kwargs: as for `Tracer.call_module`.
        """
        if self._is_along:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def _along(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """What a node gives for meta tensors."""
        if kind == "call_function":
            if "device" in kwargs:
                kwargs = {**kwargs, "device": "meta"}
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "get_attr":
            value: Any = self.root
            for part in target.split("."):
                value = getattr(value, part)
            return value.to("meta") if isinstance(value, core.Tensor) else value
        module = self.root.get_submodule(target)
        instead = manual_meta_overrides.get(type(module))
        if instead is not None:
            return instead(module, *args, **kwargs)
        tensors = {
            name: value.to("meta")
            for name, value in (*module.named_parameters(), *module.named_buffers())
        }
        self._is_along = True
        try:
            return functional_call(module, tensors, args, kwargs)
        finally:
            self._is_along = False

    def trace(  # type: ignore[override]  # the meta tensors come second
        self,
        root: nn.Module | Callable[..., Any],
        meta_args: dict[str, Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """The graph of a module or function for inputs like these.

        Args:
            root: the module or function.
            meta_args: a meta tensor for each input by its name.
            concrete_args: as for `Tracer.trace`.
        """
        for name, value in meta_args.items():
            if not isinstance(value, core.Tensor) or value.device.type != "meta":
                fail(
                    AssertionError,
                    "MetaTracer",
                    "meta tensors in meta_args",
                    f"{name}: {getattr(value, 'device', type(value).__name__)}",
                    hint="tensor.to('meta')",
                )
        self.meta_args = meta_args
        with _Constructors(self):
            graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    meta_args: dict[str, Any] | None = None,
    concrete_args: dict[str, Any] | None = None,
) -> GraphModule:
    """Traces a module or function for inputs like these.

    Args:
        root: the module or function.
        meta_args: a meta tensor for each input by its name.
        concrete_args: as for `facula.fx.symbolic_trace`.

    >>> from facula.fx.experimental.meta_tracer import symbolic_trace
    >>> half = lambda x: x[: x.shape[0] // 2]
    >>> symbolic_trace(half, {"x": facula.empty(4, device="meta")})(facula.arange(4))
    tensor([0, 1])
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args or {}, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)

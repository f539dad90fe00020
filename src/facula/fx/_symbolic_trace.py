"""Tracing by running: a function or module is called with proxies, and what it does is the graph.

Takes a function or a module.  Gives `Tracer`, `symbolic_trace` and `wrap`.
Keeps true: calls of modules and reads of parameters are looked at only while a trace runs; modules of
`facula.nn` are leaves; what depends on a value raises `TraceError`.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import math
import threading
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx._compatibility import compatibility
from facula.fx.codegen import PyTreeCodeGen, _PyTreeInfo
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Argument, Node
from facula.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from facula.fx.wrapping import WRAPPED, wrap

__all__ = [
    "PH", "ProxyableClassMeta", "Tracer", "compatibility", "is_fx_tracing", "symbolic_trace", "wrap",
]  # fmt: skip

#: methods that are recorded as calls
_wrapped_methods: dict[tuple[type, str], None] = {}
_tracing = threading.local()


def is_fx_tracing() -> bool:
    """Whether this thread runs a symbolic trace."""
    return getattr(_tracing, "depth", 0) > 0


class PHBase:
    """In `concrete_args`: an input that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class ProxyableClassMeta(type):
    """A metaclass: making an object out of proxies is recorded as a call of the class."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Proxy)]
        if not found:
            return super().__call__(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", cls, args, kwargs)


class _Patches:
    """Attributes and dictionary entries that are replaced for a while."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.seen: set[tuple[int, str]] = set()

    def entry(self, scope: dict[str, Any], name: str, value: object) -> None:
        """Replace an entry of a dictionary of globals."""
        if (id(scope), name) in self.seen:
            return
        self.seen.add((id(scope), name))
        missing = name not in scope
        before = scope.get(name)
        scope[name] = value

        def restore() -> None:
            if missing:
                del scope[name]
            else:
                scope[name] = before

        self.undo.append(restore)

    def attribute(self, owner: object, name: str, value: object) -> None:
        """Replace a method of a class."""
        before = owner.__dict__.get(name)
        setattr(owner, name, value)

        def restore() -> None:
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self.undo.append(restore)

    def __enter__(self) -> _Patches:
        return self

    def __exit__(self, *exception: object) -> None:
        for restore in reversed(self.undo):
            restore()
        self.undo.clear()


def _find_proxy(*values: object) -> Proxy | None:
    for value in values:
        if isinstance(value, Proxy):
            return value
        if isinstance(value, (tuple, list)):
            found = _find_proxy(*value)
        elif isinstance(value, dict):
            found = _find_proxy(*value.values())
        elif isinstance(value, slice):
            found = _find_proxy(value.start, value.stop, value.step)
        else:
            found = None
        if found is not None:
            return found
    return None


def _recording(function: Callable[..., Any], kind: str, target: Any) -> Callable[..., Any]:
    """`function`, or a node where one of its arguments is a proxy."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy(kind, target, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped._fx_wrapped = True  # type: ignore[attr-defined]
    return wrapped


class Tracer(TracerBase):
    """Records what a module or function does; subclasses decide what is a leaf and what an argument
    is.

    Args:
        autowrap_modules: modules whose functions are recorded as single calls
        autowrap_functions: functions that are
        param_shapes_constant: whether shapes of parameters are plain numbers

    Example:
        >>> class NoLeaves(facula.fx.Tracer):
        ...     def is_leaf_module(self, module, name):
        ...         return False
        >>> [node.op for node in NoLeaves().trace(facula.nn.ReLU()).nodes]
        ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        """Make a tracer.

        Args:
            autowrap_modules: modules whose functions are recorded as calls.
            autowrap_functions: functions that are recorded as calls.
            param_shapes_constant: reading the shape of a parameter gives numbers.
        """
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self._qualname_counter: dict[str, int] = collections.defaultdict(int)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name for an attribute of the root that is not taken: `prefix0`, `prefix1`, ..."""
        while True:
            number = self._qualname_counter[prefix]
            self._qualname_counter[prefix] += 1
            if not hasattr(self.root, f"{prefix}{number}"):
                return f"{prefix}{number}"

    # ---------------------------------------------------------------- arguments

    def create_arg(self, a: object) -> Argument:
        """What stands in the graph for a value: tensors become attributes of the root.

        Raises:
            NameError: a parameter that the root does not have.
        """
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
            fail(NameError, "fx", "a parameter of the root module was required: parameter is not a member "
                 "of this module", got=f"shape {tuple(a.shape)}",
                 hint="register it: self.weight = nn.Parameter(...)")  # fmt: skip
        if isinstance(a, core.Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if module is a:
                    return self.create_node("get_attr", name, (), {})
        if type(a) is not tuple and isinstance(a, tuple) and hasattr(a, "_fields"):
            made = [self.create_arg(x) for x in a]
            return self.create_node("call_function", type(a), tuple(made), {})
        if isinstance(a, core.Tensor):
            return self._attribute_for(a, "_tensor_constant")
        if type(type(a)) is ProxyableClassMeta:
            return self._attribute_for(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _attribute_for(self, value: object, prefix: str) -> Node:
        name = self.tensor_attrs.get(value) if _hashable(value) else None
        if name is None:
            name = self.get_fresh_qualname(prefix)
            if _hashable(value):
                self.tensor_attrs[value] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    # ---------------------------------------------------------------- modules

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded as one step: those of `facula.nn` are, but containers."""
        module = m.__module__
        own = module.startswith(("facula.nn", "torch.nn", "facula.ao.nn", "torch.ao.nn"))
        return own and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """The path of a module below the root.

        Raises:
            NameError: it is not there.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                fail(NameError, "fx", "a module below the root was required: module is not installed as a "
                     "submodule", got=type(mod).__name__,
                     hint="assign it to an attribute of the root module or of one below")  # fmt: skip
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        fail(
            NameError,
            "fx",
            "a module below the root was required: module is not installed as a submodule",
            hint="assign it to an attribute of the root module or of one below",
        )

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What a call of a module becomes: a node for a leaf, else what its `forward` does."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                del self.module_stack[key]

    def getattr(self, attr: str, attr_val: object, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading a parameter (or buffer, with `proxy_buffer_attributes`) of a module gives."""
        if isinstance(attr_val, nn.Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, core.Tensor):
            return self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_of(self, value: object, named: Any, cache: dict[str, Any]) -> Any:
        for name, found in named:
            if found is not value:
                continue
            if name not in cache:
                # passed on only where there is one: tracers of programs may not know the argument
                settings: dict[str, Any] = {}
                if self.param_shapes_constant:

                    def factory(node: Node, name: str = name) -> Proxy:
                        return ParameterProxy(self, node, name, value)

                    settings = {"proxy_factory_fn": factory}
                cache[name] = self.create_proxy("get_attr", name, (), {}, **settings)
            return cache[name]
        return value

    # ---------------------------------------------------------------- the arguments of the root

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Placeholders for the parameters of the traced function; gives it and its arguments.

        Args:
            root_fn: the function.
            is_module: whether its first argument is the root.
            concrete_args: values for some of them, by name; or a tuple for all.
        """
        function = inspect.unwrap(root_fn)
        code: CodeType = function.__code__
        if isinstance(concrete_args, dict):
            concrete_args = concrete_args.copy()
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = [self.root] if is_module else []
        first = 1 if is_module else 0
        if is_module and total == 0 and not code.co_flags & inspect.CO_VARARGS:
            fail(RuntimeError, "fx", "a forward that takes self was required: ``self`` argument cannot be "
                 "part of *args expansion!", hint="write forward(self, ...)")  # fmt: skip
        signature = inspect.signature(function)
        if isinstance(concrete_args, tuple):
            if len(names[first:total]) != len(concrete_args):
                fail(RuntimeError, "fx", "a value for each argument was required: Tracing expected "
                     f"{len(names[first:total])} arguments but got {len(concrete_args)} concrete "
                     "arguments", hint="give a dictionary by name to fix some arguments only")  # fmt: skip
            concrete_args = dict(zip(names[first:total], concrete_args, strict=True))
        given = names[first:total]
        args.extend(self._proxy_placeholder(n, concrete_args, signature, function) for n in given)
        root = root_fn
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            # code whose arguments are all positional: proxies can be handed to it in a row
            at = total
            if code.co_flags & inspect.CO_VARARGS:
                args.append(
                    self._proxy_placeholder("*" + names[at], concrete_args, signature, function)
                )
                at += 1
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(
                    self._proxy_placeholder("**" + names[at], concrete_args, signature, function)
                )
            root = _positional(function, len(args))
        return self._nested_inputs(root, args, given, first, concrete_args)

    def _nested_inputs(
        self,
        root: Callable[..., Any],
        args: list[Any],
        given: list[str],
        first: int,
        concrete: dict[Any, Any] | None,
    ) -> tuple[Any, list[Any]]:
        """With `concrete_args` that are nested: a function of their leaves."""
        flat, spec = pytree.tree_flatten(tuple(args))
        is_nested = any(not isinstance(x, pytree.LeafSpec) for x in spec.children_specs[first:])
        if concrete is None or not is_nested:
            return root, args
        self.graph._codegen = PyTreeCodeGen(_PyTreeInfo(given, spec, None))

        def flatten_fn(*leaves: object) -> Any:
            tree_args = pytree.tree_unflatten(list(leaves), spec)
            out = root(*tree_args)
            out_leaves, out_spec = pytree.tree_flatten(out)
            codegen: Any = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace_out(out_spec)
            return out_leaves

        return flatten_fn, flat

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name])
        if name.startswith("*"):
            default: tuple[Any, ...] = ()
        else:
            parameter = sig.parameters[name]
            default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        annotation = fn_for_analysis.__annotations__.get(name)
        if isinstance(annotation, str):
            annotation = None
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _concrete(self, name: str, value: object) -> Any:
        """A concrete value; its leaves are still inputs, which are checked to be that."""
        count = 0

        def leaf(x: object) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", (), {})
            if isinstance(x, PHBase):
                return out
            if type(x) in (bool, int, float, str, type(None)):
                self.create_proxy(
                    "call_function", _check_concrete, (out, x, name), {}, name="_assert_input"
                )
            return x

        return pytree.tree_map(leaf, value)

    # ---------------------------------------------------------------- the trace

    def trace(
        self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of what a module or function does.

        Args:
            root: what is traced.
            concrete_args: inputs with fixed values, by name.
        """
        if isinstance(root, nn.Module):
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = type(root).__name__
            self.root = root
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root = nn.Module()
            function = root
        self.graph = Graph(
            tracer_cls=type(self) if "<locals>" not in type(self).__qualname__ else None
        )
        self.tensor_attrs: dict[Any, str] = {}
        if isinstance(root, nn.Module):
            self._collect_tensors(root, [])
        is_module = isinstance(root, nn.Module)
        fn, args = self.create_args_for_root(_as_function(function), is_module, concrete_args)
        result = self._run(fn, args)
        # the return annotation of the function is that of the graph
        annotation = getattr(inspect.unwrap(fn), "__annotations__", {}).get("return")
        self.create_node("output", "output", (self.create_arg(result),), {},
                         type_expr=None if isinstance(annotation, str) else annotation)  # fmt: skip
        self.submodule_paths = None
        return self.graph

    def _collect_tensors(self, module: nn.Module, path: list[str]) -> None:
        """Plain tensors (neither parameters nor buffers) that are attributes of modules."""
        for name, value in module.__dict__.items():
            if isinstance(value, core.Tensor):
                self.tensor_attrs[value] = ".".join([*path, name])
        for name, child in module.named_children():
            self._collect_tensors(child, [*path, name])

    def _run(self, function: Callable[..., Any], args: list[Any]) -> Any:
        cache: dict[str, Any] = {}
        thread = threading.get_ident()

        def on_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return module._call_impl(*args, **kwargs)

            if threading.get_ident() != thread:
                return forward(*args, **kwargs)
            _autowrap(patches, getattr(type(module).forward, "__globals__", {}), self)
            return self.call_module(module, forward, args, kwargs)

        def on_read(module: nn.Module, name: str, value: object) -> Any:
            if threading.get_ident() != thread:
                return value
            return self.getattr(name, value, cache)

        _tracing.depth = getattr(_tracing, "depth", 0) + 1
        before = core.swap_module_tracers(on_call, on_read)
        try:
            with _Patches() as patches:
                _patch_wrapped(patches)
                _autowrap(patches, getattr(inspect.unwrap(function), "__globals__", {}), self)
                for module in self._autowrap_search:
                    _autowrap(patches, module.__dict__, self)
                return function(*args)
        finally:
            core.swap_module_tracers(*before)
            _tracing.depth -= 1

    def __deepcopy__(self, memo: object) -> Tracer:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made


def _hashable(value: object) -> bool:
    return isinstance(value, core.Tensor) or type(value).__hash__ is not None


def _as_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Something with a code object: methods and callable objects become functions."""
    if hasattr(inspect.unwrap(function), "__code__"):
        return function
    if inspect.ismethod(function):
        return function
    call = type(function).__call__
    signature = inspect.signature(function)
    names = [p.name for p in signature.parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    if not hasattr(call, "__code__") or isinstance(function, functools.partial):
        text = f"lambda {', '.join(names)}: function({', '.join(names)})"
        return eval(text, {"function": function})
    return call.__get__(function)


def _positional(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function that takes a row of values for all parameters, `*args` and `**kwargs` included."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    made = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags
    )
    return FunctionType(
        made, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def _check_concrete(given: object, wanted: object, name: str) -> None:
    """Raise where an input that was fixed when tracing gets another value."""
    if type(given) is not type(wanted) or given != wanted:
        fail(AssertionError, "fx", f"the value that '{name}' had when tracing was required: {name} has been "
             f"specialized to have value {wanted!r} but got another value", got=repr(given),
             hint="trace again with the new value, or without concrete_args")  # fmt: skip


def _patch_wrapped(patches: _Patches) -> None:
    for (_, name), scope in list(WRAPPED.items()):
        if name not in scope and hasattr(builtins, name):
            original = getattr(builtins, name)
        elif name in scope:
            original = scope[name]
        else:
            continue
        patches.entry(scope, name, _recording(original, "call_function", original))
    for cls, name in _wrapped_methods:
        original = getattr(cls, name)
        patches.attribute(cls, name, _recording(original, "call_method", name))


def _autowrap(patches: _Patches, scope: dict[str, Any], tracer: Tracer) -> None:
    """Replace the functions that are to be recorded among the globals of a function."""
    for name, value in list(scope.items()):
        if (
            not name.startswith("_")
            and id(value) in tracer._autowrap_function_ids
            and callable(value)
        ):
            patches.entry(scope, name, _recording(value, "call_function", value))


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """The module of what a module or function does, as a graph that can be read and changed.

    It runs once on `Proxy` values, which record what is done with them; Python's control flow on
    them is an error.

    Args:
        root: what is traced
        concrete_args: inputs with fixed values, by name; `PH` stands for one that stays an input

    Raises:
        TraceError: the program asks a traced value for its truth or length.

    Example:
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> [node.op for node in traced.graph.nodes]
        ['placeholder', 'call_method', 'call_function', 'output']
        >>> traced(facula.zeros(1))
        tensor([1.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name if name.isidentifier() else "GraphModule")

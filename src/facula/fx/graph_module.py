"""A module whose `forward` is a graph.

Takes a graph and what it reads: the modules, parameters and other attributes of a root.  Gives
`GraphModule`, an ordinary module whose `forward` is generated Python.
Keeps true: `code` is what runs; after the graph was changed, `recompile()` (or assigning `graph`)
brings both together; tracebacks show the generated lines; inside of `code_on_demand()`, where most
graphs never run as Python, code is written when it is first asked for.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.fx import names
from facula.fx import traceback as fx_traceback
from facula.fx.codegen import PythonCode, PyTreeCodeGen
from facula.fx.graph import Graph
from facula.fx.names import is_name
from facula.fx.node import Node

__all__ = ["GraphModule"]

_numbers = itertools.count()
_on_demand: ContextVar[bool] = ContextVar("code on demand", default=False)


@contextmanager
def code_on_demand() -> Iterator[None]:
    """A block in which graph modules put off their code until somebody runs or reads it."""
    token = _on_demand.set(True)
    try:
        yield
    finally:
        _on_demand.reset(token)


def compile_text(
    src: str, values: dict[str, Any], name: str = "forward", origins: dict[int, str] | None = None
) -> Callable[..., Any]:
    """The function that a text defines; the text is shown in tracebacks.

    origins: the user's lines that lines of the text come from, which nodes get when it is traced again.
    """
    file = f"<eval_with_key>.{next(_numbers)}"
    scope = dict(values)
    exec(compile(src, file, "exec"), scope)
    function = scope[name]
    linecache.cache[file] = (len(src), None, src.splitlines(True), file)
    weakref.finalize(function, linecache.cache.pop, file, None)
    if origins:
        fx_traceback.ORIGINS[file] = origins
        weakref.finalize(function, fx_traceback.ORIGINS.pop, file, None)
    return function


def _origins(graph: Graph, made: PythonCode) -> dict[int, str]:
    """For each line of a graph's text, the trace of its node."""
    if graph._codegen._body_transformer is not None:
        return {}  # the lines are others
    traces = [node.meta.get("stack_trace") for node in graph.nodes]
    marks = (made._lineno_map or {}).items()
    return {line: trace for line, n in marks if n is not None and (trace := traces[n])}


def _keep_notes(function: Any, graph: Graph, made: PythonCode) -> None:
    """What was annotated at nodes is known by the lines of the text that compute them."""
    notes = [node.meta.get("custom") for node in graph.nodes]
    if graph._codegen._body_transformer is not None or not any(notes):
        return
    marks = (made._lineno_map or {}).items()
    lines = {line: note for line, n in marks if n is not None and (note := notes[n])}
    file = function.__code__.co_filename
    fx_traceback.NOTES[file] = lines
    weakref.finalize(function, fx_traceback.NOTES.pop, file, None)


def copy_attribute(source: object, target: nn.Module, path: str) -> None:
    """Give `target` what stands at a path in another module."""
    *prefix, last = path.split(".")
    for part in prefix:
        found = getattr(source, part)
        made = getattr(target, part, None)
        if found is made:
            return
        if made is None:
            made = nn.Module()
            setattr(target, part, made)
        source, target = found, made
    value = getattr(source, last)
    if isinstance(value, core.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


def assign_attribute(value: object, target: nn.Module, path: str) -> None:
    """Put a value at a path of a module, with modules on the way."""
    *prefix, last = path.split(".")
    for part in prefix:
        inner = getattr(target, part, None)
        if inner is None:
            inner = nn.Module()
            setattr(target, part, inner)
        target = inner
    if isinstance(value, core.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


#: PyTorch's names, which libraries import to build graph modules of their own
_copy_attr, _assign_attr = copy_attribute, assign_attribute
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(nn.Module):
    """A module with the attributes of another one: what a copied graph takes its parameters from."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


class GraphModule(nn.Module):
    """A module that runs a graph; ``code`` is its forward as Python.

    After a change of ``graph`` call ``recompile()``.

    Args:
        *args: the root, a module or a dictionary of what the graph reads, and the graph
        **kwargs: the name of the class

    Example:
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> print(traced.code.strip())
        def forward(self, x):
            sin = x.sin();  x = None
            add = sin + 1;  sin = None
            return add
    """

    def __new__(cls, *args: object, **kwargs: object) -> GraphModule:
        # forward stands on the class: one for each object
        for base in cls.__mro__:
            if "GraphModuleImpl" not in base.__qualname__:
                break
        made = type("GraphModuleImpl", (base,), {"__module__": base.__module__})
        made.__name__ = base.__name__
        return super().__new__(made)

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        """Make a module that runs `graph`.

        Args:
            root: a module, whose attributes that the graph names are shared; or a dictionary from
                paths to values.
            graph: what runs.
            class_name: shown in `repr` and by `print_readable`.
        """
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, nn.Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    copy_attribute(root, self, str(node.target))
        elif isinstance(root, dict):
            self._assign_all(root, graph)
        else:
            fail(
                RuntimeError,
                "GraphModule",
                "a module or a dictionary was required: Unsupported type passed for root!",
                got=type(root).__name__,
                hint="facula.nn.Module() serves where the graph has no attributes",
            )
        self.meta: dict[str, Any] = {}
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras
        self._deepcopy_hooks: list[Callable[[GraphModule], object]] = []
        self.graph = graph

    def _assign_all(self, root: dict[str, Any], graph: Graph) -> None:
        paths = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    fail(
                        RuntimeError,
                        "GraphModule",
                        f"the attribute '{node.target}' was required: Node {node} referenced target "
                        f"{node.target} but that target was not provided in 'root'!",
                        hint="add it to root under that name",
                    )
                paths.append(str(node.target))
        # outer modules before what is put into them
        for path in sorted(dict.fromkeys(paths), key=lambda p: p.count(".")):
            assign_attribute(root[path], self, path)

    # ---------------------------------------------------------------- the graph and its code

    @property
    def graph(self) -> Graph:
        """The graph; assign one to run it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            fail(
                AssertionError,
                "graph",
                "a Graph was required",
                got=type(g).__name__,
                hint="Tracer().trace(module) gives one",
            )
        self._graph = g
        g.owning_module = self
        self.renew()

    @property
    def code(self) -> str:
        """The Python source of `forward`."""
        if self._code is None:
            self.recompile()
        return str(self._code)

    @property
    def _boxed_call(self) -> bool:
        return False

    def renew(self) -> None:
        """Say that the graph was changed: as `recompile`, but on demand in such a block."""
        if not _on_demand.get():
            self.recompile()
            return

        def forward(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
            if module._code is None:
                module.recompile()
            return type(module).forward(module, *args, **kwargs)

        self._code: str | None = None
        type(self).forward = forward

    def recompile(self) -> PythonCode:
        """Generate and compile the code of the graph as it is now."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        self._lineno_map = made._lineno_map
        self._prologue_start = made._prologue_start
        origins = _origins(self._graph, made)
        forward = compile_text(made.src, made.globals, codegen._func_name, origins)
        _keep_notes(forward, self._graph, made)
        type(self).forward = forward
        return made

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        return [
            (name, module.recompile())
            for name, module in self.named_modules()
            if isinstance(module, GraphModule)
        ]

    # ---------------------------------------------------------------- submodules

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a path, with modules on the way; gives whether that was possible."""
        *prefix, last = target.split(".")
        at: nn.Module = self
        for part in prefix:
            inner = getattr(at, part, None)
            if inner is None:
                inner = nn.Module()
                setattr(at, part, inner)
            if not isinstance(inner, nn.Module):
                return False
            at = inner
        at.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; gives whether there was one."""
        *prefix, last = target.split(".")
        at: Any = self
        for part in prefix:
            at = getattr(at, part, None)
            if not isinstance(at, nn.Module):
                return False
        if not isinstance(getattr(at, last, None), nn.Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node calls or reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module":
                module = self.get_submodule(str(node.target))
                used.update(f"{node.target}.{name}" for name, _ in module.named_modules() if name)
        unused = [name for name, _ in self.named_modules() if name and name not in used]
        for name in unused:
            self.delete_submodule(name)

    # ---------------------------------------------------------------- copies and files

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        type(made).__name__ = type(self).__name__
        memo[id(self)] = made
        state = dict(self.__dict__)
        state.pop("_graph")
        hooks = state.pop("_deepcopy_hooks", [])
        made.__dict__.update(copy.deepcopy(state, memo))
        made.__dict__["_deepcopy_hooks"] = list(hooks)
        graph = copy.deepcopy(self._graph, memo)
        _take_hooks(self._graph, graph)
        made.graph = graph
        for hook in hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)
        _take_hooks(self._graph, made._graph)
        made.meta = self.meta
        return made

    def __reduce__(self) -> Any:
        state = dict(self.__dict__)
        for key in ("_code", "_lineno_map", "_deepcopy_hooks", "meta", "_tracer_extras"):
            state.pop(key, None)
        graph = state.pop("_graph")
        return _rebuild, (_own_class(self), type(self).__name__, state, graph)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a Python package, with its state beside it.

        Args:
            folder: made where it does not exist.
            module_name: the class to write.
        """
        # lazily: it brings in the reading and writing of files
        from facula.fx.folder import write

        write(self, folder, module_name)

    # ---------------------------------------------------------------- text

    def __str__(self) -> str:
        return "\n".join(
            [
                super().__repr__(),
                self.code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            ]
        )

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code with shapes and the user's lines, and that of graph modules inside; also printed.

        Args:
            print_output: whether to print it.
            include_stride, include_device: more about each value.
            expanded_def: one argument a line.
            colored, fast_sympy_print: kept for PyTorch's API, they change nothing.
            additional_meta: entries of `meta` to show.
        """
        options = {
            "include_stride": include_stride,
            "include_device": include_device,
            "expanded_def": expanded_def,
        }
        text = self._readable(type(self).__name__, additional_meta, options)
        if print_output:
            print(text, end="")
        return text

    def _readable(self, name: str, additional_meta: Any, options: dict[str, bool]) -> str:
        """The code as a class of a name, with those of graph modules inside."""
        made = self._graph.python_code(
            "self", verbose=True, additional_meta=additional_meta, **options
        )
        body = "\n".join(
            "    " + line if line.strip() else "" for line in made.src.strip().split("\n")
        )
        name = re.sub(r"\W", "_", name)
        name = name if is_name(name) else f"_{name}"
        text = f"class {name}({names.prefix()}.nn.Module):\n{body}\n"
        for attribute, child in self.named_children():
            if isinstance(child, GraphModule):
                inner = child._readable(attribute, additional_meta, options)
                indented = [f"    {line}" if line else "" for line in inner.rstrip().split("\n")]
                text += "\n" + "\n".join(indented) + "\n"
        return text

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = copy.copy(self)
        made._is_replica = True
        return made

    # ---------------------------------------------------------------- hooks

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._graph._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._graph._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._graph._create_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._graph._create_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._graph._erase_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._graph._erase_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.remove(f)


def _own_class(module: GraphModule) -> type:
    """The class that the user knows."""
    for base in type(module).__mro__:
        if "GraphModuleImpl" not in base.__qualname__:
            return base
    return GraphModule


def _take_hooks(source: Graph, target: Graph) -> None:
    target._replace_hooks = list(source._replace_hooks)
    target._create_hooks = list(source._create_hooks)
    target._erase_hooks = list(source._erase_hooks)


def _rebuild(cls: type[GraphModule], name: str, state: dict[str, Any], graph: Graph) -> GraphModule:
    """What `pickle` calls: the module of a state and a graph."""
    made = cls.__new__(cls)
    type(made).__name__ = name
    made.__dict__.update(state)
    made.__dict__.update(meta={}, _deepcopy_hooks=[], _tracer_extras=None)
    made.graph = graph
    return made

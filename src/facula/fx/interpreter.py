"""Running a graph node by node.

Takes a module with a graph.  Gives `Interpreter`, whose methods (one for each opcode) may be
overridden, and `Transformer`, an interpreter whose values are proxies of a new graph.
Keeps true: a value is let go after its last use; an error says at which node it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.fx import traceback as fx_traceback
from facula.fx._symbolic_trace import Tracer
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Argument, Node, Target, map_aggregate, map_arg
from facula.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module node by node; override ``run_node`` or the methods of the opcodes to
    watch or change it.

    Args:
        module: whose graph is run
        garbage_collect_values: whether values are let go after their last use
        graph: another graph in its place

    Example:
        >>> class Loud(facula.fx.Interpreter):
        ...     def run_node(self, node):
        ...         print(node.op)
        ...         return super().run_node(node)
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> Loud(traced).run(facula.zeros(1))
        placeholder
        call_method
        call_function
        output
        tensor([1.])
    """

    def __init__(
        self, module: nn.Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        """Prepare to run.

        Args:
            module: what nodes read attributes from and call modules of.
            garbage_collect_values: let go of values after their last use.
            graph: the graph; default that of the module.
        """
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(self.graph.nodes):
                for used in node._input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """The result of the graph for these arguments.

        Args:
            args: for the placeholders, in order.
            initial_env: values of nodes that are not computed again.
            enable_io_processing: treat inputs and outputs as the generated code does.
        """
        self.env = {} if initial_env is None else initial_env
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                self._explain(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def _explain(self, error: Exception, node: Node) -> None:
        if not self.extra_traceback:
            return
        text = f"While executing {node.format_node()}"
        if node.stack_trace:
            text += f"\nOriginal traceback:\n{node.stack_trace}"
        if isinstance(error, OSError | UnicodeError) or not (
            error.args and isinstance(error.args[0], str)
        ):
            error.add_note(text)  # what it says is made of several parts
            return
        error.args = (f"{error.args[0]}\n\n{text}", *error.args[1:])

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run`, with a list of arguments that is emptied at once."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---------------------------------------------------------------- the opcodes

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The next argument, or the default."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            return fail(
                RuntimeError,
                "Interpreter",
                "an argument for each placeholder was required: Expected positional argument for "
                f"parameter {target}, but one was not passed in!",
                hint="pass it, or give the placeholder a default",
            )

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The attribute of a path."""
        return self.fetch_attr(str(target))

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a function."""
        return target(*args, **kwargs)  # type: ignore[operator]

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a method of the first argument."""
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a module."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the graph."""
        return args[0]

    # ---------------------------------------------------------------- reading

    def fetch_attr(self, target: str) -> Any:
        """The attribute of a path.

        Raises:
            RuntimeError: there is none.
        """
        at: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(at, part):
                fail(
                    RuntimeError,
                    "Interpreter",
                    "an attribute of the module was required: Node referenced nonexistent target "
                    f"{'.'.join(parts[: i + 1])}",
                    hint="set it on the module, or correct the node's target",
                )
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Nested arguments, with values for nodes."""

        def value(used: Node) -> Any:
            if used not in self.env:
                fail(RuntimeError, "Interpreter", "values that were computed before were required: Node "
                     f"{n} referenced nonexistent value {used}! Run Graph.lint() to diagnose such "
                     "issues",
                     hint="insert the node after those that it uses: graph.inserting_after(node)")  # fmt: skip
            return self.env[used]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """Records what a transformer does; every module is a leaf."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs: dict[core.Tensor, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a new graph out of one: override the methods of the opcodes, which get and give proxies.

    Args:
        module: whose graph is gone through

    Example:
        >>> class Cosines(facula.fx.Transformer):
        ...     def call_method(self, target, args, kwargs):
        ...         return super().call_method("cos" if target == "sin" else target, args, kwargs)
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> Cosines(traced).transform()(facula.zeros(1))
        tensor([2.])
    """

    def __init__(self, module: GraphModule) -> None:
        """Prepare to transform `module`."""
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Proxy:
        """An input of the new graph."""
        default: Any = {"default_value": args[0]} if args else {}
        return Proxy(self.new_graph.placeholder(str(target), **default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """An attribute, read in the new graph."""
        return self.tracer.create_proxy("get_attr", str(target), args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module in the new graph."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a method in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(a: Argument) -> Argument:
                return a.node if isinstance(a, Proxy) else a

            old = self.graph.output_node()
            made = self.new_graph.output(map_aggregate(result, node_of), old.type)
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)

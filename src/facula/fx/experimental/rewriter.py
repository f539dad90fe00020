"""Traces of functions whose assertions are part of the graph.

Takes: modules and functions whose source can be read. Gives: `RewritingTracer`, which traces a rewritten copy.
Keeps true: the program's own function and module are not changed.

`assert test, message` becomes a call of `facula._assert`, and `x: type = value` says its type in the graph.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

from facula import nn
from facula.fx._symbolic_trace import Tracer
from facula.fx.annotate import annotate
from facula.fx.graph import Graph
from facula.namespaces.checks import _assert

__all__ = ["AST_Rewriter", "RewritingTracer", "rewrite"]

#: by these names the rewritten code finds what it calls
_ASSERT, _ANNOTATE = "_facula_assert", "_facula_annotate"


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites the code of a function.

    >>> from facula.fx.experimental.rewriter import AST_Rewriter
    >>> import ast
    >>> made = AST_Rewriter().visit(ast.parse("assert x, 'no'"))
    >>> ast.unparse(ast.fix_missing_locations(made))
    "_facula_assert(x, 'no')"
    """

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """The function that the rewritten code of another one makes.

        Args:
            fn: the function; cells of its closure are read at this time.
        """
        lines, first = inspect.getsourcelines(fn)
        # a block of its own, since lines of a text in the code may begin further to the left
        block = ast.parse("if 1:\n " + "".join(lines) if lines[0][0].isspace() else "".join(lines))
        holder: Any = block.body[0] if isinstance(block.body[0], ast.If) else block
        definition = cast(ast.FunctionDef, holder.body[0])
        definition.decorator_list = []
        tree = ast.Module([definition], [])
        ast.increment_lineno(tree, first - 1 - (holder is not block))
        code = compile(ast.fix_missing_locations(self.visit(tree)), fn.__code__.co_filename, "exec")
        names = {**fn.__globals__, _ASSERT: _assert, _ANNOTATE: annotate}
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            names[name] = cell.cell_contents
        exec(code, names)
        made = names[definition.name]
        made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
        return cast(FunctionType, functools.wraps(fn)(made))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """A call in the place of an assertion.

        Args:
            node: the assertion.
        """
        message = node.msg if node.msg is not None else ast.Constant("")
        call = ast.Call(ast.Name(_ASSERT, ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """An assignment of a value that says its type, in the place of one with an annotation.

        Args:
            node: the assignment.
        """
        if node.value is None:
            return node
        call = ast.Call(ast.Name(_ANNOTATE, ast.Load()), [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)


class RewritingTracer(Tracer):
    """A tracer that goes through rewritten copies of modules and functions.

    >>> from facula.fx.experimental.rewriter import RewritingTracer
    >>> RewritingTracer().trace(facula.nn.Sequential(facula.nn.ReLU())).nodes.__len__()
    3
    """

    def trace(
        self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """The graph of a rewritten copy.

        Args:
            root: the module or function.
            concrete_args: as for `Tracer.trace`.
        """
        return super().trace(rewrite(root), concrete_args)


def rewrite(fn: Any) -> Any:
    """The rewritten copy of a module, whose submodules are rewritten as well, or of a function.

    Args:
        fn: the module or function.

    >>> from facula.fx.experimental.rewriter import rewrite
    >>> rewrite(facula.nn.ReLU())(facula.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if not isinstance(fn, nn.Module):
        return AST_Rewriter().rewrite(fn)
    kind = type(fn)
    if not isinstance(kind.forward, FunctionType) or kind.__module__.startswith("facula."):
        return fn
    rewritten = AST_Rewriter().rewrite(kind.forward)
    made = type(kind.__name__, (kind,), {"forward": rewritten, "__module__": kind.__module__})
    new = copy.copy(fn)
    new.__class__ = made
    new._modules = {
        name: rewrite(child) if child is not None else None for name, child in fn._modules.items()
    }
    return new

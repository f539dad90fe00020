"""What modules within an exported one are called with, and what they give.

Takes: the module, and the paths of those that are to be noted. Gives: `KeptSignatures`, whose block notes calls, and
the entries of a program's `module_call_graph`.
Keeps true: nothing stays registered at the modules; what a call was given and gave is known by nodes of the trace.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.export.module_calls import ModuleCallEntry, ModuleCallSignature
from facula.export.signature import ConstantArgument, SymIntArgument, TensorArgument
from facula.fx import Node
from facula.fx import _pytree as pytree
from facula.fx.proxy_tensor import get_proxy_mode
from facula.fx.symbols import SymInt

__all__ = ["KeptSignatures"]

#: a leaf of a call: the node of a tensor or number, or a constant; and whether it is a number
Leaf = tuple[Any, bool]


class KeptSignatures:
    """The calls of some modules.

    Args:
        module: the outermost module
        paths: those of the modules

    Raises:
        AttributeError: there is no module of a path.
    """

    def __init__(self, module: nn.Module, paths: Sequence[str]) -> None:
        self.names = [path for path, _ in module.named_modules(remove_duplicate=False)]
        self.modules = {path: module.get_submodule(path) for path in paths}
        #: path of a call -> leaves and structure of what it was given, and of what it gave, names of arguments
        self.found: dict[str, tuple[list[Leaf], Any, list[Leaf], Any, list[str]]] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A block in which calls are noted."""
        handles = []
        for path, module in self.modules.items():
            handles.append(module.register_forward_hook(self._after(path), with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _after(self, path: str) -> Any:
        def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            count = sum(name.partition("@")[0] == path for name in self.found)
            given, in_spec = pytree.tree_flatten((args, kwargs))
            gave, out_spec = pytree.tree_flatten(result)
            key = f"{path}@{count}" if count else path
            names = _names(module, args, kwargs)
            self.found[key] = _leaves(given), in_spec, _leaves(gave), out_spec, names

        return note

    def entries(
        self, whole: ModuleCallSignature, replaced: Mapping[Node, Node]
    ) -> list[ModuleCallEntry]:
        """The modules of the program.

        Args:
            whole: the signature of the outermost
            replaced: nodes that are no more, with those in their place
        """
        made = []
        for name in self.names:
            calls = [key for key in self.found if key.partition("@")[0] == name]
            if not name or not calls:
                made.append(ModuleCallEntry(name, None if name else whole))
            made += [ModuleCallEntry(key, self._signature(key, replaced)) for key in calls if name]
        return made

    def _signature(self, key: str, replaced: Mapping[Node, Node]) -> ModuleCallSignature:
        given, in_spec, gave, out_spec, names = self.found[key]
        ends = [[_argument(leaf, replaced) for leaf in part] for part in (given, gave)]
        return ModuleCallSignature(ends[0], ends[1], in_spec, out_spec, names)


def _leaves(values: Sequence[Any]) -> list[Leaf]:
    mode = get_proxy_mode()
    assert mode is not None
    found: list[Leaf] = []
    for x in values:
        if isinstance(x, (core.Tensor, SymInt)):
            found.append((mode.tracer.create_arg(x), isinstance(x, SymInt)))
        elif x is None or isinstance(x, (int, float, bool, str)):
            found.append((x, False))
        else:
            fail(RuntimeError, "export", "tensors and numbers were required of calls whose signature is kept",
                 type(x).__name__, hint="leave the module out of preserve_module_call_signature")  # fmt: skip
    return found


def _argument(leaf: Leaf, replaced: Mapping[Node, Node]) -> Any:
    value, is_number = leaf
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    name = replaced.get(value, value).name
    return SymIntArgument(name) if is_number else TensorArgument(name)


def _names(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names of the arguments."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [*(f"arg_{i}" for i in range(len(args))), *kwargs]
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        else:
            names += list(value) if kind is inspect.Parameter.VAR_KEYWORD else [name]
    return names

"""One step of a graph.

Takes an opcode, a target and arguments that may hold other nodes anywhere in tuples, lists,
dictionaries and slices.  Gives `Node`, and `map_arg`/`map_aggregate` over such arguments.
Keeps true: `users` of a node are exactly the nodes whose arguments hold it; nodes of a graph form one
ring of links, the graph's root between the last and the first.
"""

from __future__ import annotations

import types
import typing
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from facula.core.errors import fail
from facula.fx import names, operator_schemas
from facula.fx.effects import has_side_effect, is_impure_function
from facula.fx.immutable_collections import immutable_dict, immutable_list

if typing.TYPE_CHECKING:
    from facula.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

OPCODES = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)  # fmt: skip


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """`fn` of every leaf of nested tuples, lists, dictionaries and slices, in the same nesting."""
    kind = type(a)
    if kind is tuple:
        return tuple([map_aggregate(x, fn) for x in a])
    if kind is immutable_list or kind is list:
        return immutable_list([map_aggregate(x, fn) for x in a])
    if kind is immutable_dict or kind is dict:
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if kind is slice:
        return slice(
            map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn)
        )
    if isinstance(a, tuple):
        made = [map_aggregate(x, fn) for x in a]
        return kind(*made) if hasattr(a, "_fields") else tuple(made)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """A function of every node in nested arguments; other leaves stay.

    Args:
        a: tuples, lists, dictionaries and slices of nodes and values
        fn: of a node

    Example:
        >>> x = facula.fx.Graph().placeholder("x")
        >>> facula.fx.map_arg((x, [1, x]), lambda node: node.name)
        ('x', [1, 'x'])
    """
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _frozen(a: Argument, found: dict[Node, None]) -> Argument:
    """The argument with containers that can not change; the nodes in it are entered into `found`."""
    kind = type(a)
    if kind is Node:
        found[a] = None
        return a
    if kind is tuple:
        return tuple([_frozen(x, found) for x in a])
    if kind is int or kind is float or kind is str or kind is bool or a is None:
        return a

    def note(x: Argument) -> Argument:
        if isinstance(x, Node):
            found[x] = None
        return x

    return map_aggregate(a, note)


class Node:
    """A step of a graph: ``op``, ``target``, ``args`` and ``kwargs``; ``users`` and ``meta``.

    ``replace_all_uses_with`` puts another in its place, ``graph.erase_node`` takes it out.

    Args:
        graph: which has it
        name: its name there
        op: 'placeholder', 'call_function', 'call_method', 'call_module', 'get_attr' or 'output'
        target: what is called or read
        args, kwargs: arguments, nodes among them
        return_type: of its value, where it is known

    Example:
        >>> traced = facula.fx.symbolic_trace(lambda x: x.sin() + 1)
        >>> node = list(traced.graph.nodes)[1]
        >>> node.op, node.target, [user.name for user in node.users]
        ('call_method', 'sin', ['add'])
    """

    __slots__ = (
        "__dict__", "__weakref__", "_args", "_erased", "_input_nodes", "_kwargs", "_next", "_order", "_prev",
        "_repr_fn", "graph", "meta", "name", "op", "target", "type", "users",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        """Make a node that is in no place yet; use the methods of `Graph` instead."""
        if op == "call_function":
            if not callable(target):
                fail(
                    ValueError,
                    "Node",
                    "a callable was required as the target of call_function",
                    got=f"{target!r} of type {type(target).__name__}",
                    hint="call_method takes a name, call_function the function itself",
                )
        elif not isinstance(target, str):
            fail(
                ValueError,
                "Node",
                f"a string was required as the target of {op}",
                got=f"{target!r} of type {type(target).__name__}",
                hint="call_function takes functions",
            )
        elif op == "placeholder":
            names.checked_name(target, "Node", "the target of a placeholder", names.is_parameter)
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.users: dict[Node, None] = {}
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev = self._next = self
        self._erased = False
        self._order = 0
        self._set_arguments(args, kwargs)

    # ---------------------------------------------------------------- places

    @property
    def next(self) -> Node:
        """The node behind this one (the graph's root behind the last)."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to the place just before this node."""
        if self.graph is not x.graph:
            fail(
                AssertionError,
                "prepend",
                "a node of the same graph was required",
                got=x.name,
                hint="node_copy() copies a node of another graph",
            )
        if self is x:
            warnings.warn(
                "[prepend] a node can not stand before itself: left where it is", stacklevel=2
            )
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._ordered = False

    def append(self, x: Node) -> None:
        """Move `x` to the place just behind this node."""
        if self is not x:
            self._next.prepend(x)

    def _unlink(self) -> None:
        before, behind = self._prev, self._next
        before._next, behind._prev = behind, before

    def _let_go(self) -> None:
        self.users, self._input_nodes, self.meta = {}, {}, {}
        self._args, self._kwargs = (), immutable_dict()
        self._prev = self._next = self.graph._root

    def _remove_from_list(self) -> None:
        self._unlink()

    def __lt__(self, other: Node) -> bool:
        self.graph._number_nodes()
        return self._order < other._order

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ---------------------------------------------------------------- arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assign a whole tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assign a whole dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: object, kwargs: dict[str, Any]) -> None:
        if not isinstance(args, (tuple, list)):
            fail(
                AssertionError,
                "Node",
                "a tuple of arguments was required",
                got=type(args).__name__,
                hint="pass (x,) for a single argument",
            )
        found: dict[Node, None] = {}
        frozen = tuple([_frozen(x, found) for x in args])
        frozen_kwargs = immutable_dict({k: _frozen(v, found) for k, v in kwargs.items()})
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = frozen, frozen_kwargs, found
        for node in found:
            node.users[self] = None

    # kept for programs that call it; both at once
    def _update_args_kwargs(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        self._set_arguments(args, kwargs)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Put `arg` in position `idx`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put `arg` before position `idx`."""
        if not 0 <= idx <= len(self.args):
            fail(
                AssertionError,
                "insert_arg",
                f"an index between 0 and {len(self.args)} was required: insert_args index must be "
                "between 0 and len(self.args)",
                got=idx,
                hint="update_arg() replaces an argument",
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set the keyword argument `key`."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put `new_input` wherever `old_input` stands among the arguments."""
        self._swap(old_input, new_input)

    def _swap(self, old: Node, new: Node) -> None:
        hooks = self.graph._replace_hooks
        if hooks:
            for hook in hooks:
                hook(old=old, new=new.name, user=self)

        def other(n: Node) -> Node:
            return new if n is old else n

        self._set_arguments(map_arg(self.args, other), map_arg(self.kwargs, other))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Put `replace_with` wherever this node is used; gives the nodes that were changed.

        Args:
            replace_with: the node to use instead.
            delete_user_cb: says of a user whether it is to be changed; all are without it.
            propagate_meta: `replace_with`, which has no meta, gets that of this node.
        """
        if propagate_meta:
            if replace_with.meta:
                fail(
                    AssertionError,
                    "replace_all_uses_with",
                    "a node without meta was required: Called node.replace_all_uses_with("
                    "replace_with, propagate_meta=True), but replace_with already has .meta keys",
                    got=sorted(replace_with.meta),
                    hint="clear replace_with.meta, or pass propagate_meta=False",
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is None or delete_user_cb(user):
                changed.append(user)
                user._swap(self, replace_with)
        return changed

    # ---------------------------------------------------------------- what it is

    @property
    def stack_trace(self) -> str | None:
        """Where the user's program made this step, if that was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step does something besides giving its result, so that it must be kept.

        Args:
            impure_random: whether drawing random numbers counts.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.meta.get("numbers_read"):  # results that are views may have them as their places
            return True
        if self.op == "call_function":
            return is_impure_function(self.target, self.kwargs, impure_random)
        if self.op == "call_method":
            name = str(self.target)
            return (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                fail(
                    AssertionError,
                    "is_impure",
                    "a graph with an owning module was required: self.graph.owning_module not set for "
                    "purity check",
                    hint="make a GraphModule of the graph",
                )
            module = owner.get_submodule(str(self.target))
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments as its function, or module of `root`, names them; None where it is unknown."""
        if self.op == "call_function":
            return operator_schemas.normalize_function(
                self.target,  # type: ignore[arg-type]
                self.args,
                dict(self.kwargs),
                arg_types,
                kwarg_types,
                normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return operator_schemas.normalize_module(
                root, str(self.target), self.args, dict(self.kwargs), normalize_to_only_use_kwargs
            )
        return None

    # ---------------------------------------------------------------- text

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as one line of `print(graph)`.

        Args:
            placeholder_names: gets the texts of placeholders, which then give None.
            maybe_return_typename: its first entry is set to the annotation of the result.
            include_tensor_metadata: write shape and dtype where they are known.
        """
        note = f"[num_users={len(self.users)}]"
        typed = f"{names.type_text(self.type)} " if self.type is not None else ""
        if self.op == "placeholder":
            text = str(self.target) + (f": {names.type_text(self.type)}" if self.type else "")
            if placeholder_names is not None:
                placeholder_names.append(text)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {typed}{note} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {typed}{note} = {self.op}[target={self.target}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {names.type_text(self.type)}"
            return f"return {self.args[0]}"
        inputs = ", ".join(self._argument_text(x) for x in self.args)
        keywords = ", ".join(f"{k}: {self._argument_text(v)}" for k, v in self.kwargs.items())
        shown = self._metadata_text() if include_tensor_metadata else ""
        return (
            f"%{self.name} : {typed}{shown}{note} = {self.op}[target={self._pretty_print_target(self.target)}]"
            f"(args = ({inputs}{',' if len(self.args) == 1 else ''}), kwargs = {{{keywords}}})"
        )

    def _metadata_text(self) -> str:
        value: Any = self.meta.get("val", self.meta.get("tensor_meta"))
        shape = getattr(value, "shape", None)
        return "" if shape is None else f"{value.dtype}{list(shape)} "

    def _argument_text(self, a: Argument) -> str:
        if isinstance(a, tuple):
            inner = ", ".join(self._argument_text(x) for x in a)
            return f"({inner},)" if len(a) == 1 else f"({inner})"
        if isinstance(a, list):
            return f"[{', '.join(self._argument_text(x) for x in a)}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{k}: {self._argument_text(v)}" for k, v in a.items()) + "}"
        if isinstance(a, Node):
            return f"%{a}"
        return str(a)

    def _pretty_print_target(self, target: object) -> str:
        if isinstance(target, str):
            return target
        if hasattr(target, "__module__") and getattr(target, "__module__", None) in (
            "builtins",
            "math",
        ):
            return f"{target.__module__}.{target.__name__}"  # type: ignore[attr-defined]
        if isinstance(target, types.BuiltinFunctionType) and target.__module__ == "_operator":
            return f"operator.{target.__name__}"
        return names.qualified_name(target)  # type: ignore[arg-type]

    # ---------------------------------------------------------------- copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # a node means something in its graph only: whoever copies the graph copies it
        found = memo.get(id(self))
        return self if found is None else found

    def _rename(self, candidate: str) -> None:
        """Take another name, made unique in the graph."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)


def all_nodes(args: Iterable[Argument]) -> list[Node]:
    """The nodes in nested arguments, each once."""
    found: dict[Node, None] = {}
    for a in args:
        _frozen(a, found)
    return list(found)

"""The modules of an unflattened program: one for each graph that the calls of a module have.

Takes: the flat graph; modules as they are finished, with the places of their calls. Gives: `settle_writes`,
`InnerModules`, which names each, `CallsInTurn`, which stands for a module whose calls differ, and `put_inside`.
Keeps true: what is written in place is read from where it is held, so that no module gives it to another; a module
that is put where others are already held keeps them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from facula import core, nn, ops
from facula.fx import Graph, GraphModule, Node
from facula.fx.node import map_arg
from facula.fx.pre_dispatch import writes

__all__ = ["CallsInTurn", "InnerModules", "own_state", "put_inside", "settle_writes"]


def own_state(module: nn.Module) -> None:
    """Give a module copies of its parameters and buffers; what has two names is copied once."""
    copies: dict[int, Any] = {}
    for each in module.modules():
        for held in (each._parameters, each._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if id(tensor) not in copies:
                    copies[id(tensor)] = _copy(tensor)
                held[name] = copies[id(tensor)]


def _copy(tensor: Any) -> Any:
    copied = tensor.detach().clone()
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(copied, requires_grad=tensor.requires_grad)
    return copied.requires_grad_(tensor.requires_grad) if tensor.is_leaf else copied


def settle_writes(graph: Graph) -> None:
    """Let each write happen where its value is computed, and each reader read what was written to.

    Args:
        graph: the flat graph, which reads state as attributes
    """
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in list(graph.nodes):
        if node.target is ops.aten.copy_.default:
            _write_early(node, order)
    for node in graph.nodes:
        itself = writes(node) or node.meta.get("gives_first_argument", 0) is node.target
        if itself and node.args and isinstance(node.args[0], Node):
            node.replace_all_uses_with(node.args[0])


def _write_early(copy: Node, order: Mapping[Node, int]) -> None:
    """Move a copy of the end to the value that it writes, where nobody reads what was there before."""
    holder, value = copy.args[0], copy.args[1]
    if not isinstance(holder, Node) or not isinstance(value, Node):
        return
    if holder.op not in ("get_attr", "placeholder") or value.op != "call_function":
        return
    if value.target is operator.getitem:
        return  # of several results, which others of them may still read
    others = [order[user] for user in holder.users if user is not copy]
    if any(at > order[value] for at in others):
        return
    value.append(copy)
    for key in ("nn_module_stack", "stack_trace"):
        if key in value.meta:
            copy.meta[key] = value.meta[key]
    value.replace_all_uses_with(holder, delete_user_cb=lambda user: user is not copy)


class CallsInTurn(nn.Module):
    """The calls of one module, whose graphs differ: each call runs the next.

    Args:
        calls: the module of each call, in their order
    """

    def __init__(self, calls: list[nn.Module]) -> None:
        super().__init__()
        self._calls = calls
        self._next = 0

    def type_name(self) -> str | None:
        """The name of the class of the module that the calls are of."""
        return self._calls[0].type_name()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the next call, with these arguments."""
        call = self._calls[self._next]
        self._next = (self._next + 1) % len(self._calls)
        return call(*args, **kwargs)

    def restart(self) -> None:
        """Begin with the first call."""
        self._next = 0


class InnerModules:
    """The modules that were made so far, by the place where they will stand."""

    def __init__(self) -> None:
        #: place -> the modules of its calls that differ
        self.made: dict[str, list[GraphModule]] = {}
        #: place -> the module of each call, of those that stand for one module of the user's
        self.turns: dict[str, list[GraphModule]] = {}

    def place(self, place: str, module: GraphModule, holds: Mapping[str, Any]) -> tuple[str, Any]:
        """The module for a call, which may be that of an earlier one, and the end of its name.

        Args:
            place: where it stands
            module: made of the call
            holds: what its graph reads
        """
        known = self.made.setdefault(place, [])
        for i, other in enumerate(known):
            if _form(other.graph) == _form(module.graph):
                held = other.meta["holds"]
                if held.keys() == holds.keys() and all(v is holds[n] for n, v in held.items()):
                    return _end(i), other
        module.meta["holds"] = dict(holds)
        known.append(module)
        return _end(len(known) - 1), module

    def in_turn(self, root: nn.Module) -> list[CallsInTurn]:
        """Put what runs calls in turn where a module has several that differ."""
        made = []
        for place, calls in self.turns.items():
            if len({id(call) for call in calls}) > 1:
                turns = CallsInTurn(list(calls))
                put_inside(root, place, turns)
                made.append(turns)
        return made


def _end(number: int) -> str:
    return f"@{number}" if number else ""


def put_inside(root: nn.Module, path: str, value: Any) -> None:
    """Put a value at a path of a module, with modules on the way; what was held there stays held."""
    *prefix, last = path.split(".")
    at: Any = root
    for part in prefix:
        if part not in at._modules:
            at.add_module(part, nn.Module())
        at = at._modules[part]
    if isinstance(value, nn.Module):
        before = at._modules.get(last)
        if before is not None and before is not value:
            _keep(value, before)
        at.add_module(last, value)
    elif isinstance(value, nn.Parameter):
        at.register_parameter(last, value)
    elif isinstance(value, core.Tensor):
        at.register_buffer(last, value)
    else:
        setattr(at, last, value)


def _keep(module: nn.Module, before: nn.Module) -> None:
    """Let a module hold what another held in its place."""
    for held, kept in (
        (module._parameters, before._parameters),
        (module._buffers, before._buffers),
    ):
        for name, tensor in kept.items():
            held.setdefault(name, tensor)
    inside: Any = module._modules
    for name, each in before._modules.items():
        own = inside.get(name)
        if own is None or each is None or own is each:
            inside.setdefault(name, each)
        elif type(own) is nn.Module:  # on the way to others
            _keep(each, own)
            inside[name] = each
        else:
            _keep(own, each)


def _form(graph: Graph) -> list[str]:
    """What a graph computes, whatever its nodes are called."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    return [
        f"{n.op} {'' if n.op == 'placeholder' else n.target} "
        f"{map_arg((n.args, n.kwargs), lambda x: _Place(order[x]))}"
        for n in graph.nodes
    ]


class _Place(int):
    """The number of a node in its graph."""

    def __repr__(self) -> str:
        return f"%{int(self)}"

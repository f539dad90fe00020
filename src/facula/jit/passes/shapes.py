"""What the tensors of a graph are, found before it runs: dtype, sizes, strides, and whether they ask for gradients.

Takes a graph whose inputs have types that say something. Gives it with such types on all values.
Keeps true: the definitions of the operators decide, run on tensors without elements; of what somebody may resize,
nothing is said but that it is a tensor; a value that two paths give is known as far as both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import function_of
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.effects import calls, has_effects, written
from facula.jit.passes.trial_sizes import UNKNOWN, Symbol, trials
from facula.jit.tensor_types import SOME, TensorType, joined, known, new_symbol, of_tensor
from facula.ops.table.schemas import types as T

__all__ = ["complete_shapes", "erase", "erase_all_but_inputs", "propagate", "with_shapes"]

#: the kinds of numbers that a graph is given
_NUMBERS = ("int", "float", "bool")
#: operators whose result has the sizes that they are given, whatever tensor they get
_SIZED = ("aten::view", "aten::reshape")
_ROUNDS = 8


def propagate(graph: Graph) -> None:
    """Say of each tensor what follows from the types of the graph's inputs."""
    _Shapes(graph, exact=True).run()


def erase(graph: Graph) -> None:
    """Say of each tensor no more than that it is one."""
    for value in _values(graph):
        if value.type.kind == "Tensor":
            value.type = SOME


def erase_all_but_inputs(graph: Graph) -> None:
    """Say no more of the tensors than what is known of the graph's inputs."""
    kept = [v.type for v in graph.parameters]
    erase(graph)
    for value, kind in zip(graph.parameters, kept, strict=True):
        value.type = kind


def complete_shapes(graph: Graph, inputs: Sequence[Any], with_grad: bool = False) -> None:
    """Say of each tensor what follows from the types of such inputs."""
    _given(graph, inputs, with_grad, whole=True)
    _Shapes(graph, exact=False).run()


def with_shapes(graph: Graph, inputs: Sequence[Any], with_grad: bool = False) -> Graph:
    """A copy of the graph whose tensors have ranks and dtypes, as they follow from those of such inputs."""
    made = graph.copy()
    _given(made, inputs, with_grad, whole=False)
    _Shapes(made, exact=False).run()
    return made


def _given(graph: Graph, inputs: Sequence[Any], with_grad: bool, whole: bool) -> None:
    """The types of inputs on those of the graph."""
    first = graph.parameters[:1]
    skipped = 1 if first and isinstance(first[0].type, T.ClassType) else 0
    targets = graph.parameters[skipped:]
    if len(targets) != len(inputs):
        fail(RuntimeError, "jit.graph", f"{len(targets)} values for the graph's inputs were required", len(inputs),
             hint="one for each, without the module")  # fmt: skip
    for target, value in zip(targets, inputs, strict=True):
        if isinstance(value, core.Tensor) and target.type.kind == "Tensor":
            kind = of_tensor(value)
            asked = False if with_grad is False and not value.requires_grad else None
            kind = TensorType(kind.element, kind.shape, kind.steps, kind.place, asked)
            target.type = kind if whole else kind.dimensionedOnly()


def _values(graph: Graph) -> list[Value]:
    found = [v for b in graph.all_blocks() for v in b.parameters]
    return found + [v for n in graph.all_nodes() for v in n.outputs_]


class _Shapes:
    """What is known of the values of one graph."""

    def __init__(self, graph: Graph, exact: bool) -> None:
        self.graph, self.exact = graph, exact
        self.aliases = Aliases(graph)
        #: memory that somebody may give another size
        self.resized = {
            p for n, places in self.aliases.writes.items() if _resizes(n) for p in places
        }
        self.values: dict[Value, Any] = {}
        self.symbols: dict[Value, Symbol] = {}

    def run(self) -> None:
        for value in self.graph.parameters:
            self.put(value, self._of_type(value))
        self.block(self.graph)

    # ---- values
    def _of_type(self, value: Value) -> Any:
        """What a type says."""
        if value.type.kind == "Tensor":
            return known(value.type)
        if value.type.kind in _NUMBERS:
            return self.symbol(value)
        return None if value.type == T.NONE else UNKNOWN

    def symbol(self, value: Value, kind: str = "") -> Symbol:
        """The symbol of a number of which nothing is known: the same one in each round of a loop."""
        made = Symbol(new_symbol(), kind or str(value.type.kind))
        return self.symbols.setdefault(value, made)

    def put(self, value: Value, thing: Any) -> None:
        """Keep what is known of a value."""
        if value.type.kind == "Tensor":
            thing = thing if isinstance(thing, TensorType) else SOME
            if self.aliases.of(value) & self.resized:
                thing = SOME
            value.type = thing
        elif thing is UNKNOWN and value.type.kind in _NUMBERS:
            thing = self.symbol(value)
        elif isinstance(thing, tuple):
            value.type = _typed(value.type, thing)
        self.values[value] = thing

    def get(self, value: Value) -> Any:
        """What is known of a value."""
        return self.values.get(value, UNKNOWN)

    # ---- nodes
    def block(self, block: Block) -> None:
        for node in block.nodes_:
            if node.kind_ == "prim::If":
                self._if(node)
            elif node.kind_ == "prim::Loop":
                self._loop(node)
            else:
                self._node(node)

    def _node(self, node: Node) -> None:
        for inner in node.blocks_:
            self.block(inner)
        made = self._results(node)
        if len(node.outputs_) == 1:
            self.put(node.outputs_[0], made)
            return
        several = isinstance(made, (list, tuple)) and len(made) == len(node.outputs_)
        for i, out in enumerate(node.outputs_):
            self.put(out, made[i] if several else UNKNOWN)

    def _results(self, node: Node) -> Any:
        """What is known of what a node gives."""
        kind, given = node.kind_, [self.get(v) for v in node.inputs_]
        if kind == "prim::Constant":
            value = node.attributes.get("value")
            return of_tensor(value) if isinstance(value, core.Tensor) else value
        if kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            written_to = self.aliases.has_writers(node.outputs_[0])
            listed = kind == "prim::ListConstruct"
            return UNKNOWN if listed and written_to else given if listed else tuple(given)
        if kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            return given[0]
        if kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional"):
            return given[0]
        if kind in calls or has_effects(node) or node.blocks_:
            return UNKNOWN
        return self._of_operator(node, given)

    def _of_operator(self, node: Node, given: list[Any]) -> Any:
        tensors = [g for g in _flat(given) if isinstance(g, TensorType)]
        if node.kind_ in _SIZED and given[0] is not UNKNOWN and isinstance(given[1], list):
            if known(given[0]).shape is None and UNKNOWN not in given[1]:
                return self._said(tensors, _listed_sizes(given[1]))
        if _stays(node) and isinstance(given[0], TensorType) and given[0].shape is not None:
            return given[0]
        function = function_of(node)
        if function is None:
            return UNKNOWN
        if any(g is UNKNOWN for g in _flat(given)) or any(t.shape is None for t in tensors):
            return self._one_number(node)
        names = [p.name for p in node.signature.parameters] if node.signature is not None else []
        asked = dict(zip(names, given, strict=False)).get("device", UNKNOWN)
        values = [
            core.device("meta") if n == "device" else g for n, g in zip(names, given, strict=False)
        ]
        made = trials(function, values if names else given, self.exact)
        return self._finished(made, tensors, asked)

    def _one_number(self, node: Node) -> Any:
        """A size of a tensor of which nothing is known is a number."""
        if node.kind_ == "aten::size" and len(node.inputs_) == 2:
            return self.symbol(node.outputs_[0], "size")
        return UNKNOWN

    def _finished(self, made: Any, tensors: list[TensorType], device: object) -> Any:
        """The types of results, with what follows from the tensors alone."""
        if isinstance(made, (list, tuple)) and not isinstance(made, Symbol):
            return type(made)(self._finished(m, tensors, device) for m in made)
        if not isinstance(made, TensorType):
            return made
        dtype = made.element if all(t.element is not None for t in tensors) else None
        place = _device(tensors) if device in (UNKNOWN, None) else device
        if not tensors and place is None:
            place = core.device("cpu")
        gradient = False if tensors and all(t.wants_gradient is False for t in tensors) else None
        found = TensorType(dtype, made.shape, made.steps, place, gradient)
        whole = self.exact or any(t.is_complete() for t in tensors)
        return found if whole else found.dimensionedOnly()

    def _said(self, tensors: list[TensorType], sizes: list[Any]) -> TensorType:
        """A tensor of sizes that the program says."""
        return self._finished(TensorType(tensors[0].element, sizes), tensors, None)

    # ---- control
    def _if(self, node: Node) -> None:
        for inner in node.blocks_:
            self.block(inner)
        yes, no = (b.results for b in node.blocks_)
        for out, a, b in zip(node.outputs_, yes, no, strict=True):
            self.put(out, self._either(out, self.get(a), self.get(b)))

    def _loop(self, node: Node) -> None:
        body = node.blocks_[0]
        self.put(body.parameters[0], UNKNOWN)
        carried = [self.get(v) for v in node.inputs_[2:]]
        targets = body.parameters[1:]
        for _ in range(_ROUNDS):
            for target, thing in zip(targets, carried, strict=True):
                self.put(target, thing)
            self.block(body)
            last = [self.get(v) for v in body.results[1:]]
            triples = zip(targets, carried, last, strict=True)
            after = [self._either(t, a, b) for t, a, b in triples]
            if after == carried:
                break
            carried = after
        else:  # it changes in each round
            carried = [UNKNOWN for _ in carried]
            for target in targets:
                self.put(target, UNKNOWN)
            self.block(body)
        for out, thing in zip(node.outputs_, carried, strict=True):
            self.put(out, thing)

    def _either(self, value: Value, a: object, b: object) -> Any:
        """What is known of a value that is one of two."""
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            found = joined(a, b)
            if self.exact and found.shape is not None:
                sizes = [new_symbol() if n is None else n for n in found.shape]
                return TensorType(found.element, sizes, *found.facts()[2:])
            return found
        if a is UNKNOWN or b is UNKNOWN or type(a) is not type(b):
            return UNKNOWN
        if isinstance(a, (list, tuple)):
            return a if a == b else UNKNOWN
        return a if a == b else UNKNOWN


def _typed(kind: T.Type, thing: object) -> T.Type:
    """The type of a tuple, with what is known of the tensors in it."""
    if isinstance(thing, TensorType) and kind.kind == "Tensor":
        return thing
    plain = kind.kind == "Tuple" and not isinstance(kind, T.NamedTupleType)
    if plain and isinstance(thing, tuple) and len(thing) == len(kind.inner):
        return T.tuple_of([_typed(k, t) for k, t in zip(kind.inner, thing, strict=True)])
    return kind


def _flat(things: Sequence[Any]) -> list[Any]:
    """The values in lists and tuples of values."""
    found: list[Any] = []
    for each in things:
        is_several = isinstance(each, (list, tuple)) and not isinstance(each, Symbol)
        found.extend(_flat(each) if is_several else [each])
    return found


def _listed_sizes(sizes: list[Any]) -> list[Any]:
    """The sizes that a program says, of which one may follow from the others."""
    names = [n.name if isinstance(n, Symbol) else n for n in sizes]
    return [new_symbol() if n == -1 else n for n in names]


def _resizes(node: Node) -> bool:
    """Whether a node may give a tensor another size."""
    if node.kind_ in calls or node.signature is None:
        return False
    if any(p.name == "out" and v.type != T.NONE
           for p, v in zip(node.signature.parameters, node.inputs_, strict=True)):  # fmt: skip
        return True
    return bool(written(node)) and node.outputs_ != [] and not _stays(node) and (
        node.inputs_[0].type.kind == "Tensor" and _kind(node) != "pointwise"
    ) and _changes_sizes(node)  # fmt: skip


def _changes_sizes(node: Node) -> bool:
    return _kind(node) == "view" or node.kind_.startswith(("aten::resize", "aten::set_"))


def _kind(node: Node) -> str:
    source = getattr(node.signature, "source", None)
    return str(getattr(getattr(source, "definition", None), "kind", ""))


def _stays(node: Node) -> bool:
    """Whether a node writes to a tensor and gives it, with the sizes that it has."""
    writes = node.signature is not None and written(node) == [0] and len(node.outputs_) == 1
    if not writes or node.outputs_[0].type.kind != "Tensor":
        return False
    return not _changes_sizes(node)


def _device(tensors: list[TensorType]) -> Any:
    """The device of what is computed from tensors: a number on the CPU goes to that of the others."""
    if any(t.place is None for t in tensors):
        return None
    places = {str(t.place) for t in tensors}
    if len(places) > 1:
        others = [t for t in tensors if t.place.type != "cpu" or t.dim() != 0]
        places = {str(t.place) for t in others}
        tensors = others
    return tensors[0].place if len(places) == 1 else None

"""Operators that take functions, in captured programs: `cond`, `while_loop`, `scan`, `map`, `associative_scan`.

Takes: the interpreter (`d`), and the arguments of a call. Gives: the call as one node, whose functions are
graphs that the captured
graph holds.
Keeps true: what the functions read from outside is among the node's operands; a function changes nothing of
the program,
and gives no memory that it was given; where a function can not be captured so, that is PyTorch's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.exports import is_exporting
from facula.capture.guards import reads
from facula.capture.interpreter.inner_graphs import InnerFunction, build, given_of, symbolic_of
from facula.capture.values.kinds import Known, NumberValue, SequenceValue, TensorValue
from facula.fx import Graph, GraphModule, higher_order
from facula.fx import _pytree as pytree
from facula.fx.higher_order.capturing import with_inputs
from facula.fx.higher_order.errors import refuse
from facula.fx.higher_order.merging import merged
from facula.fx.higher_order.operator import fresh

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


__all__ = ["put", "subgraph"]

Tensor = core.Tensor


def subgraph(
    d: Symbolic, function: Any, args: list[Any], may_be_none: bool = False
) -> tuple[GraphModule, list[Any], Any]:
    """A function captured as a graph of its own: (graph, what it reads from outside, its result).

    The graph takes `args` (tensors) first, then the values that it reads from outside.
    """
    outer = (d.graph, d.last_placeholder, d.inputs, d.operator_count)
    effects, writes = dict(d.effects), dict(d.attribute_writes)
    d.graph, d.last_placeholder, d.inputs = Graph(), None, []
    inner_args = []
    for n, arg in enumerate(args):
        arg = d.force(arg)
        node = d.graph.placeholder(f"operand_{n}")
        node.meta["val"] = arg.fake
        d.last_placeholder = node
        inner_args.append(TensorValue(arg.fake, node))
    d.enclosing.append(([], []))
    try:
        result = d.call(function, inner_args, {})
        lifted = d.enclosing[-1][0]
        if len(d.effects) != len(effects) or len(d.attribute_writes) != len(writes):
            raise Break(
                "unsupported-mutation", "a function that may not be chosen has side effects"
            )
        parts = [] if may_be_none and d.is_none(result) else _tensors(d, result)
        d.graph.output(tuple(d.argument(part)[0] for part in parts))
        return GraphModule({}, d.graph), lifted, result
    finally:
        d.enclosing.pop()
        d.graph, d.last_placeholder, d.inputs, d.operator_count = outer


def _tensors(d: Symbolic, result: object) -> list[Any]:
    result = d.force(result)
    if isinstance(result, TensorValue):
        return [result]
    if isinstance(result, SequenceValue):
        return [part for item in result.items for part in _tensors(d, item)]
    raise Break("no-graph-argument", "a function that gives something other than tensors")


class _Recorded(Break):
    """A loop whose rounds the tape has to see: it is left to Python, with what calls it."""


class _Function:
    """A function of a call, captured as a graph."""

    def __init__(self, d: Symbolic, name: str, function: Any, args: Sequence[Any]) -> None:
        self.d, self.name = d, name
        self.inner = InnerFunction(d, d.force(function))
        before = len(d.effects), len(d.attribute_writes)
        given = [x for x in pytree.tree_leaves(args) if isinstance(x, Tensor)]
        versions = _versions(given)
        try:
            self.result = self.inner(*args)
        except _Recorded:
            raise
        except Break as reason:
            _uncaptured(name, reason)
        if before != (len(d.effects), len(d.attribute_writes)):
            _uncaptured(name, "a function with side effects")
        self.leaves, self.spec = pytree.tree_flatten(self.result)
        owned = [*given, *[v.fake for v in self.inner.lifted if isinstance(v, TensorValue)]]
        if versions != _versions(given):
            _uncaptured(name, "a function that writes to its inputs")
        _check_memory(name, owned, self.leaves)

    @property
    def tensors(self) -> list[Any]:
        """The tensors that it gives."""
        return [x for x in self.leaves if isinstance(x, Tensor)]

    def module(self, lifted: Sequence[Any], single: bool = False) -> GraphModule:
        """The graph, with an input for each value that the functions of the call read."""
        module: Any = self.inner.module
        graph = module.graph
        own = [n for n in graph.nodes if n.op == "placeholder"]
        count = len(own) - len(self.inner.lifted)
        known = {id(v): n for v, n in zip(self.inner.lifted, own[count:], strict=True)}
        inputs = [*own[:count], *[known.get(id(v), v.fake) for v in lifted]]
        given = graph.output_node().args[0]
        return GraphModule(module, with_inputs(graph, inputs, given[0] if single else tuple(given)))


def _versions(tensors: Sequence[Any]) -> list[int]:
    return [0 if x.is_inference() else x._version for x in tensors]


def _check_memory(name: str, owned: Sequence[Any], results: Sequence[Any]) -> None:
    keys = {core.storage_key(x) for x in owned if x.numel()}
    for x in results:
        if isinstance(x, Tensor) and x.numel():
            if core.storage_key(x) in keys:
                _uncaptured(
                    name, "a function that gives memory that it was given; return x.clone()"
                )
            keys.add(core.storage_key(x))


def _uncaptured(name: str, reason: Any) -> None:
    refuse(
        name,
        "functions that can be graphs were required (can't be captured as a graph: it must have no side effects, "
        "breaks, or results that are views of inputs)",
        reason,
        "compute in the functions only, and return tensors of their own",
    )


def _lifted(functions: Sequence[_Function]) -> list[Any]:
    """The values from outside: those that all functions read first."""
    found = {id(v): v for f in functions for v in f.inner.lifted}
    shared = [k for k in found if all(any(id(v) == k for v in f.inner.lifted) for f in functions)]
    return [found[k] for k in (*shared, *[k for k in found if k not in shared])]


def _nodes(d: Symbolic, values: Sequence[Any]) -> list[Any]:
    return [d.argument(value)[0] for value in values]


def _merged(d: Symbolic, first: Sequence[Any], second: Sequence[Any]) -> tuple[list[Any], bool]:
    """What stands for the results of either function, and whether one has a size that the choice decides."""
    mode = d.fakes.mode
    mode.counted = False
    count = reads.FIRST if d.whole and not d.enclosing else None
    found = [d.fakes.run(merged, [a, b], {}, count) for a, b in zip(first, second, strict=True)]
    return found, mode.counted


def _call(
    d: Any, op: Any, args: tuple[Any, ...], values: Sequence[Any], count: int | None = None
) -> list[Any]:
    """The node of a call, and the symbolic values of its results; `count` stands for sizes that elements decide."""
    fakes = tuple(values)
    node = d._new_node("call_function", op, args, {}, fakes)
    if count is not None:
        node.meta["count"] = count
        d.fakes.counted = d.any_dynamic = True
    d.operator_count += 1
    return [d.part_of(node, n, v) for n, v in enumerate(fakes)]


def _symbolic(d: Any, function: _Function, parts: Sequence[Any]) -> Any:
    return symbolic_of(d, function.inner.template, parts)


def _tensor_operands(d: Symbolic, name: str, leaves: Sequence[Any]) -> None:
    if not all(isinstance(value, TensorValue) for value in leaves):
        raise Break("no-graph-argument", f"operands of {name} that are no tensors")


def _words(names: str, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(names.split(), args, strict=False), **kwargs)


def capture_cond(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The rule of `cond`."""
    words = _words("pred true_fn false_fn operands", args, kwargs)
    pred = d.force(words["pred"])
    operands = [d.force(v) for v in d.unpack_all(words.get("operands", Known(())))]
    if isinstance(pred, Known) or (isinstance(pred, NumberValue) and not is_exporting()):
        return d.call(words["true_fn"] if d.truth(pred) else words["false_fn"], operands, {})
    given, leaves, _ = given_of(d, tuple(operands))
    _tensor_operands(d, "cond", leaves)
    _check_memory("cond", [], list({id(v): v.fake for v in leaves}.values()))
    first = _Function(d, "cond", words["true_fn"], given)
    second = _Function(d, "cond", words["false_fn"], given)
    if first.spec != second.spec or len(first.tensors) != len(second.tensors):
        _uncaptured("cond", f"results of other structures: {first.spec} and {second.spec}")
    _same_constants(first, second)
    results, counted = _merged(d, first.tensors, second.tensors)
    more = _lifted([first, second])
    graphs = [
        d.attach(_laid_out(f.module(more), f.tensors, results), f"cond_{name}")
        for f, name in ((first, "true"), (second, "false"))
    ]
    nodes = tuple(_nodes(d, [*leaves, *more]))
    count = reads.FIRST if counted else None
    parts = _call(d, higher_order.cond_op, (d.argument(pred)[0], *graphs, nodes), results, count)
    return _symbolic(d, first, parts)


def _same_constants(first: _Function, second: _Function) -> None:
    for a, b in zip(first.leaves, second.leaves, strict=True):
        if not isinstance(a, Tensor) and a is not b and a != b:
            raise Break("no-graph-argument", f"functions of cond that give {a!r} or {b!r}")


def _laid_out(module: GraphModule, given: Sequence[Any], wanted: Sequence[Any]) -> GraphModule:
    """The graph, its results lying as what stands for those of both functions."""
    output = module.graph.output_node()
    results = list(output.args[0])
    for n, (a, b) in enumerate(zip(given, wanted, strict=True)):
        if tuple(a.stride()) != tuple(b.stride()):
            with module.graph.inserting_before(output):
                results[n] = module.graph.call_method("contiguous", (results[n],))
    output.args = (tuple(results),)
    module.recompile()
    return module


def capture_while(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The rule of `while_loop`."""
    words = _words("cond_fn body_fn carried_inputs additional_inputs", args, kwargs)
    carried = d.unpack_all(words["carried_inputs"])
    more_given = d.unpack_all(words.get("additional_inputs", Known(())))
    state, leaves, template = given_of(d, tuple(carried))
    others, more_leaves, _ = given_of(d, tuple(more_given))
    if len(pytree.tree_leaves(state)) != len(leaves):
        raise Break("no-graph-argument", "numbers in the state of while_loop")
    _tensor_operands(d, "while_loop", [*leaves, *more_leaves])
    condition = _Function(d, "while_loop", words["cond_fn"], (*state, *others))
    body = _Function(d, "while_loop", words["body_fn"], (*state, *others))
    made = body.result if isinstance(body.result, tuple) else tuple(body.result)
    if pytree.tree_structure(made) != pytree.tree_structure(state) or len(condition.tensors) != 1:
        _uncaptured("while_loop", f"a state of another structure: {body.spec}")
    fakes = [leaf.fake for leaf in leaves]
    _same_metas("while_loop", fakes, body.tensors)
    more = _lifted([condition, body])
    read = [*fakes, *[v.fake for v in (*more_leaves, *more) if isinstance(v, TensorValue)]]
    if core.is_grad_enabled() and any(x.requires_grad for x in read):
        raise _Recorded(
            "no-graph-argument", "while_loop with gradients, which need its rounds one by one"
        )
    results = [fresh(x) for x in fakes]
    graphs = [
        d.attach(condition.module(more, single=True), "cond_fn"),
        d.attach(_laid_out(body.module(more), body.tensors, results), "body_fn"),
    ]
    rest = tuple(_nodes(d, [*more_leaves, *more]))
    node_args = (*graphs, tuple(_nodes(d, leaves)), rest)
    return symbolic_of(d, template, _call(d, higher_order.while_loop_op, node_args, results))


def _same_metas(name: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    for a, b in zip(before, after, strict=True):
        if tuple(a.shape) != tuple(b.shape) or a.dtype is not b.dtype:
            _uncaptured(name, f"{b.dtype}{list(b.shape)} in the place of {a.dtype}{list(a.shape)}")


def _cut(d: Symbolic, leaves: Sequence[Any], dim: int, reverse: bool) -> list[Any]:
    """Tensors with a dimension in front, where asked in the other order."""
    found = []
    for leaf in leaves:
        if dim:
            leaf = d.graph_method("movedim", leaf, [Known(dim), Known(0)], {})
        found.append(d.graph_method("flip", leaf, [Known(0)], {}) if reverse else leaf)
    return found


def _back(d: Symbolic, leaves: Sequence[Any], dim: int, reverse: bool) -> list[Any]:
    found = []
    for leaf in leaves:
        if reverse and isinstance(leaf, TensorValue):
            leaf = d.graph_method("flip", leaf, [Known(0)], {})
        if dim and isinstance(leaf, TensorValue):
            leaf = d.graph_method("movedim", leaf, [Known(0), Known(dim)], {})
        found.append(leaf)
    return found


def _rows(d: Symbolic, leaves: Sequence[Any]) -> list[Any]:
    """A stand-in for one row of each tensor."""
    return [d.fakes.run(lambda x: x.select(0, 0).clone(), [v.fake.detach()], {}) for v in leaves]


def _direction(d: Symbolic, words: dict[str, Any], leaves: Sequence[Any]) -> tuple[int, bool]:
    dim = d.constant_of(words["dim"]) if "dim" in words else 0
    reverse = d.constant_of(words["reverse"]) if "reverse" in words else False
    if type(dim) is not int or type(reverse) is not bool:
        raise Break("no-graph-argument", "a dimension that is no int")
    return (dim + leaves[0].fake.dim() if dim < 0 else dim), reverse


def _lengths(leaves: Sequence[Any], dim: int) -> None:
    sizes = {v.fake.shape[dim] for v in leaves if v.fake.dim() > dim}
    if len(sizes) != 1 or 0 in sizes or any(v.fake.dim() <= dim for v in leaves):
        raise Break("no-graph-argument", "tensors of several lengths, or of none")


def capture_scan(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The rule of `scan`."""
    words = _words("combine_fn init xs", args, kwargs)
    init, first, template = given_of(d, words["init"])
    xs, leaves, rows_of = given_of(d, words["xs"])
    if not leaves or not first:
        raise Break("no-graph-argument", "scan without a state, or without rows")
    _tensor_operands(d, "scan", [*first, *leaves])
    dim, reverse = _direction(d, words, leaves)
    _lengths(leaves, dim)
    cut = _cut(d, leaves, dim, reverse)
    function = _Function(d, "scan", words["combine_fn"], (init, build(rows_of, _rows(d, cut))))
    result = function.result
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        _uncaptured("scan", "a function that gives no pair of state and result")
    if pytree.tree_structure(result[0]) != pytree.tree_structure(init):
        _uncaptured("scan", "a state of another structure")
    _only_tensors("scan", function)
    fakes = [v.fake for v in first]
    made = function.tensors
    _same_metas("scan", fakes, made[: len(first)])
    count = cut[0].fake.shape[0]
    results = [
        *map(fresh, made[: len(first)]),
        *[fresh(y, (count, *y.shape)) for y in made[len(first) :]],
    ]
    more = _lifted([function])
    graph = d.attach(function.module(more), "scan_combine_fn")
    node_args = (graph, _nodes(d, first), _nodes(d, cut), _nodes(d, more))
    parts = _call(d, higher_order.scan_op, node_args, results)
    ys = _back(d, parts[len(first) :], 0, reverse)
    return _symbolic(d, function, [*parts[: len(first)], *ys])


def _only_tensors(name: str, function: _Function) -> None:
    if any(not isinstance(x, Tensor) for x in function.leaves):
        _uncaptured(name, [type(x).__name__ for x in function.leaves])


def capture_map(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The rule of `map`."""
    words = _words("f xs", args, kwargs)
    _, leaves, rows_of = given_of(d, words["xs"])
    others, rest, _ = given_of(d, tuple(args[2:]))
    if not leaves or len(pytree.tree_leaves(others)) != len(rest):
        raise Break("no-graph-argument", "map without rows, or with other arguments than tensors")
    _tensor_operands(d, "map", [*leaves, *rest])
    _lengths(leaves, 0)
    function = _Function(d, "map_impl", words["f"], (build(rows_of, _rows(d, leaves)), *others))
    if any(not isinstance(x, Tensor) and x is not None for x in function.leaves):
        _uncaptured("map_impl", [type(x).__name__ for x in function.leaves])
    count = leaves[0].fake.shape[0]
    results = [fresh(y, (count, *y.shape)) for y in function.tensors]
    more = _lifted([function])
    graph = d.attach(function.module(more), "map_body")
    node_args = (graph, _nodes(d, leaves), _nodes(d, [*rest, *more]))
    return _symbolic(d, function, _call(d, higher_order.map_impl, node_args, results))


def capture_associative_scan(d: Symbolic, args: list, kwargs: dict) -> Any:
    """The rule of `associative_scan`."""
    words = _words("combine_fn xs dim reverse combine_mode", args, kwargs)
    xs, leaves, template = given_of(d, words["xs"])
    if not leaves or len(pytree.tree_leaves(xs)) != len(leaves):
        raise Break("no-graph-argument", "associative_scan without tensors")
    _tensor_operands(d, "associative_scan", leaves)
    dim, reverse = _direction(d, words, leaves)
    _lengths(leaves, dim)
    cut = _cut(d, leaves, dim, reverse)
    rows = [build(template, _rows(d, cut)) for _ in range(2)]
    function = _Function(d, "associative_scan", words["combine_fn"], rows)
    if function.spec != pytree.tree_structure(xs):
        _uncaptured("associative_scan", "a result of another structure than the rows")
    _only_tensors("associative_scan", function)
    _same_metas("associative_scan", [v.fake.select(0, 0) for v in cut], function.tensors)
    results = [fresh(v.fake, tuple(v.fake.shape)) for v in cut]
    results = [d.fakes.run(lambda x: x.new_empty(tuple(x.shape)), [x], {}) for x in results]
    more = _lifted([function])
    graph = d.attach(function.module(more), "associative_scan_combine_fn")
    node_args = (graph, _nodes(d, cut), _nodes(d, more))
    parts = _call(d, higher_order.associative_scan_op, node_args, results)
    return symbolic_of(d, template, _back(d, parts, dim, reverse))


def put(rules: dict) -> None:
    """Fill in the rules."""
    rules[higher_order.cond] = rules[higher_order.cond_op] = capture_cond
    rules[higher_order.while_loop] = rules[higher_order.while_loop_op] = capture_while
    rules[higher_order.scan] = capture_scan
    rules[higher_order.map] = capture_map
    rules[higher_order.associative_scan] = capture_associative_scan

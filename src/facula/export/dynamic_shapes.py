"""Which sizes of a program's inputs may change, and whether the program allows it.

Takes: `dynamic_shapes` as users write them, and inputs. Gives: `Dim`, `dims`, `ShapesCollection`, fake
inputs whose sizes are symbols, and the ranges of these.
Keeps true: a size that was called a `Dim` is served over its whole range, or export fails and says
what to write instead; sizes that were left to us (`Dim.AUTO`) are fixed where the program needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from facula import core
from facula.capture.errors import UserError
from facula.core.errors import fail
from facula.export.dims import Dim, DimHint, dims
from facula.export.ranges import (
    UNBOUNDED,
    UnfitExample,
    ValueRanges,
    Violations,
    always,
    bounds_through,
    is_linear,
    multiple_of,
    read_at,
    solved,
    spelled,
)
from facula.export.refined_shapes import refine_dynamic_shapes_from_suggested_fixes
from facula.fx import _pytree as pytree
from facula.fx.shape_env import ShapeEnv, ShapeGuard
from facula.fx.symbolic_run import geometry_of
from facula.fx.symbols import Expr, number, symbol

__all__ = [
    "Dim", "DimHint", "Resolved", "ShapesCollection", "ValueRanges", "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]  # fmt: skip

Tensor = core.Tensor


class ShapesCollection:
    """``dynamic_shapes`` written tensor by tensor.

    Example:
        >>> x = facula.ones(3, 2)
        >>> shapes = facula.export.ShapesCollection()
        >>> shapes[x] = {0: facula.export.Dim("batch")}
        >>> program = facula.export.export(facula.nn.Linear(2, 1), (x,), dynamic_shapes=shapes)
        >>> program.module()(facula.ones(5, 2)).shape
        facula.Size([5, 1])
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, tensor: core.Tensor, shape: Any) -> None:
        known = self._shapes.get(id(tensor))
        if known is not None and known[1] != shape:
            fail(
                AssertionError,
                "ShapesCollection",
                "one shape for a tensor was required (Shapes assigned to input are different)",
                f"{known[1]} and {shape}",
                hint="assign one shape to every tensor",
            )
        self._shapes[id(tensor)] = (tensor, shape)

    def __getitem__(self, tensor: Any) -> Any:
        known = self._shapes.get(id(tensor))
        if known is None:
            self._shapes[id(tensor)] = known = (tensor, {})
        return known[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: object, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The shapes, nested as the arguments are."""
        seen: set[int] = set()

        def shape_of(x: object) -> Any:
            seen.add(id(x))
            known = self._shapes.get(id(x))
            return None if known is None else known[1]

        found = pytree.tree_map(shape_of, arguments_by_name(m, args, kwargs or {}))
        if len(seen & self._shapes.keys()) != len(self._shapes):
            fail(
                ValueError,
                "ShapesCollection",
                "shapes of tensors among the inputs were required (Some assigned shapes were not "
                "found in args)",
                f"{len(self._shapes)} shapes",
                hint="assign shapes to the tensors themselves that are passed in args and kwargs",
            )
        return found


def enlarged(
    model: object, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: object
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Arguments in which no size that may change is 1, which a trace would take for the rule.

    Elements are repeated: what a trace notes does not depend on them.
    """
    resolved = Resolved(ShapeEnv(duck_shape=False))
    resolved.read(model, args, kwargs, shapes)
    collection, changed = ShapesCollection(), False

    def larger(x: core.Tensor) -> Any:
        nonlocal changed
        shape, _ = resolved.shapes.get(id(x), (None, ""))
        if not isinstance(x, Tensor) or shape is None:
            return x
        entries = shape if isinstance(shape, dict) else dict(enumerate(shape))
        made = x
        for dim, what in entries.items():
            there = isinstance(dim, int) and -x.dim() <= dim < x.dim()
            free = there and isinstance(what, Dim) and what.root is what
            if free and x.shape[dim] == 1 and what.min <= 2 <= what.max:
                made, changed = made.repeat_interleave(2, dim), True
        collection[made] = {d: what for d, what in entries.items() if what is not None}
        return made

    found = pytree.tree_map(larger, (args, kwargs))
    if not changed:
        return args, kwargs, shapes
    return (*found, collection if isinstance(shapes, ShapesCollection) else shapes)


def arguments_by_name(m: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the parameter that takes them, `*args` as a tuple, `**kwargs` as a dictionary."""
    function = m.forward if hasattr(m, "forward") else m
    bound = inspect.signature(function).bind(*args, **kwargs)
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def _is_shape(x: object) -> bool:
    """Whether this is the shape of one tensor."""
    if x is None:
        return True
    if isinstance(x, dict):
        return all(type(k) is int for k in x)
    return isinstance(x, (tuple, list)) and all(
        v is None or isinstance(v, (int, Dim, DimHint)) for v in x
    )


def _mismatch(path: str, required: str, got: object) -> Any:
    return fail(
        UserError,
        "export",
        f"dynamic_shapes of the same structure as the inputs were required (Detected mismatch "
        f"between the structure of `inputs` and `dynamic_shapes`): {required} for {path}",
        repr(got),
        hint="None stands for a static input, or for one without tensors",
    )


class IntInput:
    """An int among the inputs, told from others of the same value."""

    def __init__(self, value: int) -> None:
        self.value = value


def ints_marked(tree: object) -> Any:
    """Nested inputs, each int in them an `IntInput`."""
    return pytree.tree_map(lambda x: IntInput(x) if type(x) is int else x, tree)


def _walk(value: Any, shape: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Leaves of the inputs with their shapes."""
    if isinstance(value, Tensor):
        if not _is_shape(shape):
            _mismatch(path, "a shape", shape)
        yield value, shape, path
        return
    is_int = isinstance(value, IntInput) or type(value) is int
    if is_int and isinstance(shape, (int, Dim, DimHint)):
        yield value, shape, path
        return
    leaves, spec = pytree.tree_flatten(value)
    if spec.is_leaf() or shape is None:
        if shape is not None and shape is not Dim.AUTO:
            _mismatch(path, "None", shape)
        for leaf in leaves:
            yield leaf, None, path
        return
    if type(shape) is type(value) and not isinstance(value, (dict, list, tuple)):
        shape = _children(shape)  # a container that programs registered, with shapes in it
    entries = value.items() if isinstance(value, dict) else enumerate(_children(value))
    for key, child in entries:
        try:
            inner = shape[key]
        except (KeyError, IndexError, TypeError):
            _mismatch(f"{path}[{key!r}]", "an entry", shape)
        yield from _walk(child, inner, f"{path}[{key!r}]")
    if len(shape) != len(list(_children(value))):
        _mismatch(path, f"{len(list(_children(value)))} entries", shape)


def _children(value: Sequence[core.Tensor]) -> Any:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return value
    return pytree.tree_leaves(value, is_leaf=lambda x: x is not value)


def _by_dim(shape: dict[Any, Any] | None, t: core.Tensor, path: str) -> dict[int, Any]:
    """A tensor's shape as a dictionary."""
    if shape is None:
        return {}
    if isinstance(shape, dict):
        for dim in shape:
            if not -t.dim() <= dim < t.dim():
                _mismatch(path, f"dimensions below {t.dim()}", shape)
        return {dim % t.dim(): what for dim, what in shape.items()}
    if len(shape) != t.dim():
        _mismatch(path, f"{t.dim()} sizes", shape)
    return dict(enumerate(shape))


class Resolved:
    """The inputs of an export with their symbols, and afterwards what was found of these."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        #: id of a tensor -> the shape that was written for it
        self.shapes: dict[int, tuple[Any, str]] = {}
        #: id of an `IntInput` -> what was written for it, and where
        self.ints: dict[int, tuple[Any, str]] = {}
        #: name of a Dim -> it, and its symbol
        self.named: dict[str, tuple[Dim, str]] = {}
        #: symbol -> what was written for it, and where
        self.written: dict[str, tuple[Any, str]] = {}
        #: what was found that contradicts what was written
        self.broken = Violations()
        self._hints: list[str] = []

    def read(self, m: object, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> None:
        """Read `dynamic_shapes` for these arguments."""
        if isinstance(shapes, ShapesCollection):
            shapes = shapes.dynamic_shapes(m, args, kwargs)
        if shapes is None or not (args or kwargs):
            return
        named = arguments_by_name(m, args, kwargs)
        if isinstance(shapes, dict):
            if list(named) != list(shapes) and set(named) != set(shapes):
                fail(
                    UserError,
                    "export",
                    "dynamic_shapes with the names of the arguments was required (When "
                    "`dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
                    f"names {list(named)} of `inputs`)",
                    list(shapes),
                    hint="name every argument; None stands for static shapes",
                )
            pairs = [(named[k], shapes[k], f"inputs[{k!r}]") for k in named]
        else:
            if len(shapes) != len(named):
                _mismatch("inputs", f"{len(named)} entries", shapes)
            pairs = [
                (value, shape, f"inputs[{name!r}]")
                for (name, value), shape in zip(named.items(), shapes, strict=True)
            ]
        for value, shape, path in pairs:
            for leaf, found, where in _walk(value, shape, path):
                if isinstance(leaf, Tensor):
                    self.shapes[id(leaf)] = (found, where)
                elif isinstance(leaf, IntInput) and found is not None:
                    self.ints[id(leaf)] = (found, where)

    def check(self) -> None:
        """Raise for what the example inputs themselves contradict."""
        self.broken.raise_any(UnfitExample)
        _refuse_hints(self._hints)

    def give_symbols(self, real: core.Tensor, fake: core.Tensor) -> None:
        """Make the sizes of a fake input symbols, as was written for the real one."""
        shape, path = self.shapes.get(id(real), (None, ""))
        chosen = _by_dim(shape, real, path)
        sizes = [
            self._size(size, chosen.get(dim), f"{path}.shape[{dim}]")
            for dim, size in enumerate(Tensor.size(real))
        ]
        if any(e.constant is None for e in sizes):
            fake._symbolic = geometry_of(fake, sizes, self.env)

    def number_of(self, leaf: IntInput) -> Any:
        """What an int is traced with: itself, or a number that may be another in each call."""
        what, where = self.ints.get(id(leaf), (None, ""))
        if isinstance(what, DimHint) and what.kind != "STATIC":
            made = self.env.create_number(leaf.value, where)
            self.written[str(made)] = (what, where)
            return self.env.number_of(made)
        return self.env.number_of(self._size(leaf.value, what, where))

    def _size(self, size: int, what: Dim | None, where: str) -> Expr:
        if isinstance(what, Dim):
            return self._named(size, what, where)
        if isinstance(what, int) and not isinstance(what, bool):
            if what != size:
                self.broken.add(
                    where, f"the size of {where} is {size}, not {what}", f"{where} = {size}"
                )
            return number(size)
        if what is None:
            return number(size)
        if not isinstance(what, DimHint):
            fail(
                UserError,
                "export",
                "None, an int, a Dim, Dim.AUTO, Dim.STATIC or Dim.DYNAMIC was required for a size (Unexpected "
                f"dimension specified at {where})",
                repr(what),
                hint="{0: Dim('batch')} lets the first size change",
            )
        low, high = _bounds_of(what).lower, _bounds_of(what).upper
        if what.kind == "STATIC":
            if not low <= size <= high:
                self._hints.append(
                    f"Received user-specified min/max range of [{what.min}, {what.max}], conflicting "
                    f"with the inferred min/max range of [{size}, {size}], for {where}."
                )
            return number(size)
        if size in (0, 1):
            if what.kind == "DYNAMIC":
                self._hints.append(
                    f"Received user-specified dim hint Dim.DYNAMIC[{what.min}, {what.max}], but "
                    f"export 0/1 specialized due to hint of {size} for dimension {where}."
                )
            return number(size)
        return self._symbol(size, what, where)

    def _symbol(self, size: int, what: Dim, where: str) -> Expr:
        made = self.env.create_symbol(size, where, called=read_at(where))
        self.written[str(made)] = (what, where)
        return made

    def _named(self, size: int, dim: Dim, where: str) -> Expr:
        root = dim.root
        value, rest = divmod(size - dim.offset, dim.factor)
        if rest:
            self.broken.add(
                root.__name__,
                f"Expected shape{where.removeprefix('inputs')} = {size} of input Tensor to be of the "
                f"form {dim.__name__}, where {root.__name__} is an integer",
            )
            return number(size)
        if not root.min <= value <= root.max or not dim.min <= size <= dim.max:
            self.broken.add(root.__name__, f"{size} not in range {dim!r} for {where}")
            return number(size)
        known = self.named.get(root.__name__)
        if known is None:
            if value in (0, 1):
                self.broken.constant(dim.__name__, size, "")
                return number(size)
            made = self._symbol(value, root, where)
            self.named[root.__name__] = known = (root, str(made))
        elif (known[0].min, known[0].max) != (root.min, root.max):
            fail(UserError, "export", "one range for a name was required (Found different definitions)",
                 f"{known[0]!r} and {root!r}", hint="make one Dim and use it everywhere")  # fmt: skip
        if self.env.hints[known[1]] != value:
            name, usual = root.__name__, self.env.hints[known[1]]
            wanted = usual * dim.factor + dim.offset
            self.broken.add(
                name,
                f"Expected input {read_at(where)} to be equal to {dim.__name__}, where {name} = {usual}, but "
                f"got {size} ({where} should be equal to another size called {name}: {size} is not "
                f"{wanted})",
            )
        return symbol(known[1]) * number(dim.factor) + number(dim.offset)

    # ---------------------------------------------------------------- afterwards

    def ranges(self) -> dict[str, ValueRanges]:
        """The values that free symbols may have; raises where what was written does not hold."""
        self.broken.raise_any()
        found: dict[str, ValueRanges] = {}
        for name, (what, where) in self.written.items():
            known = self.env.replacements.get(name)
            if known is None:
                found[name] = _bounds_of(what)
            elif isinstance(what, Dim) or what.kind == "DYNAMIC":
                self._replaced(name, what, where, known)
        for name, (what, _) in self.written.items():
            known = self.env.replacements.get(name, number(0))
            for root in known.free_symbols & found.keys():
                found[root] = found[root].within(bounds_through(known, root, _bounds_of(what)))
        inferred = dict.fromkeys(found, ValueRanges(2, UNBOUNDED))
        for guard in self.env.guards:
            self._narrow(guard, found, inferred)
        self._check_hints(inferred)
        self.broken.raise_any()
        return {**found, **unbacked_ranges(self.env)}

    def _replaced(self, name: str, what: object, where: str, known: Expr) -> None:
        label, full = _label(what, where), _full(what, where)
        if known.constant is not None:
            self.broken.constant(label, known.constant, self._where(name))
            return
        others = sorted(known.free_symbols)
        if not isinstance(what, Dim) or any(
            not isinstance(self.written.get(other, (None, ""))[0], Dim) for other in others
        ):
            return  # relations to sizes without names are fine
        names = {other: self.written[other][0].__name__ for other in others}
        text = spelled(str(known), names)
        if known.symbol is not None:
            other = _full(*self.written[known.symbol])
            finding = f"The values of {full} and {other} must always be equal"
        elif len(others) == 1 and is_linear(known):
            other = _full(*self.written[others[0]])
            text = _in_order(known, names[others[0]])
            finding = (
                f"The values of {full} must always be related to the values of {other} by "
                f"{label} = {text}"
            )
        else:
            return  # what relates more than two sizes is a guard
        self.broken.add(label, finding + self._where(name), f"{label} = {text}")

    def _where(self, name: str) -> str:
        """The user's line that fixed a symbol."""
        for guard in self.env.guards:
            named = name in guard.left.free_symbols | guard.right.free_symbols
            if named and guard.relation == "==" and guard.stack:
                return f", here:\n{guard.stack}"
        return ""

    def _narrow(
        self, guard: ShapeGuard, found: dict[str, ValueRanges], inferred: dict[str, ValueRanges]
    ) -> None:
        """Take what a comparison says of one size into its range; a name's range has to hold already."""
        difference = self.env.simplified(guard.left) - self.env.simplified(guard.right)
        names = sorted(difference.free_symbols & found.keys())
        if len(names) != 1 or difference.free_symbols - found.keys():
            return  # a relation of several sizes is a guard
        name = names[0]
        what, where = self.written[name]
        bounds = solved(name, difference, guard.relation)
        if bounds is not None:
            inferred[name] = inferred[name].within(ValueRanges(*bounds))
        if always(difference, guard.relation, found):
            return
        if isinstance(what, Dim):
            self.broken.add(
                what.__name__,
                f"Not all values of {_full(what, where)} in the specified range {found[name]} "
                f"satisfy the generated guard {self._spelled(guard)}",
                self._suggestion(name, difference, guard.relation, found[name]),
            )
        elif bounds is not None:
            found[name] = found[name].within(ValueRanges(*bounds))

    def _spelled(self, guard: ShapeGuard) -> str:
        names = {n: w.__name__ for n, (w, _) in self.written.items() if isinstance(w, Dim)}
        text = spelled(guard.expr, names)
        return f"{text}\n{guard.stack}" if guard.stack else text

    def _suggestion(
        self, name: str, difference: Expr, relation: str, old: ValueRanges
    ) -> str | None:
        label = self.written[name][0].__name__
        factor = multiple_of(name, difference) if relation == "==" else None
        if factor is not None:
            return f"{label} = {factor}*_{label}"
        bounds = solved(name, difference, relation)
        if bounds is None:
            return None
        low, high = max(old.lower, bounds[0]), min(old.upper, bounds[1])
        low_text = "" if low <= 0 else f", min={low}"
        top = "" if high >= UNBOUNDED else f", max={high}"
        return f"{label} = Dim('{label}'{low_text}{top})"

    def _check_hints(self, inferred: dict[str, ValueRanges]) -> None:
        """Raise where bounds that were written for sizes without names leave no size, or one."""
        wrong = []
        for name, (what, where) in self.written.items():
            if isinstance(what, Dim) or (what.min is None and what.max is None):
                continue
            known = self.env.replacements.get(name)
            got = inferred.get(name) or (known is not None and inferred.get(known.symbol or ""))
            if not got:
                continue
            low = got.lower if what.min is None else max(what.min, got.lower)
            high = got.upper if what.max is None else min(what.max, got.upper)
            if low > high:
                top = "int_oo" if got.upper >= UNBOUNDED else got.upper
                wrong.append(
                    f"Received user-specified min/max range of [{what.min}, {what.max}], "
                    f"conflicting with the inferred min/max range of [{got.lower}, {top}], for "
                    f"{where}."
                )
            elif low == high and what.kind == "DYNAMIC":
                wrong.append(
                    f"Received user-specified dim hint Dim.DYNAMIC[{what.min}, {what.max}], but "
                    f"tracing inferred a static shape of {low} for dimension {where}."
                )
        _refuse_hints(wrong)


def _refuse_hints(findings: list[str]) -> None:
    if findings:
        fail(
            ValueError,
            "export",
            "hints that the example inputs and the program allow were required",
            "\n".join(f"\n- {text}" for text in findings),
            hint="Dim.AUTO lets export decide; give examples of sizes above 1 for what may change",
        )


def _bounds_of(what: Dim) -> ValueRanges:
    low = 0 if what.min is None else what.min
    return ValueRanges(low, UNBOUNDED if what.max is None else what.max)


def _label(what: object, where: str) -> str:
    """What a message calls a size: its name, or the place where it is read."""
    return what.__name__ if isinstance(what, Dim) else read_at(where)


def _full(what: object, where: str) -> str:
    return f"{what.__name__} = {read_at(where)}" if isinstance(what, Dim) else read_at(where)


def _in_order(expr: Expr, name: str) -> str:
    """A linear expression with its name first: `dimx + 1`, `2*dimx - 1`."""
    offset = expr.terms.get((), 0)
    (factor,) = [c for monomial, c in expr.terms.items() if monomial]
    scaled = name if factor == 1 else f"{factor}*{name}"
    return f"{scaled} {'-' if offset < 0 else '+'} {abs(offset)}" if offset else scaled


def unbacked_ranges(env: ShapeEnv) -> dict[str, ValueRanges]:
    """The values that numbers may have which a program reads from elements."""
    found = {}
    for name, bounds in env.unbacked.ranges.items():
        if name not in env.replacements:
            low, high = (int(max(-UNBOUNDED, min(end, UNBOUNDED))) for end in bounds)
            found[name] = ValueRanges(low, high)
    return found

"""Which sizes of a program's inputs may change, and whether the program allows it.

Takes: `dynamic_shapes` as users write them, and inputs. Gives: `Dim`, `dims`, `ShapesCollection`, fake
inputs whose sizes are symbols, and the ranges of these.
Keeps true: a size that was called a `Dim` is served over its whole range, or export fails and says
what to write instead; sizes that were left to us (`Dim.AUTO`) are fixed where the program needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.capture.errors import UserError
from facula.core.errors import fail, message
from facula.fx import _pytree as pytree
from facula.fx.shape_env import ShapeEnv, ShapeGuard
from facula.fx.symbolic_run import geometry_of
from facula.fx.symbols import Expr, number, symbol

__all__ = ["Dim", "DimHint", "Resolved", "ShapesCollection", "ValueRanges", "dims"]

Tensor = core.Tensor
#: the largest size that a range without an end has
UNBOUNDED = 2**63 - 2


@dataclass(frozen=True)
class ValueRanges:
    """The values that a symbol may have."""

    lower: int
    upper: int

    def __contains__(self, value: int) -> bool:
        return self.lower <= value <= self.upper

    def __repr__(self) -> str:
        low = "-int_oo" if self.lower <= -UNBOUNDED else self.lower
        return f"VR[{low}, {'int_oo' if self.upper >= UNBOUNDED else self.upper}]"


@dataclass(frozen=True)
class DimHint:
    """What becomes of a size without a name: `AUTO`, `DYNAMIC` or `STATIC`."""

    kind: str
    min: int | None = None
    max: int | None = None

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:  # noqa: A002
        """The same with bounds."""
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"


class Dim:
    """A size that may change: a name, and the least and largest value.

    ``2 * Dim("half")`` and ``Dim("n") + 1`` are sizes that follow from another. ``Dim.AUTO``,
    ``Dim.DYNAMIC`` and ``Dim.STATIC`` say the same without a name.

    Args:
        name: in programs and messages
        min, max: bounds; None for any

    Example:
        >>> batch = facula.export.Dim("batch", min=2, max=1024)
        >>> layer, x = facula.nn.Linear(2, 1), facula.ones(3, 2)
        >>> program = facula.export.export(layer, (x,), dynamic_shapes=({0: batch},))
        >>> program.module()(facula.ones(7, 2)).shape
        facula.Size([7, 1])
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        if not name.isidentifier():
            fail(
                ValueError,
                "Dim",
                "a name that is an identifier was required",
                repr(name),
                hint="for example Dim('batch')",
            )
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = UNBOUNDED if max is None else max
        #: the size is `factor * root + offset`
        self.root, self.factor, self.offset = self, 1, 0
        if self.max <= self.min:
            fail(
                AssertionError,
                "Dim",
                "a largest value above the least was required: Cannot create Dim with inconsistent",
                f"min={self.min}, max={self.max}",
                hint="leave max out for any size",
            )

    def _derived(self, factor: int, offset: int) -> Dim:
        if type(factor) is not int or type(offset) is not int or factor * self.factor <= 0:
            fail(
                NotImplementedError,
                "Dim",
                "an increasing linear function with whole numbers was required (Attempted to "
                f"derive from {self.__name__})",
                f"{factor} * {self.__name__} + {offset}",
                hint="for example 2 * dim + 1",
            )
        made = object.__new__(Dim)
        made.root = self.root
        made.factor, made.offset = factor * self.factor, factor * self.offset + offset
        made.min = made.factor * self.root.min + made.offset
        made.max = min(UNBOUNDED, made.factor * self.root.max + made.offset)
        scaled = made.root.__name__ if made.factor == 1 else f"{made.factor}*{made.root.__name__}"
        sign = "-" if made.offset < 0 else "+"
        made.__name__ = f"{scaled} {sign} {abs(made.offset)}" if made.offset else scaled
        return made

    def __add__(self, other: int) -> Dim:
        return self._derived(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -other)

    def __mul__(self, other: int) -> Dim:
        return self._derived(other, 0)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        top = "" if self.max >= UNBOUNDED else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{top})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:  # noqa: A002
    """Several `Dim`s with the same bounds.

    Args:
        *names: of each
        min, max: bounds; None for any

    Example:
        >>> rows, columns = facula.export.dims("rows", "columns", min=2)
        >>> rows.__name__, columns.__name__
        ('rows', 'columns')
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


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

    def __setitem__(self, tensor: Any, shape: Any) -> None:
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
        self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The shapes, nested as the arguments are."""
        seen: set[int] = set()

        def shape_of(x: Any) -> Any:
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


def _is_shape(x: Any) -> bool:
    """Whether this is the shape of one tensor."""
    if x is None:
        return True
    if isinstance(x, dict):
        return all(type(k) is int for k in x)
    return isinstance(x, (tuple, list)) and all(
        v is None or isinstance(v, (int, Dim, DimHint)) for v in x
    )


def _mismatch(path: str, required: str, got: Any) -> Any:
    return fail(
        UserError,
        "export",
        f"dynamic_shapes of the same structure as the inputs were required (Detected mismatch "
        f"between the structure of `inputs` and `dynamic_shapes`): {required} for {path}",
        repr(got),
        hint="None stands for a static input, or for one without tensors",
    )


def _walk(value: Any, shape: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Leaves of the inputs with their shapes."""
    if isinstance(value, Tensor):
        if not _is_shape(shape):
            _mismatch(path, "a shape", shape)
        yield value, shape, path
        return
    leaves, spec = pytree.tree_flatten(value)
    if spec.is_leaf() or shape is None:
        if shape is not None and shape is not Dim.AUTO:
            _mismatch(path, "None", shape)
        for leaf in leaves:
            yield leaf, None, path
        return
    entries = value.items() if isinstance(value, dict) else enumerate(_children(value))
    for key, child in entries:
        try:
            inner = shape[key]
        except (KeyError, IndexError, TypeError):
            _mismatch(f"{path}[{key!r}]", "an entry", shape)
        yield from _walk(child, inner, f"{path}[{key!r}]")
    if len(shape) != len(list(_children(value))):
        _mismatch(path, f"{len(list(_children(value)))} entries", shape)


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return value
    leaves, _ = pytree.tree_flatten(value)
    return leaves


def _by_dim(shape: Any, t: Any, path: str) -> dict[int, Any]:
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
        #: name of a Dim -> it, and its symbol
        self.named: dict[str, tuple[Dim, str]] = {}
        #: symbol -> what was written for it, and where
        self.written: dict[str, tuple[Any, str]] = {}

    def read(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> None:
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

    def give_symbols(self, real: Any, fake: Any) -> None:
        """Make the sizes of a fake input symbols, as was written for the real one."""
        shape, path = self.shapes.get(id(real), (None, ""))
        chosen = _by_dim(shape, real, path)
        sizes = [
            self._size(size, chosen.get(dim), f"{path}.shape[{dim}]")
            for dim, size in enumerate(Tensor.size(real))
        ]
        if any(e.constant is None for e in sizes):
            fake._symbolic = geometry_of(fake, sizes, self.env)

    def _size(self, size: int, what: Any, where: str) -> Expr:
        if isinstance(what, Dim):
            return self._named(size, what, where)
        if isinstance(what, int) and not isinstance(what, bool):
            if what != size:
                violated(where, f"the size is {size}", f"{where} = {size}")
            return number(size)
        if what is None or what.kind == "STATIC":
            return number(size)
        if size in (0, 1):
            if what.kind == "DYNAMIC":
                violated(where, _CONSTANT.format(where, size), f"{where} = {size}")
            return number(size)
        return self._symbol(size, what, where)

    def _symbol(self, size: int, what: Any, where: str) -> Expr:
        made = self.env.create_symbol(size, where)
        self.written[str(made)] = (what, where)
        return made

    def _named(self, size: int, dim: Dim, where: str) -> Expr:
        root = dim.root
        value, rest = divmod(size - dim.offset, dim.factor)
        if rest or not root.min <= value <= root.max or not dim.min <= size <= dim.max:
            violated(root.__name__, f"the size {size} of {where} is not in {dim!r}", None)
        known = self.named.get(root.__name__)
        if known is None:
            if value in (0, 1):
                violated(
                    root.__name__,
                    _CONSTANT.format(dim.__name__, value),
                    f"{root.__name__} = {value}",
                )
            made = self._symbol(value, root, where)
            self.named[root.__name__] = known = (root, str(made))
        elif (known[0].min, known[0].max) != (root.min, root.max):
            fail(UserError, "export", "one range for a name was required (Found different definitions)",
                 f"{known[0]!r} and {root!r}", hint="make one Dim and use it everywhere")  # fmt: skip
        if self.env.hints[known[1]] != value:
            name = root.__name__
            violated(name, f"{where} should be equal to another size called {name}: "
                     f"{value} is not {self.env.hints[known[1]]}", None)  # fmt: skip
        return symbol(known[1]) * number(dim.factor) + number(dim.offset)

    # ---------------------------------------------------------------- afterwards

    def ranges(self) -> dict[str, ValueRanges]:
        """The values that free symbols may have; raises where a written range does not hold."""
        found: dict[str, ValueRanges] = {}
        for name, (what, where) in self.written.items():
            known = self.env.replacements.get(name)
            if known is None:
                low = 0 if what.min is None else what.min
                high = UNBOUNDED if what.max is None else what.max
                found[name] = ValueRanges(low, high)
            elif isinstance(what, Dim) or what.kind == "DYNAMIC":
                self._replaced(name, what, where, known)
        for guard in self.env.guards:
            self._narrow(guard, found)
        return {**found, **unbacked_ranges(self.env)}

    def _replaced(self, name: str, what: Any, where: str, known: Expr) -> None:
        label = what.__name__ if isinstance(what, Dim) else where
        if known.constant is not None:
            value = known.constant
            violated(
                label, _CONSTANT.format(label, value) + self._where(name), f"{label} = {value}"
            )
        other = self.written.get(str(known))
        if not isinstance(what, Dim) and known.symbol is not None:
            return  # equal sizes without names are fine
        same = getattr(other[0], "__name__", str(known)) if other is not None else str(known)
        finding = f"the values of {label} and {same} must always be equal{self._where(name)}"
        violated(label, finding, f"{label} = {same}")

    def _where(self, name: str) -> str:
        """The user's line that fixed a symbol."""
        for guard in self.env.guards:
            named = name in guard.left.free_symbols | guard.right.free_symbols
            if named and guard.relation == "==" and guard.stack:
                return f", here:\n{guard.stack}"
        return ""

    def _narrow(self, guard: ShapeGuard, found: dict[str, ValueRanges]) -> None:
        """Take what a comparison says into the ranges; fails where a name's range is broken."""
        difference = self.env.simplified(guard.left) - self.env.simplified(guard.right)
        names = sorted(difference.free_symbols & found.keys())
        if not names or self._always(difference, guard.relation, found):
            return
        for name in names:
            what, _ = self.written[name]
            if isinstance(what, Dim):
                label = what.__name__
                violated(
                    label,
                    f"not all values of {label} in {found[name]} satisfy the guard "
                    f"{self._spelled(guard)}",
                    self._suggestion(name, difference, guard.relation, found[name]),
                )
        if len(names) == 1:
            bounds = _solved(names[0], difference, guard.relation)
            if bounds is not None:
                old = found[names[0]]
                found[names[0]] = ValueRanges(max(old.lower, bounds[0]), min(old.upper, bounds[1]))

    def _spelled(self, guard: ShapeGuard) -> str:
        text = guard.expr
        for name, (what, _) in self.written.items():
            if isinstance(what, Dim):
                text = text.replace(name, what.__name__)
        return f"{text}\n{guard.stack}" if guard.stack else text

    def _suggestion(
        self, name: str, difference: Expr, relation: str, old: ValueRanges
    ) -> str | None:
        bounds = _solved(name, difference, relation)
        if bounds is None:
            return None
        label = self.written[name][0].__name__
        low, high = max(old.lower, bounds[0]), min(old.upper, bounds[1])
        top = "" if high >= UNBOUNDED else f", max={high}"
        return f"{label} = Dim('{label}', min={low}{top})"

    @staticmethod
    def _always(difference: Expr, relation: str, ranges: dict[str, ValueRanges]) -> bool:
        """Whether a linear comparison holds at all corners of the ranges (sizes are at least 2)."""
        low = high = 0
        for monomial, factor in difference.terms.items():
            if not monomial:
                low, high = low + factor, high + factor
                continue
            (atom, power), *others = monomial
            if others or power != 1 or atom.op != "symbol" or str(atom.args[0]) not in ranges:
                return False
            bounds = ranges[str(atom.args[0])]
            ends = sorted((factor * max(bounds.lower, 2), factor * bounds.upper))
            low, high = low + ends[0], high + ends[1]
        return _HOLDS[relation](low, high)


def unbacked_ranges(env: ShapeEnv) -> dict[str, ValueRanges]:
    """The values that numbers may have which a program reads from elements."""
    found = {}
    for name, bounds in env.unbacked.ranges.items():
        if name not in env.replacements:
            low, high = (int(max(-UNBOUNDED, min(end, UNBOUNDED))) for end in bounds)
            found[name] = ValueRanges(low, high)
    return found


_CONSTANT = "you marked {} as dynamic but your code specialized it to be a constant ({})"
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    ">": lambda low, high: low > 0,
    ">=": lambda low, high: low >= 0,
    "<": lambda low, high: high < 0,
    "<=": lambda low, high: high <= 0,
    "!=": lambda low, high: low > 0 or high < 0,
    "==": lambda low, high: low == high == 0,
}


def _solved(name: str, difference: Expr, relation: str) -> tuple[int, int] | None:
    """The values of a symbol for which `a * symbol + b relation 0`, where that is an interval."""
    terms = dict(difference.terms)
    b = terms.pop((), 0)
    if len(terms) != 1 or relation in ("==", "!="):
        return None
    (monomial, a) = next(iter(terms.items()))
    if difference - symbol(name) * number(a) != number(b):
        return None
    strict = relation in ("<", ">")
    if relation in ("<", "<="):
        a, b = -a, -b
    if a > 0:  # a * s + b >= (strict: >) 0
        return (-b // a + 1 if strict else -(b // a)), UNBOUNDED
    return 0, (b - strict) // -a


def violated(name: str, what: str, suggestion: str | None) -> Any:
    """Raise the error of a size that may not change as was asked for."""
    text = message("export", f"sizes that may change as dynamic_shapes says were required "
                   f"(Constraints violated ({name})!)", what,
                   "the program is right for some of these sizes only")  # fmt: skip
    raise UserError(text + (f"\nSuggested fixes:\n  {suggestion}" if suggestion else ""))

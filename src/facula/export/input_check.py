"""Whether arguments are such as a program was exported for.

Takes: an exported program, and arguments. Gives: the flat inputs of its graph.
Keeps true: what the graph was not made for is refused, in the words of the arguments: `x.size()[0] <= 4`.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.export._tree_utils import in_order, reorder_kwargs
from facula.export.guard_texts import guard_text, relation_text
from facula.export.ranges import UNBOUNDED, is_linear
from facula.fx import _pytree as pytree
from facula.fx.symbols import Expr, number

Tensor = core.Tensor


class DtypeMismatch(AssertionError, RuntimeError):
    """A tensor of another dtype than that of the export: PyTorch has a guard or an operator that says so."""


class InputCheck:
    """Takes the arguments of an exported program apart, and refuses what it was not made for.

    Args:
        program: the exported program
        expected: for each leaf (sizes, dtype) of a tensor, or (None, value)
        names: of the leaves
    """

    def __init__(self, program: Any, expected: list[Any], names: list[str]) -> None:
        self.in_spec = program.in_spec
        self.expected = expected
        self.names = _paths(program.in_spec, program.argument_names, names)
        self.ranges = dict(program.ranges)
        self.guards = list(program.guards)
        #: symbol -> how messages write it
        self.read: dict[str, str] = {}
        #: symbol that no size is by itself -> a size that is larger by a number, and that number
        self.shifted: dict[str, tuple[str, int]] = {}
        for name, (shape, kind) in zip(self.names, expected, strict=True):
            if isinstance(kind, Expr) and kind.symbol is not None:
                self.read.setdefault(kind.symbol, name)
            for dim, size in enumerate(shape or ()):
                if size.symbol is not None:
                    self.read.setdefault(size.symbol, f"{name}.size()[{dim}]")

    def __deepcopy__(self, memo: object) -> InputCheck:
        return self  # it never changes

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments, which are such as are required."""
        return self.checked(self.leaves(args, kwargs))

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments, which are nested as in the export."""
        leaves, spec = pytree.tree_flatten((args, reorder_kwargs(kwargs, self.in_spec)))
        if spec != self.in_spec:
            leaves, spec = pytree.tree_flatten(in_order((args, kwargs), self.in_spec))
        if spec != self.in_spec:
            fail(
                ValueError,
                "export",
                f"arguments nested as in the export were required (Trying to flatten user inputs "
                f"with exported input tree spec): {self.in_spec}",
                spec,
                hint="pass arguments as they were given to export()",
            )
        return leaves

    def checked(self, leaves: list[Any]) -> list[Any]:
        """The leaves, which have the sizes, dtypes and values that are required."""
        sizes: dict[str, int] = {}
        for name, (shape, kind), leaf in zip(self.names, self.expected, leaves, strict=True):
            if isinstance(kind, Expr):
                self._check_int(name, leaf)
                if kind.symbol is not None:
                    sizes.setdefault(kind.symbol, leaf)
            elif shape is None:
                self._check_value(name, kind, leaf)
            else:
                self._check_tensor(name, shape, kind, leaf)
                for expected, size in zip(shape, leaf.shape, strict=True):
                    if expected.symbol is not None:
                        sizes.setdefault(expected.symbol, size)
        self._check_sizes(leaves, sizes)
        return leaves

    @staticmethod
    def _check_int(name: str, leaf: Any) -> None:
        if not isinstance(leaf, int) or isinstance(leaf, bool):
            fail(AssertionError, "export", f"an int was required for {name} (Guard failed: "
                 f"isinstance({name}, int))", type(leaf).__name__, hint="int(value) makes one")  # fmt: skip

    def _check_value(self, name: str, value: object, leaf: Any) -> None:
        if type(leaf) is not type(value) or leaf != value:
            fail(
                AssertionError,
                "export",
                f"the value {value!r} was required for {name}, which was a constant of the export "
                f"(Guard failed: {name} == {value!r})",
                repr(leaf),
                hint="export again for another value, or make it a tensor",
            )

    @staticmethod
    def _check_tensor(name: str, shape: tuple[Any, ...], dtype: core.dtype, leaf: Tensor) -> None:
        if not isinstance(leaf, Tensor):
            fail(AssertionError, "export", f"a tensor was required for {name} (Guard failed: {name})",
                 type(leaf).__name__, hint="facula.as_tensor(value) makes one")  # fmt: skip
        if leaf.dtype is not dtype:
            fail(DtypeMismatch, "export", f"{dtype} was required for {name} (Tensor dtype mismatch! Guard failed: "
                 f"{name}.dtype == {dtype})", leaf.dtype, hint=f"convert it with .to({dtype})")  # fmt: skip
        if leaf.dim() != len(shape):
            fail(AssertionError, "export", f"{len(shape)} dimensions were required for {name} "
                 f"(Guard failed: len({name}.size()) == {len(shape)})", tuple(leaf.shape),
                 hint="reshape it, or export again")  # fmt: skip

    def _check_sizes(self, leaves: list[Any], sizes: dict[str, int]) -> None:
        placed = [
            (f"{name}.size()[{dim}]", expected, size)
            for name, (shape, _), leaf in zip(self.names, self.expected, leaves, strict=True)
            if shape is not None
            for dim, (expected, size) in enumerate(zip(shape, leaf.shape, strict=True))
        ]
        placed += [
            (name, kind, leaf)
            for name, (_, kind), leaf in zip(self.names, self.expected, leaves, strict=True)
            if isinstance(kind, Expr)
        ]
        read = dict(self.read)
        for place, expected, size in placed:
            self._solve(place, expected, size, sizes, read)
        for place, expected, size in placed:
            if expected.symbol is not None:
                self._check_ranges({expected.symbol: size}, read)
            else:
                self._check_bounds(place, expected, size)
        self._check_ranges(sizes, read)
        first: dict[str, str] = {}  # the size that others of the same value are compared with
        for place, expected, size in placed:
            text = first.setdefault(str(expected), place)
            if expected.value(sizes) != size:
                if text == place:
                    text = relation_text(place, expected, self.read, self.shifted)
                else:
                    text = f"{place} == {text}"
                self._refuse(text, size, expected.value(sizes))
        for guard in self.guards:
            known = (guard.left.free_symbols | guard.right.free_symbols) <= sizes.keys()
            if known and not guard.holds(sizes):
                self._refuse(guard_text(guard, read), sizes)

    def _solve(
        self, place: str, expected: Expr, size: int, sizes: dict[str, int], read: dict[str, str]
    ) -> None:
        """Find a symbol that inputs hold only within a linear expression, such as `2*s0 + 1`."""
        unknown = expected.free_symbols - sizes.keys()
        if len(unknown) != 1 or len(expected.free_symbols) != 1 or not is_linear(expected):
            return
        (name,) = unknown
        offset = expected.terms.get((), 0)
        factor = (expected - number(offset)).value({name: 1})
        if (size - offset) % factor:
            shifted = f"{-offset} + {place}" if offset else place
            self._refuse(f"{shifted} % {factor} == 0", size)
        sizes[name] = (size - offset) // factor
        shifted = f"({-offset} + {place})" if offset else place
        if factor == 1:
            self.shifted[name] = place, offset
        read[name] = shifted if factor == 1 else f"({shifted} // {factor})"

    def _check_bounds(self, place: str, expected: Expr, size: int) -> None:
        """Refuse a size that is a multiple of a symbol, and a number, for no value which the symbol may have."""
        names = expected.free_symbols
        bounds = self.ranges.get(next(iter(names))) if len(names) == 1 else None
        if bounds is None or not is_linear(expected):
            return
        (name,) = names
        low, high = expected.value({name: bounds.lower}), expected.value({name: bounds.upper})
        if bounds.upper < UNBOUNDED and size > high > low:
            self._refuse(f"{place} <= {high}", size)
        if size < low < high:
            self._refuse(f"{place} >= {low}", size)

    def _check_ranges(self, sizes: dict[str, int], read: dict[str, str]) -> None:
        for name, size in sizes.items():
            bounds = self.ranges.get(name)
            if bounds is None or size in bounds:
                continue
            place = read.get(name, name)
            low = size < bounds.lower
            top = "int_oo" if bounds.upper >= UNBOUNDED else bounds.upper
            self._refuse(f"{place} >= {bounds.lower}" if low else f"{place} <= {top}", size)

    @staticmethod
    def _refuse(guard: str, got: object, wanted: int | None = None) -> None:
        fail(
            AssertionError,
            "export",
            "sizes for which the program was exported were required"
            + (f", {wanted} here" if wanted is not None else "")
            + f" (Guard failed: {guard})",
            got,
            hint="export again with dynamic_shapes, and Dim(min=, max=), that allow such sizes",
        )


class GuardsFn(nn.Module):
    """The part of an exported program's module that refuses inputs which it was not made for.

    Args:
        check: of the program
    """

    #: it refuses inputs, and stays in graphs that nobody reads it of
    _is_impure = True

    def __init__(self, check: InputCheck) -> None:
        super().__init__()
        self.check = check

    def forward(self, *leaves: Any) -> None:
        """Raise for leaves that are not such as are required."""
        self.check.checked(list(leaves))


class NestedAsExported:
    """A hook before the forward of an exported program's module: arguments are nested as in the export.

    Args:
        check: of the program
    """

    def __init__(self, check: InputCheck) -> None:
        self.check = check

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.check.leaves(args, kwargs)


def _paths(in_spec: pytree.TreeSpec, argument_names: list[str], names: list[str]) -> list[str]:
    """How the arguments' leaves are read: `x`, `xs['data'][0]`; their names where that is not known."""
    args, kwargs = pytree.tree_unflatten(list(range(len(names))), in_spec)
    if len(args) + len(kwargs) != len(argument_names):
        return names
    found: list[str] = []
    values = (*args, *[kwargs[name] for name in argument_names[len(args) :] if name in kwargs])
    if len(values) != len(argument_names):
        return names
    for name, value in zip(argument_names, values, strict=True):
        try:
            found += [name + pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(value)]
        except ValueError:  # a container without keys
            return names
    return found if len(found) == len(names) else names

"""The cases of the sweep: calls of every operator that must neither crash nor touch foreign memory.

Takes: an operator of the table, a dtype, a seed.
Gives: `cases`, an iterator of (description, action): the definition's own samples and calls made up
out of its schema, in every layout, functional, in place and with `out=`, with gradients twice.
Keeps true: the same operator, dtype and seed give the same cases in the same order, whichever of them
are run; an action may raise whatever it likes, and what it computes is looked at by nobody.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy

import facula
from facula.core import Tensor
from facula.ops import TABLE
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, layouts, map_tensors, pointwise_samples

Call = tuple[tuple[Any, ...], dict[str, Any]]
Case = tuple[str, Callable[[], Any]]

NAMES = list(own_operators())
DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
    "complex32 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 "
    "float8_e4m3fnuz float8_e5m2fnuz"
).split()
SHAPES = (
    (3, 4), (3, 4), (5,), (), (4, 4), (2, 3, 4), (2, 3, 5, 7), (1, 2, 6, 6), (0,), (0, 3), (2, 0, 3),
    (33, 17), (130,), (3, 1, 5), (2, 2, 3, 4, 5), (1,), (9, 1025), (3, 70001), (67, 66),
)  # fmt: skip
POINTWISE_SHAPES = ((3, 4), (), (0, 4), (7,), (2, 33), (5, 1, 3), (1, 70003))
WORDS = (
    "mean", "sum", "none", "constant", "reflect", "replicate", "circular", "tanh", "linear", "bilinear",
    "nearest", "bicubic", "ij", "xy", "zeros", "border", "left", "right", "valid", "same", "max", "amax",
    "amin", "prod", "fro", "nuc", "floor", "trunc", "ortho", "reduced", "complete", "L", "U", "higher",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, -1, 0.5, 2.5, -1.5, True, 1e30, float("nan"), float("inf"), 70000)


def seeded(*parts: Any) -> random.Random:
    """Random numbers that follow from the parts alone, in every process."""
    return random.Random(zlib.crc32(repr(parts).encode()))


# ---- layouts ----


def expanded(x: Tensor) -> Tensor:
    """The first element along each other dimension, repeated by strides of zero."""
    first = tuple(slice(0, 1) if d % 2 == 0 else slice(None) for d in range(x.dim()))
    return x.detach()[first].expand(x.shape) if x.numel() else x


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    **layouts,
    "expanded": expanded,
}


def arranged(call: Call, layout: str, numbers: random.Random) -> Call:
    """The call with its tensors in a layout; `mixed` gives each one its own."""

    def place(x: Tensor) -> Tensor:
        name = numbers.choice(list(LAYOUTS)) if layout == "mixed" else layout
        return LAYOUTS[name](x)

    args, kwargs = call
    return map_tensors(place, args), map_tensors(place, kwargs)


# ---- arguments ----


class Guesser:
    """Arguments made up out of a schema; most calls are errors, the others no sample has."""

    def __init__(self, definition: Any, dtype: Any, numbers: random.Random) -> None:
        self.definition, self.dtype, self.numbers = definition, dtype, numbers
        self.shape: tuple[int, ...] = numbers.choice(SHAPES)
        seed = numbers.randrange(1 << 30)
        self.samples, self.integers = Samples(dtype, seed), numpy.random.default_rng(seed)

    def tensor(self, name: str) -> Tensor:
        """A tensor of the call's shape and dtype, or of others."""
        n, shape = self.numbers, list(self.shape)
        chance = n.random()
        if chance < 0.1:
            shape = list(n.choice(SHAPES))
        elif chance < 0.2 and shape:
            shape[n.randrange(len(shape))] = 1
        elif chance < 0.3:
            shape = shape[1:]
        if any(part in name for part in ("ind", "target", "label", "offsets", "lengths")):
            low, high = (-9, 12) if n.random() < 0.2 else (0, max(1, min([*shape, 3])))
            kind = n.choice(("int64", "int64", "int32"))
            return facula.tensor(self.integers.integers(low, high, shape)).to(getattr(facula, kind))
        if "mask" in name or name == "condition":
            return self.samples.mask(*shape)
        dtype = self.dtype if n.random() < 0.85 else getattr(facula, n.choice(DTYPES))
        return self.samples(*shape, dtype=dtype)

    def integer(self) -> int:
        """Mostly a small one."""
        n = self.numbers
        return (
            n.choice((0, 1, 1, 2, 2, 3, -1, -2, 4)) if n.random() < 0.95 else n.choice((9, -7, 70))
        )

    def one(self, parameter: Any) -> Any:
        """A value of the parameter's base type."""
        n, kind = self.numbers, parameter.type
        if parameter.optional and n.random() < 0.2:
            return None
        if kind == "Tensor" or (kind == "Operand" and n.random() < 0.8):
            return self.tensor(parameter.name)
        if kind == "int":
            return self.integer()
        if kind == "dtype":
            return getattr(facula, n.choice(DTYPES))
        simple: dict[str, Callable[[], Any]] = {
            "bool": lambda: n.random() < 0.5,
            "float": lambda: n.choice(NUMBERS[:8]),
            "Number": lambda: n.choice(NUMBERS),
            "Operand": lambda: n.choice(NUMBERS),
            "str": lambda: n.choice(WORDS),
        }
        return simple[kind]() if kind in simple else None

    def value(self, parameter: Any) -> Any:
        """A value of the parameter, lists included."""
        if not parameter.is_list:
            return self.one(parameter)
        if parameter.optional and self.numbers.random() < 0.2:
            return None
        return [self.one(parameter) for _ in range(self.numbers.choice((0, 1, 1, 2, 2, 3, 4)))]

    def call(self) -> Call:
        """Arguments for one call."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for p in self.definition.schema.parameters:
            if p.has_default and (p.name == "out" or self.numbers.random() < 0.5):
                continue
            value = self.value(p)
            if p.keyword_only or kwargs or len(args) < self.position(p):
                kwargs[p.name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def position(self, parameter: Any) -> int:
        """Where the parameter stands."""
        return self.definition.schema.parameters.index(parameter)


def own_calls(definition: Any, dtype: Any, seed: int) -> Iterator[Call]:
    """The definition's samples, also with a first size of zero; of a pointwise one at several shapes."""
    if definition.kind == "pointwise":
        for shape in POINTWISE_SHAPES:
            yield from pointwise_samples(definition, Samples(dtype, seed), shape=shape)
    elif definition.samples is not None:
        yield from definition.samples(Samples(dtype, seed))
        yield from definition.samples(Samples(dtype, seed, empty=True))


def public(definition: Any) -> bool:
    """Whether users reach the operator; the arguments of others were checked by those that call them."""
    return any(not name.rpartition(".")[2].startswith("_") for name in definition.names)


def until_error(calls: Iterator[Call]) -> Iterator[Call]:
    """Samples that cannot be made (of a dtype that has no such numbers) end the series."""
    try:
        yield from calls
    except Exception:
        return


def calls(name: str, dtype: Any, seed: int, guesses: int) -> Iterator[tuple[str, Call]]:
    """Arguments for an operator, each with the name of its origin."""
    definition = TABLE[name].definition
    for number, call in enumerate(until_error(own_calls(definition, dtype, seed))):
        yield f"sample {number}", call
        if any(p.type == "dtype" for p in definition.schema.parameters) and "dtype" not in call[1]:
            for code in DTYPES:
                yield (
                    f"sample {number} to {code}",
                    (call[0], {**call[1], "dtype": getattr(facula, code)}),
                )
    for number in range(guesses if public(definition) else 0):
        try:
            yield (
                f"guess {number}",
                Guesser(definition, dtype, seeded(seed, name, dtype, number)).call(),
            )
        except Exception:
            continue


# ---- forms ----


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors of a nesting, in order."""
    found: list[Tensor] = []
    map_tensors(lambda x: found.append(x) or x, value)  # type: ignore[func-returns-value]
    return found


def differentiate(name: str, call: Call) -> None:
    """The gradient of the sum of the results, and the gradient of its square's sum."""

    def leaf(x: Tensor) -> Tensor:
        inexact = x.dtype.is_floating_point or x.dtype.is_complex
        return x.detach().requires_grad_() if inexact else x

    args, kwargs = map_tensors(leaf, call[0]), map_tensors(leaf, call[1])
    leaves = [x for x in tensors_of((args, kwargs)) if x.requires_grad]
    results = [x for x in tensors_of(TABLE[name](*args, **kwargs)) if x.requires_grad]
    if not leaves or not results:
        return
    total = sum(x.abs().sum() if x.dtype.is_complex else x.sum() for x in results)
    first = facula.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        square = sum(
            (g * g.conj()).real.sum() if g.dtype.is_complex else (g * g).sum() for g in again
        )
        facula.autograd.grad(square, leaves, allow_unused=True)


def in_place(name: str, call: Call) -> None:
    """The form that writes to its first argument, a copy in the same layout."""
    args, kwargs = call
    if not args or not isinstance(args[0], Tensor):
        return
    target = args[0].clone() if not args[0].is_contiguous() else args[0].detach().clone()
    TABLE[name].inplace(target, *args[1:], **kwargs)
    if not args[0].is_contiguous():
        TABLE[name].inplace(LAYOUTS["sliced"](args[0]), *args[1:], **kwargs)


def into(name: str, call: Call, numbers: random.Random) -> None:
    """`out=` of the right shape, too short, strided, and of another dtype."""
    args, kwargs = call
    expected = TABLE[name](*args, **kwargs)
    other = getattr(facula, numbers.choice(DTYPES))
    kinds: tuple[Callable[[Tensor], Tensor], ...] = (
        facula.empty_like,
        lambda x: facula.empty((0,), dtype=x.dtype),
        lambda x: LAYOUTS[numbers.choice(("sliced", "transposed", "offset"))](x.clone()),
        lambda x: facula.empty(x.shape, dtype=other),
    )
    for kind in kinds:
        try:
            TABLE[name](*args, **kwargs, out=map_tensors(kind, expected))
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
            continue


def forms(name: str, numbers: random.Random) -> dict[str, Callable[[Call], Any]]:
    """The ways to call an operator."""
    operator, definition = TABLE[name], TABLE[name].definition
    found: dict[str, Callable[[Call], Any]] = {
        "functional": lambda call: operator(*call[0], **call[1]),
        "gradients": lambda call: differentiate(name, call),
    }
    if definition.inplace:
        found["in place"] = lambda call: in_place(name, call)
    if definition.out:
        found["out="] = lambda call: into(name, call, numbers)
    return found


def told(value: Any) -> str:
    """An argument in a few letters."""
    if isinstance(value, Tensor):
        strides = "" if value.is_contiguous() else f" strides {tuple(value.stride())}"
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(told, value))}]"
    return repr(value)[:60]


def described(call: Call) -> str:
    """The arguments of a call in a line."""
    return ", ".join([*map(told, call[0]), *(f"{k}={told(v)}" for k, v in call[1].items())])


def run_case(
    action: Callable[[Call], Any], call: Call, layout: str, numbers: random.Random
) -> None:
    """Runs a form on a call in a layout."""
    action(arranged(call, layout, numbers))


def cases(name: str, dtype_name: str, seed: int, guesses: int) -> Iterator[Case]:
    """Every case of an operator and a dtype."""
    dtype = getattr(facula, dtype_name)
    for origin, call in calls(name, dtype, seed, guesses):
        numbers = seeded(seed, name, dtype_name, origin)
        chosen = [*LAYOUTS, "mixed"]
        if origin.startswith("guess") or " to " in origin:
            chosen = ["contiguous", numbers.choice([*LAYOUTS, "mixed"])]
        for layout in chosen:
            for form, action in forms(name, numbers).items():
                mixed = seeded(seed, name, dtype_name, origin, layout, form)
                text = f"{origin}, {layout}, {form}: {name}({described(call)})"
                yield text, partial(run_case, action, call, layout, mixed)

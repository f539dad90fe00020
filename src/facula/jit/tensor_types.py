"""Tensor types that say more: dtype, sizes, strides, device, and whether a gradient is asked for.

Takes tensors, or what is known of them. Gives types that stand wherever `Tensor` does.
Keeps true: such a type equals the plain `Tensor` of schemas; what it says more is for graphs' texts and for passes
that ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from facula import core
from facula.ops.table.schemas import types as T

__all__ = ["SCALAR_NAMES", "SOME", "TensorType", "joined", "known", "new_symbol", "of_tensor"]

#: the names of dtypes in the text of graphs
SCALAR_NAMES = {
    core.float32: "Float", core.float64: "Double", core.float16: "Half", core.bfloat16: "BFloat16",
    core.int64: "Long", core.int32: "Int", core.int16: "Short", core.int8: "Char", core.uint8: "Byte",
    core.bool: "Bool", core.complex64: "ComplexFloat", core.complex128: "ComplexDouble",
}  # fmt: skip


class TensorType(T.Type):
    """A tensor of which something is known; None where it is not, a negative number for a size that has a name only."""

    __slots__ = ("element", "place", "shape", "steps", "wants_gradient")

    def __init__(
        self,
        element: Any = None,
        shape: Sequence[int | None] | None = None,
        steps: Sequence[int | None] | None = None,
        place: Any = None,
        wants_gradient: bool | None = None,
    ) -> None:
        super().__init__("Tensor")
        self.element, self.place, self.wants_gradient = element, place, wants_gradient
        self.shape = None if shape is None else tuple(shape)
        self.steps = None if steps is None else tuple(steps)

    def facts(self) -> tuple[Any, ...]:
        """What is known, in the order of the constructor."""
        return self.element, self.shape, self.steps, self.place, self.wants_gradient

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorType):
            return self.facts() == other.facts()
        return isinstance(other, T.Type) and other.kind == "Tensor"

    def __hash__(self) -> int:
        return hash(("Tensor", ()))

    @property
    def annotation_str(self) -> str:
        """The type as an annotation."""
        return "Tensor"

    # PyTorch's names
    def sizes(self) -> list[int] | None:
        """The sizes, where all are known."""
        return self.symbolic_sizes() if self.is_complete() else None

    def is_complete(self) -> bool:
        """Whether all sizes are known."""
        return self.shape is not None and all(n is not None and n >= 0 for n in self.shape)

    def varyingSizes(self) -> list[int | None] | None:
        """The sizes; None for each that is not known."""
        if self.shape is None:
            return None
        return [n if n is not None and n >= 0 else None for n in self.shape]

    def symbolic_sizes(self) -> list[int] | None:
        """The sizes; a negative number, which is its name, for each that is not known."""
        return (
            None if self.shape is None else [new_symbol() if n is None else n for n in self.shape]
        )

    def strides(self) -> list[int] | None:
        """The strides, where all are known."""
        return None if self.steps is None or None in self.steps else list(self.steps)  # type: ignore[arg-type]

    def dim(self) -> int | None:
        """The number of dimensions, where it is known."""
        return None if self.shape is None else len(self.shape)

    def scalarType(self) -> str | None:
        """The name of the dtype."""
        return None if self.element is None else SCALAR_NAMES[self.element]

    def dtype(self) -> Any:
        """The dtype, where it is known."""
        return self.element

    def device(self) -> Any:
        """The device, where it is known."""
        return self.place

    def requires_grad(self) -> bool:
        """Whether a gradient may be asked for."""
        return self.wants_gradient is not False

    def with_sizes(self, sizes: Sequence[int | None] | None) -> TensorType:
        """The type with other sizes; None is a size of which no other one is known to be the same."""
        named = None if sizes is None else [new_symbol() if n is None else n for n in sizes]
        return TensorType(self.element, named, None, self.place, self.wants_gradient)

    def with_dtype(self, dtype: Any) -> TensorType:
        """The type with another dtype."""
        return TensorType(dtype, *self.facts()[1:])

    def with_device(self, device: Any) -> TensorType:
        """The type with another device."""
        return TensorType(self.element, self.shape, self.steps, device, self.wants_gradient)

    def dimensionedOnly(self) -> TensorType:
        """The type with the number of dimensions in place of sizes and strides."""
        ranks = None if self.shape is None else [None] * len(self.shape)
        return TensorType(self.element, ranks, None, self.place, self.wants_gradient)

    def isSubtypeOf(self, other: T.Type) -> bool:
        """Whether a tensor of the type is one of the other type, too: that says no more."""
        if not isinstance(other, TensorType):
            return super().isSubtypeOf(other)
        pairs = zip(self.facts(), other.facts(), strict=True)
        return all(_says_no_more(wanted, have) for have, wanted in pairs)

    def undefined(self) -> bool:
        """Whether there is no tensor at all."""
        return False

    def str(self) -> str:
        """The type as graphs show it."""
        return text_of(self)


def _says_no_more(wanted: Any, have: Any) -> bool:
    """Whether one fact of a type covers that of another."""
    if isinstance(wanted, tuple) and isinstance(have, tuple):
        pairs = zip(wanted, have, strict=False)
        return len(wanted) == len(have) and all(w is None or w < 0 or w == h for w, h in pairs)
    return wanted is None or wanted == have


_SYMBOLS = count(2)


def new_symbol() -> int:
    """The name of a size of which nothing is known: a negative number that no other size has.

    Example:
        >>> facula._C._new_symbolic_shape_symbol() < 0
        True
    """
    return -next(_SYMBOLS)


def of_tensor(tensor: core.Tensor) -> TensorType:
    """All that is known of a tensor."""
    strided = tensor.layout == core.strided and not tensor.is_quantized and not tensor.is_nested
    if not strided:
        return TensorType(tensor.dtype, None, None, tensor.device)
    steps = tensor.stride()
    return TensorType(
        tensor.dtype, tuple(tensor.shape), steps, tensor.device, bool(tensor.requires_grad)
    )


def joined(a: TensorType, b: TensorType) -> TensorType:
    """What is known of a tensor that is one of either type."""
    same = [x if x == y else None for x, y in zip(a.facts(), b.facts(), strict=True)]
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        pairs = zip(a.shape, b.shape, strict=True)
        same[1] = tuple(x if x == y else None for x, y in pairs)
    return TensorType(*same)


def text_of(kind: TensorType) -> str:
    """`Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)`, and less where less is known."""
    name = "Tensor" if kind.element is None else SCALAR_NAMES.get(kind.element, "Tensor")
    parts: list[str] = []
    if kind.shape is not None:
        parts = ["*" if n is None else f"SS({n})" if n < 0 else str(n) for n in kind.shape]
        if kind.steps is not None and None not in kind.steps and kind.is_complete():
            parts.append(f"strides=[{', '.join(map(str, kind.steps))}]")
    elif name != "Tensor":
        name += "Tensor"
    if kind.wants_gradient is not None:
        parts.append(f"requires_grad={int(kind.wants_gradient)}")
    if kind.place is not None:
        parts.append(f"device={kind.place}")
    return f"{name}({', '.join(parts)})" if parts or kind.shape is not None else name


#: a tensor of which nothing is known
SOME = TensorType()


def known(type: T.Type) -> TensorType:
    """What a type says of a tensor; nothing, for one that says no more than `Tensor`."""
    return type if isinstance(type, TensorType) else SOME

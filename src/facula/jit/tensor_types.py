"""Tensor types that say more: dtype, sizes, strides, device, and whether a gradient is asked for.

Takes tensors, or what is known of them. Gives types that stand wherever `Tensor` does.
Keeps true: such a type equals `Tensor`; what it says more is for graphs' texts and for passes that ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.ops.schemas import types as T

__all__ = ["SCALAR_NAMES", "TensorType", "known", "of_tensor"]

#: the names of dtypes in the text of graphs
SCALAR_NAMES = {
    core.float32: "Float", core.float64: "Double", core.float16: "Half", core.bfloat16: "BFloat16",
    core.int64: "Long", core.int32: "Int", core.int16: "Short", core.int8: "Char", core.uint8: "Byte",
    core.bool: "Bool", core.complex64: "ComplexFloat", core.complex128: "ComplexDouble",
}  # fmt: skip


class TensorType(T.Type):
    """A tensor of which something is known; None where it is not."""

    __slots__ = ("device", "dtype", "shape", "steps", "wants_gradient")

    def __init__(
        self,
        dtype: Any = None,
        shape: Sequence[int | None] | None = None,
        steps: Sequence[int | None] | None = None,
        device: Any = None,
        wants_gradient: bool | None = None,
    ) -> None:
        super().__init__("Tensor")
        self.dtype, self.device, self.wants_gradient = dtype, device, wants_gradient
        self.shape = None if shape is None else tuple(shape)
        self.steps = None if steps is None else tuple(steps)

    def __eq__(self, other: object) -> bool:
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
        return None if self.shape is None or None in self.shape else list(self.shape)  # type: ignore[arg-type]

    def varyingSizes(self) -> list[int | None] | None:
        """The sizes; None for each that is not known."""
        return None if self.shape is None else list(self.shape)

    def symbolic_sizes(self) -> list[int] | None:
        """The sizes; a negative number for each that is not known."""
        return (
            None
            if self.shape is None
            else [-1 - i if n is None else n for i, n in enumerate(self.shape)]
        )

    def strides(self) -> list[int] | None:
        """The strides, where all are known."""
        return None if self.steps is None or None in self.steps else list(self.steps)  # type: ignore[arg-type]

    def dim(self) -> int | None:
        """The number of dimensions, where it is known."""
        return None if self.shape is None else len(self.shape)

    def scalarType(self) -> str | None:
        """The name of the dtype."""
        return None if self.dtype is None else SCALAR_NAMES[self.dtype]

    def with_sizes(self, sizes: Sequence[int | None] | None) -> TensorType:
        """The type with other sizes."""
        return TensorType(self.dtype, sizes, None, self.device, self.wants_gradient)

    def with_dtype(self, dtype: Any) -> TensorType:
        """The type with another dtype."""
        return TensorType(dtype, self.shape, self.steps, self.device, self.wants_gradient)

    def with_device(self, device: Any) -> TensorType:
        """The type with another device."""
        return TensorType(self.dtype, self.shape, self.steps, device, self.wants_gradient)

    def undefined(self) -> bool:
        """Whether there is no tensor at all."""
        return False

    def str(self) -> str:
        """The type as graphs show it."""
        return text_of(self)


def of_tensor(tensor: core.Tensor) -> TensorType:
    """All that is known of a tensor."""
    strided = tensor.layout == core.strided and not tensor.is_quantized and not tensor.is_nested
    if not strided:
        return TensorType(tensor.dtype, None, None, tensor.device)
    return TensorType(
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.device,
        bool(tensor.requires_grad),
    )


def text_of(kind: TensorType) -> str:
    """`Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)`, and less where less is known."""
    name = SCALAR_NAMES.get(kind.dtype, "Tensor") if kind.dtype is not None else "Tensor"
    parts: list[str] = []
    if kind.shape is not None:
        parts = ["*" if n is None else str(n) for n in kind.shape]
        if kind.steps is not None and None not in kind.steps:
            parts.append(f"strides=[{', '.join(map(str, kind.steps))}]")
    if kind.wants_gradient is not None:
        parts.append(f"requires_grad={int(kind.wants_gradient)}")
    if kind.device is not None:
        parts.append(f"device={kind.device}")
    bare = kind.shape is None and not parts
    return name if bare else f"{name}({', '.join(parts)})"


def known(type: T.Type) -> TensorType:
    """What a type says of a tensor; nothing, for one that says no more than `Tensor`."""
    return type if isinstance(type, TensorType) else TensorType()

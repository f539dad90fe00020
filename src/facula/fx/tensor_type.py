"""Types of tensors by their shapes, for programs that check shapes in a graph.

Takes: numbers, symbols, and `Dyn` where nothing is known. Gives: `TensorType`, and how types stand to each other.
Keeps true: `Dyn` is consistent with everything; a type is more precise than one that says less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class TensorType:
    """The type of tensors with a shape.

    Args:
        dim: a number, a symbol or `Dyn` for each dimension.

    >>> from facula.fx.tensor_type import Dyn, TensorType
    >>> TensorType([1, Dyn]), TensorType[1, 2]
    (TensorType[1, Dyn], TensorType[1, 2])
    """

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """What stands for the dimensions."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{', '.join(map(str, self.__args__))}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(("TensorType", tuple(self.__args__)))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        dims = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return TensorType(tuple(dims))


class _DynType:
    """The type of what is not known."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash("Dyn")

    def __str__(self) -> str:
        return "Dyn"

    def __repr__(self) -> str:
        return "Dyn"


#: a dimension, or a type, of which nothing is known
Dyn = _DynType()


def _in_pairs(t1: object, t2: object, compared: Any) -> bool:
    """Whether two shapes have equally many dimensions that compare."""
    return (
        isinstance(t1, TensorType)
        and isinstance(t2, TensorType)
        and len(t1.dims) == len(t2.dims)
        and all(map(compared, t1.dims, t2.dims))
    )


def is_consistent(t1: object, t2: object) -> bool:
    """Whether two types, or dimensions, may be of the same tensor.

    Args:
        t1, t2: the types.

    >>> from facula.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType([1, Dyn]), TensorType([Dyn, 2])), is_consistent(1, 2)
    (True, False)
    """
    if t1 == t2 or t1 == Dyn or t2 == Dyn:
        return True
    return _in_pairs(t1, t2, is_consistent)


def is_more_precise(t1: object, t2: object) -> bool:
    """Whether the first type, or dimension, says all that the second one says.

    Args:
        t1, t2: the types.

    >>> from facula.fx.tensor_type import Dyn, TensorType, is_more_precise
    >>> is_more_precise(TensorType([1, 2]), TensorType([1, Dyn])), is_more_precise(Dyn, 1)
    (True, False)
    """
    if t1 == t2 or t2 == Dyn:
        return True
    return _in_pairs(t1, t2, is_more_precise)
